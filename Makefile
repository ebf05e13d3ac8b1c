# What CI runs is what a person runs. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup up test e2e envtest lint types check surface conformance bench mutants clean

help:  ## list the targets
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## (.*)/  \1|\2/' | column -t -s'|' 2>/dev/null \
	  || grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make the virtual environment

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

up: $(STAMP)  ## start a cluster on this machine that kubectl talks to, until Ctrl-C
	$(BIN)/kuberth up

test: $(STAMP)  ## run all tests but those on a real cluster
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) -m 'not e2e and not scale'

envtest:  ## build etcd, kube-apiserver, kubectl and kube-scheduler for e2e (needs Go, some ten minutes, once)
	hack/envtest/build

e2e: $(STAMP)  ## run the tests on a real kube-apiserver and etcd; without the programs they are skipped
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) tests/e2e -m 'e2e and not scale'

lint: $(STAMP)  ## ruff (rules and formatting) and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

check: lint types test  ## everything CI runs

surface: $(STAMP)  ## write down the public surface after it was changed on purpose
	$(BIN)/python -m tests.surface

conformance: $(STAMP)  ## replay what kube-scheduler answered, with counts per family
	$(BIN)/python -m tests.conformance

bench: $(STAMP)  ## micro-benchmarks: a scheduling cycle, the queue, the client, the embedded API server
	$(BIN)/python -m benchmarks.cycle
	$(BIN)/python -m benchmarks.queue
	$(BIN)/python -m benchmarks.client
	$(BIN)/python -m benchmarks.apiserver
	$(BIN)/python -m benchmarks.apiserver_verbs

mutants: $(STAMP)  ## which changes of the queue and of intake no test notices (slow)
	$(BIN)/python hack/mutants.py queue intake

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
