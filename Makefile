# `make demo` and `make test` set up everything they need; `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST_ARGS ?=
FIDELITY_ARGS ?=
IMAGE_ARGS ?=
SIMULATION_ARGS ?=

.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

format: $(READY) ## Format the code and sort its imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Throughput beside kube-scheduler, interleaved on the same control plane
	$(BIN)/python -m benchmarks.throughput

fidelity: $(READY) ## Compare every plugin with kube-scheduler's, over generated clusters
	$(BIN)/python -m hack.fidelity $(FIDELITY_ARGS)

fidelity-live: $(READY) ## Compare with the kube-scheduler binary on a real API server, pod by pod
	$(BIN)/python -m hack.fidelity.live $(FIDELITY_ARGS)

golden: $(READY) ## Record kube-scheduler's answers anew, for the tests that need no Go
	$(BIN)/python -m hack.fidelity --record tests/golden/plugins.jsonl

simulation: $(READY) ## Ten thousand runs in bad weather; every one is drawn from its seed
	$(BIN)/python -m hack.simulation $(SIMULATION_ARGS)

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

.PHONY: help setup demo test unit format bench fidelity fidelity-live golden simulation measure binaries manifests constraints image clean
