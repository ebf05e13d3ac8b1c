# What CI runs is what a person runs. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNNING := $(VENV)/.running
STAMP := $(VENV)/.installed
PIP := $(BIN)/pip --disable-pip-version-check
TEST_JOBS ?= 2
SEEDS ?= 1000
START ?= 1
LOCKING := --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --no-emit-index-url --no-strip-extras

.DEFAULT_GOAL := help
.PHONY: help setup lock up test coverage e2e envtest browser page pagetest lint types check surface reference conformance universe bench mutants clean

help:  ## list the targets
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## (.*)/  \1|\2/' | column -t -s'|' 2>/dev/null \
	  || grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make the virtual environment for development

$(RUNNING): pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --quiet --no-deps --editable .
	@$(BIN)/python -m compileall -q src  # what is installed as source would be compiled at every start
	@touch $@

$(STAMP): $(RUNNING) requirements-dev.lock
	$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@

lock: $(STAMP)  ## renew the pinned versions: requirements.lock (running), requirements-dev.lock (development), requirements-build.lock (the image)
	$(BIN)/uv pip compile $(LOCKING) pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile $(LOCKING) pyproject.toml --extra dev --output-file requirements-dev.lock
	sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml | $(BIN)/uv pip compile $(LOCKING) - --output-file requirements-build.lock

up: $(RUNNING)  ## start a cluster on this machine that kubectl talks to, until Ctrl-C
	$(BIN)/kuberth up

test: $(STAMP)  ## run all tests but those on a real cluster
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) -m 'not e2e and not scale and not browser'

coverage: $(STAMP)  ## run all tests and report which lines they reach (htmlcov/)
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) -m 'not e2e and not scale and not browser' --cov=kuberth --cov-report=term:skip-covered --cov-report=html

envtest:  ## build etcd, kube-apiserver, kubectl and kube-scheduler for e2e (needs Go, some ten minutes, once)
	hack/envtest/build

e2e: $(STAMP)  ## run the tests on a real kube-apiserver and etcd; without the programs they are skipped
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) tests/e2e tests/contract -m 'e2e and not scale'

browser:  ## install Chromium for pagetest, from Debian's packages, if it is not there
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core)

page:  ## build the page from page/ into the package (needs Node; what is built is committed)
	cd page && npm ci --no-audit --no-fund && npm run --silent check && npm run --silent build

pagetest: $(STAMP)  ## run the tests of the page in a real Chromium; without it they are skipped
	$(BIN)/python -m pytest -q tests/page -m 'browser and not scale'

lint: $(STAMP)  ## ruff (rules and formatting) and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

check: lint types test  ## everything CI runs

surface: $(STAMP)  ## write down the public surface after it was changed on purpose
	$(BIN)/python -m tests.surface

reference: $(STAMP)  ## write docs/reference.md anew from the docstrings
	$(BIN)/python -m hack.reference

conformance: $(STAMP)  ## replay what kube-scheduler answered, with counts per family
	$(BIN)/python -m tests.conformance

universe: $(STAMP)  ## play clusters with faults drawn from SEEDS seeds, from START on, and judge them
	$(BIN)/python -m tests.universe --seeds $(SEEDS) --start $(START)

bench: $(STAMP)  ## micro-benchmarks: a scheduling cycle, preemption, explain, extenders, the queue, a full cluster, the client, the embedded API server
	$(BIN)/python -m benchmarks.cycle
	$(BIN)/python -m benchmarks.calls
	$(BIN)/python -m benchmarks.gangs
	$(BIN)/python -m benchmarks.preemption
	$(BIN)/python -m benchmarks.explain
	$(BIN)/python -m benchmarks.extenders
	$(BIN)/python -m benchmarks.queue
	$(BIN)/python -m benchmarks.overload
	$(BIN)/python -m benchmarks.client
	$(BIN)/python -m benchmarks.apiserver
	$(BIN)/python -m benchmarks.apiserver_verbs

mutants: $(STAMP)  ## which changes of the scheduler no test notices (hours)
	$(BIN)/python hack/mutants.py queue intake framework scheduling binding outcomes

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
