# `make demo` and `make test` install everything that they need; `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST_ARGS ?=
BENCH_ARGS ?=
CONTENTION_ARGS ?=
DECISION_ARGS ?=
E2E_ARGS ?=
NODE_IMAGE_ARGS ?=
KUBERNETES ?=
FIDELITY_ARGS ?=
IMAGE_ARGS ?=
FAILOVERS_ARGS ?=
SIMULATION_ARGS ?=
KILLS_ARGS ?=
HOSTILE_ARGS ?=
RELOADS_ARGS ?=

.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "py-scheduler needs Python 3.11 or newer; select one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(READY) ## Create the virtual environment from pinned packages, checked by hash

demo: $(READY) ## Start a control plane with simulated nodes, schedule fourteen pods, show where and why
	$(BIN)/python -m hack.demo

test: $(READY) ## Run all checks: format, lint, types, import contracts, all tests
	$(BIN)/python -m hack.lanes $(PYTEST_ARGS)

unit: $(READY) ## Run the tests that need no control plane
	$(BIN)/python -m pytest -q tests/unit tests/golden tests/transcripts tests/simulation $(PYTEST_ARGS)

e2e: $(READY) ## Install the chart on a local control plane and run the scenarios of tests/e2e
	PY_SCHEDULER_KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest -q tests/e2e $(E2E_ARGS)

e2e-kind: $(READY) ## Run the same scenarios on a kind cluster, with the built image; needs Docker
	$(BIN)/python -m pytest -q tests/e2e --provider=kind $(E2E_ARGS)

kind-node-image: $(READY) ## Build a node image for kind without a registry; then make e2e-kind E2E_ARGS="--image ..."
	$(BIN)/python -m hack.kind_image $(NODE_IMAGE_ARGS)

format: $(READY) ## Format the code and sort its imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Measure throughput, latency, CPU and memory in turns with kube-scheduler and a null scheduler
	$(BIN)/python -m benchmarks.throughput $(BENCH_ARGS)

bench-preemption: $(READY) ## Measure throughput where every pod needs a preemption
	$(BIN)/python -m benchmarks.throughput --only preemption-basic --scale full --mode stream $(BENCH_ARGS)

bench-report: $(READY) ## Write tables and charts of committed results into docs/performance.md
	$(BIN)/python -m benchmarks.report

contention: $(READY) ## Run both schedulers on the same nodes for five minutes, with and without NodeTrust
	$(BIN)/python -m hack.contention $(CONTENTION_ARGS)

decision: $(READY) ## Measure decisions, cold and warm, by kind of pod, cluster size and plugin; memory of the cache
	$(BIN)/python -m benchmarks.decision $(DECISION_ARGS)

fidelity: $(READY) ## Compare with kube-scheduler: its plugins over generated clusters, then its binary
	$(BIN)/python -m hack.fidelity $(FIDELITY_ARGS)

fidelity-live: $(READY) ## Compare with the kube-scheduler binary only, pod by pod, on a real API server
	$(BIN)/python -m hack.fidelity --pods 0 $(FIDELITY_ARGS)

fidelity-preemption: $(READY) ## Compare preemptions with the kube-scheduler binary's in full clusters
	$(BIN)/python -m hack.fidelity.preemption $(FIDELITY_ARGS)

golden: $(READY) ## Record kube-scheduler's answers for the tests that need no Go
	$(BIN)/python -m hack.fidelity --record tests/golden/plugins.jsonl

simulation: $(READY) ## Run the scheduler ten thousand times with injected faults, each run from its seed
	$(BIN)/python -m hack.simulation $(SIMULATION_ARGS)

kills: $(READY) ## Kill the scheduler with -9 fifty times during preemptions, on a real control plane
	$(BIN)/python -m hack.kills $(KILLS_ARGS)

reloads: $(READY) ## Change the configuration five hundred times under load, on a real control plane
	$(BIN)/python -m hack.reloads $(RELOADS_ARGS)

hostile: $(READY) ## Measure what objects as large and odd as an API server accepts cost others
	$(BIN)/python -m hack.hostile $(HOSTILE_ARGS)

failovers: $(READY) ## Kill twenty leaders under load, pause one, share the lease with kube-scheduler
	$(BIN)/python -m hack.failovers $(FAILOVERS_ARGS)

measure: $(READY) ## Print the size and shape of the code, and the path of a pod through it
	$(BIN)/python -m hack.measure

binaries: $(READY) ## Find or build the pinned control plane binaries
	$(BIN)/python -m hack.binaries

manifests: $(READY) ## Render the chart's RBAC rules and deploy/
	$(BIN)/python -m hack.manifests

constraints: $(READY) ## Update constraints*.txt from pyproject.toml
	$(PYTHON) -m venv .venv/uv && .venv/uv/bin/python -m pip install --quiet uv
	.venv/uv/bin/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-emit-index-url --upgrade --quiet -o constraints.txt
	.venv/uv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 -c constraints.txt \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --quiet -o constraints-runtime.txt
	.venv/uv/bin/uv pip compile --group build --universal --python-version 3.11 -c constraints.txt \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --quiet -o constraints-build.txt

image: ## Build the image with Docker
	DOCKER_BUILDKIT=1 docker build -t py-scheduler $(IMAGE_ARGS) .

clean: ## Remove what make created here; binaries stay in the user's cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help
.PHONY: setup
.PHONY: demo
.PHONY: test
.PHONY: unit
.PHONY: e2e
.PHONY: e2e-kind
.PHONY: kind-node-image
.PHONY: format
.PHONY: bench
.PHONY: bench-preemption
.PHONY: bench-report
.PHONY: contention
.PHONY: decision
.PHONY: fidelity
.PHONY: fidelity-live
.PHONY: fidelity-preemption
.PHONY: golden
.PHONY: simulation
.PHONY: kills
.PHONY: reloads
.PHONY: hostile
.PHONY: failovers
.PHONY: measure
.PHONY: binaries
.PHONY: manifests
.PHONY: constraints
.PHONY: image
.PHONY: clean
