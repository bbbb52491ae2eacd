# `make demo` and `make test` set up everything they need; `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST_ARGS ?=
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
RELOADS_ARGS ?=

.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "py-scheduler needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(READY) ## Make the virtual environment, from pinned and hashed packages

demo: $(READY) ## A real control plane, simulated nodes, py-scheduler, and where every pod went
	$(BIN)/python -m hack.demo

test: $(READY) ## Everything that must hold: format, lint, types, room picture, all tests
	$(BIN)/python -m hack.lanes $(PYTEST_ARGS)

unit: $(READY) ## The tests that need no control plane
	$(BIN)/python -m pytest -q tests/unit tests/golden tests/transcripts tests/simulation $(PYTEST_ARGS)

e2e: $(READY) ## Scenarios in the users' words, on the local control plane, the chart installed by Helm
	PY_SCHEDULER_KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest -q tests/e2e $(E2E_ARGS)

e2e-kind: $(READY) ## The same scenarios on a kind cluster: image built and loaded; needs Docker
	$(BIN)/python -m pytest -q tests/e2e --provider=kind $(E2E_ARGS)

kind-node-image: $(READY) ## Nodes for kind where no registry is reached; then make e2e-kind E2E_ARGS="--image ..."
	$(BIN)/python -m hack.kind_image $(NODE_IMAGE_ARGS)

format: $(READY) ## Format the code and sort its imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Throughput beside kube-scheduler, interleaved on the same control plane
	$(BIN)/python -m benchmarks.throughput

bench-preemption: $(READY) ## The same where room has to be made for every pod
	$(BIN)/python -m benchmarks.throughput --workload preemption-basic --mode stream

contention: $(READY) ## Both schedulers on the same nodes for five minutes, with and without NodeTrust
	$(BIN)/python -m hack.contention $(CONTENTION_ARGS)

decision: $(READY) ## What one decision costs, by the kind of pod: 5,000 nodes, 10,000 pods
	$(BIN)/python -m benchmarks.decision $(DECISION_ARGS)

fidelity: $(READY) ## Compare with kube-scheduler: its plugins over generated clusters, then the program itself
	$(BIN)/python -m hack.fidelity $(FIDELITY_ARGS)

fidelity-live: $(READY) ## The live part alone: the kube-scheduler binary on a real API server, pod by pod
	$(BIN)/python -m hack.fidelity --pods 0 $(FIDELITY_ARGS)

fidelity-preemption: $(READY) ## Compare preemptions with the kube-scheduler binary's, in full clusters
	$(BIN)/python -m hack.fidelity.preemption $(FIDELITY_ARGS)

golden: $(READY) ## Record kube-scheduler's answers anew, for the tests that need no Go
	$(BIN)/python -m hack.fidelity --record tests/golden/plugins.jsonl

simulation: $(READY) ## Ten thousand runs with injected faults, each drawn from its seed
	$(BIN)/python -m hack.simulation $(SIMULATION_ARGS)

kills: $(READY) ## kill -9 while room is being made, fifty times, on a real control plane
	$(BIN)/python -m hack.kills $(KILLS_ARGS)

reloads: $(READY) ## Five hundred changes of the configuration under load, on a real control plane
	$(BIN)/python -m hack.reloads $(RELOADS_ARGS)

failovers: $(READY) ## Twenty leaders killed under load, one paused, and the lease shared with kube-scheduler
	$(BIN)/python -m hack.failovers $(FAILOVERS_ARGS)

measure: $(READY) ## The shape of the code: lengths of files and functions, tests to code
	$(BIN)/python -m hack.measure

binaries: $(READY) ## Find or build the pinned control plane binaries
	$(BIN)/python -m hack.binaries

manifests: $(READY) ## Write the chart's RBAC rules and deploy/ anew
	$(BIN)/python -m hack.manifests

constraints: $(READY) ## Renew constraints*.txt from pyproject.toml
	$(PYTHON) -m venv .venv/uv && .venv/uv/bin/python -m pip install --quiet uv
	.venv/uv/bin/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-emit-index-url --upgrade --quiet -o constraints.txt
	.venv/uv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 -c constraints.txt \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --quiet -o constraints-runtime.txt
	.venv/uv/bin/uv pip compile --group build --universal --python-version 3.11 -c constraints.txt \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --quiet -o constraints-build.txt

image: ## Build the image with the Docker engine at hand
	DOCKER_BUILDKIT=1 docker build -t py-scheduler $(IMAGE_ARGS) .

clean: ## Remove what make made here; binaries stay in the user's cache
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
.PHONY: contention
.PHONY: decision
.PHONY: fidelity
.PHONY: fidelity-live
.PHONY: fidelity-preemption
.PHONY: golden
.PHONY: simulation
.PHONY: kills
.PHONY: reloads
.PHONY: failovers
.PHONY: measure
.PHONY: binaries
.PHONY: manifests
.PHONY: constraints
.PHONY: image
.PHONY: clean
