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
RUNS ?= 1000
MINUTES ?= 60
TARGET ?= run
TAG ?= v$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/kuberth/__init__.py)
IMAGE ?= kuberth
LOCKING := --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --no-emit-index-url --no-strip-extras

.DEFAULT_GOAL := help
.PHONY: help setup lock up test coverage e2e envtest browser page pagetest site lint types check surface reference diagrams animation dist imagesteps chart image tagged publish conformance universe histories soak bench mutants clean

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

envtest:  ## build etcd, kube-apiserver, kubectl, kube-scheduler and helm, and unpack Prometheus, for e2e (needs Go, some twelve minutes, once)
	hack/envtest/build

e2e: $(STAMP)  ## run the tests on a real kube-apiserver and etcd; without the programs they are skipped
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) tests/e2e tests/contract -m 'e2e and not scale'

browser:  ## install Chromium for pagetest, from Debian's packages, if it is not there
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core)

page:  ## build the page from page/ into the package (needs Node; what is built is committed)
	cd page && npm ci --no-audit --no-fund && npm run --silent check && npm run --silent build

pagetest: $(STAMP)  ## run the tests of the page in a real Chromium; without it they are skipped
	$(BIN)/python -m pytest -q tests/page -m 'browser and not scale'

site: $(STAMP)  ## build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

lint: $(STAMP)  ## ruff (rules and formatting) and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

check: lint types test  ## lint, types and tests, before a commit; CI also runs the targets of .ci/run

surface: $(STAMP)  ## write down the public surface after it was changed on purpose
	$(BIN)/python -m tests.surface

reference: $(STAMP)  ## write docs/reference.md from the docstrings, and docs/commands.md from the commands
	$(BIN)/python -m hack.reference
	$(BIN)/python -m hack.commands

diagrams: $(STAMP)  ## draw the diagrams and badges of docs/images from their texts and facts
	$(BIN)/python -m hack.diagrams
	$(BIN)/python -m hack.badges

animation: $(STAMP)  ## play `kuberth demo` in a terminal and make the README's animation of it
	$(BIN)/python -m hack.animation

dist: $(STAMP)  ## build wheel and sdist into dist/, twice and alike, and try the wheel with each Python there is
	$(BIN)/python -m hack.dist $(foreach version,$(PYTHONS),--python $(version))

imagesteps: $(STAMP)  ## run the steps of deploy/Dockerfile into a folder, and the result as a pod would
	$(BIN)/python -m hack.image_steps

chart:  ## check the Helm chart and pack it into dist/, for the image REPOSITORY@DIGEST if given (builds helm with Go, once)
	@rm -rf build/chart && mkdir -p build && cp -r deploy/chart build/chart
	@$(if $(REPOSITORY),sed -i 's|^  repository: .*|  repository: $(REPOSITORY)|' build/chart/kuberth/values.yaml)
	@$(if $(DIGEST),sed -i 's|^  digest: .*|  digest: $(DIGEST)|' build/chart/kuberth/values.yaml)
	helm=$$(hack/envtest/build helm)/helm && $$helm lint --strict --quiet build/chart/kuberth \
	  && $$helm package build/chart/kuberth --destination dist

image:  ## build the image IMAGE:TAG with docker; with PUSH=1 push it, with provenance and bill of materials
	@mkdir -p dist
	$(if $(PUSH),docker buildx create --use --driver docker-container) # the default driver writes no attestations
	docker buildx build --file deploy/Dockerfile --build-arg COMMIT=$$(git rev-parse HEAD) --tag $(IMAGE):$(TAG:v%=%) \
	  --metadata-file dist/image.json $(if $(PUSH),--push --provenance=mode=max --sbom=true,--load) .

tagged: $(STAMP)  ## check that the tree is the release TAG, and print its notes
	@$(BIN)/python -m hack.tagged $(TAG)

publish: $(STAMP)  ## upload the packages of dist/ to PyPI, as the workflow that PyPI trusts
	$(BIN)/uv publish --trusted-publishing always dist/*.whl dist/*.tar.gz

conformance: $(STAMP)  ## replay what kube-scheduler answered, with counts per family
	$(BIN)/python -m tests.conformance

universe: $(STAMP)  ## play clusters with faults drawn from SEEDS seeds, from START on, and judge them
	$(BIN)/python -m tests.universe --seeds $(SEEDS) --start $(START)

histories: $(STAMP)  ## play RUNS histories of the local API server's store, from START on, with kills and disk faults, and check them
	$(BIN)/python -m tests.histories --runs $(RUNS) --start $(START)

soak: $(STAMP)  ## run `kuberth run` (TARGET=up: `kuberth up`) for MINUTES under churn and restarts, and report what grows
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --target $(TARGET)

bench: $(STAMP)  ## micro-benchmarks: a scheduling cycle, plugins, preemption, explain, extenders, the queue, a full cluster, the client, the embedded API server
	$(BIN)/python -m benchmarks.cycle
	$(BIN)/python -m benchmarks.calls
	$(BIN)/python -m benchmarks.plugins
	$(BIN)/python -m benchmarks.starts
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
	$(BIN)/python hack/mutants.py queue intake framework scheduling binding outcomes explaining plugins/dynamic_resources cel

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
