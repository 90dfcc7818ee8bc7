# make help lists the targets. Everything is installed into .venv; nothing else on the machine is changed, except that
# test-browser, run as root, installs Debian's Chromium if there is none.

PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin/python

# Tests of fast code against plain Python, whose sizes a hypothesis profile sets.
PROPERTIES := tests/kernels tests/scoring tests/http/wire/test_fast_path.py tests/http/trainers/test_trainer_requests.py \
	tests/http/trainers/test_prompt_removal.py
# Tests of every part of the product that need few processes, for `make check`: property tests on few examples.
QUICK := tests/config tests/deploy tests/examples tests/explain tests/http/wire tests/kernels tests/packaging tests/report \
	tests/scoring --ignore=tests/packaging/test_snippets.py --ignore=tests/packaging/test_docs_site.py --ignore=tests/scoring/test_forks.py \
	--ignore=tests/scoring/test_out_of_memory.py
# Many tests wait for processes and deadlines, so that two cores have time for six of them.
PARALLEL := -n 6 --dist loadfile
# Tests most of which start processes: they run in forks of one process, and for `make test-fresh` in fresh interpreters.
PROCESSES := tests/cli tests/clients tests/conformance tests/deploy tests/files tests/http
# Tests of libraries that make test does not install: without them they are skipped, or find only equal texts.
OPTIONAL = $(shell grep -rlE '"(datasketch|kubernetes_validate|locust|pint|prepare|scipy)\b|kubectl' tests --include='test_*.py') \
	tests/packaging/test_snippets.py
FUZZERS := $(basename $(notdir $(wildcard tests/fuzz/fuzz_*.py)))

.DEFAULT_GOAL := help
.PHONY: help demo serve check test faults test-all test-fresh soak test-lowest word-lists test-browser test-ray test-trainers test-environments \
	audit attacks nightly mutants fuzz coverage lint docs hooks bench load constraints image wheel clean

help: ## List the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-18s%s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

##@ Use

demo: $(VENV)/.installed ## Start the service, score example rollouts, explain three
	@$(RUN) examples/demo.py

serve: $(VENV)/.installed ## Run the service on http://127.0.0.1:8000 until Ctrl-C
	@$(VENV)/bin/assay serve

##@ Develop

check: lint ## Check style and types, run the quick tests (two minutes)
	$(RUN) -m pytest $(PARALLEL) --hypothesis-profile=quick -m 'not slow' $(QUICK)

test: $(VENV)/.installed-test ## Run the tests that any change can break (five minutes)
	$(RUN) -m pytest $(PARALLEL) -m 'not slow'

faults: $(VENV)/.installed-dev ## Run what make test leaves out: long waits, all sizes, faults on purpose, optional libraries
	ASSAY_TEST_FRESH=1 $(RUN) -m pytest $(PARALLEL) -m 'slow or word_lists'
	$(RUN) -m pytest $(PARALLEL) -m 'not slow' $(OPTIONAL)
	$(RUN) -m pytest tests/faults -o python_files='fault_*.py' -m 'not soak' -s

test-all: test faults ## Run both

lint: $(VENV)/.installed-dev ## Check style, spelling and types
	$(RUN) -m ruff check .
	$(RUN) -m codespell_lib
	$(RUN) -m ruff format --check .
	MYPYPATH=$(VENV)/types $(RUN) -m mypy

docs: $(VENV)/.installed-docs ## Build the documentation into site/; broken links are errors
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "Open site/index.html"

hooks: $(VENV)/.installed-dev ## Install Git hooks that check style before every commit
	$(VENV)/bin/pre-commit install

##@ Test more

test-fresh: $(VENV)/.installed-test ## Run the tests of processes on fresh interpreters, not on forks
	ASSAY_TEST_FRESH=1 $(RUN) -m pytest $(PARALLEL) -m 'not slow' $(PROCESSES)

soak: $(VENV)/.installed-faults ## Run the faults that take an hour: hundreds of drains, signals at any moment, minutes of load
	$(RUN) -m pytest tests/faults -o python_files='fault_*.py' -m soak -s

test-lowest: $(VENV)-lowest/.installed ## Test with the lowest versions that pyproject.toml allows
	$(VENV)-lowest/bin/python -m pytest $(PARALLEL) -m 'not slow' --ignore=tests/http/limits tests/packaging tests/config tests/http \
		tests/scoring/test_scorer_twin.py tests/files/test_columns.py tests/cli/test_cli_commands.py

word-lists: $(VENV)/.installed-test ## Download NLTK's model of sentences for tests of BLEU and METEOR
	@$(RUN) -m tests.evaluate.word_lists

test-browser: $(VENV)/.installed-browser ## Test the playground, reports, /docs and the site in a browser
	@$(RUN) -m tests.browser.run

test-ray: $(VENV)-ray/.installed ## Run the tests that need Ray, in a separate environment
	$(VENV)-ray/bin/python -m pytest tests/on_ray

test-trainers: $(VENV)/.installed $(VENV)-trainers/.installed ## Run trainers' own code against a service (installs 3 GB)
	ASSAY_COMMAND=$(abspath $(VENV))/bin/assay PYTHONPATH=$(abspath clients) $(VENV)-trainers/bin/python -P -m pytest \
		-c tests/trainers/pytest.ini --rootdir=. --confcutdir=tests/trainers tests/trainers

test-environments: $(VENV)/.installed-test ## Run frameworks' own commands against a service (ONLY=openenv)
	@$(RUN) tests/environments/run.py $(ONLY)

attacks: $(VENV)/.installed-test ## Try every known attack; the long ones are in make soak
	$(RUN) -m pytest $(PARALLEL) -m attack

nightly: $(VENV)/.installed-test ## Compare compiled code with plain Python on many examples
	$(RUN) -m pytest --hypothesis-profile=nightly $(PROPERTIES)

mutants: $(VENV)/.installed-test ## List changes of the code that no test notices, of 200 (SAMPLE=… SEED=… FILES=…)
	@$(RUN) -m tests.mutants --jobs 2 --sample $(or $(SAMPLE),200) --seed $(or $(SEED),0) $(FILES)

fuzz: $(VENV)/.installed-test ## Fuzz every request format for ten minutes (installs atheris)
	@$(RUN) -m pip install --quiet --disable-pip-version-check 'atheris>=2.3'
	@set -e; for target in $(FUZZERS); do \
		echo $$target; $(RUN) -m tests.fuzz.$$target -max_total_time=$$(($(or $(SECONDS),600) / $(words $(FUZZERS)))); done

coverage: $(VENV)/.installed-dev ## Measure how much of the kernels the tests cover; less than 93 % fails
	NUMBA_DISABLE_JIT=1 $(RUN) -m coverage run --source=kernels -m pytest $(PROPERTIES) \
		--ignore=tests/scoring/test_scorer_extreme_settings.py
	$(RUN) -m coverage report --omit=kernels/compiler.py,kernels/warmup.py --show-missing --skip-covered --fail-under=93

audit: $(VENV)/.installed-dev $(VENV)-audit/.installed ## Check installed packages for known vulnerabilities (online)
	@$(VENV)-audit/bin/python deploy/audit.py $(VENV)/lib/python*/site-packages $(VENV)-audit/bin/pip-audit

##@ Measure

bench: $(VENV)/.installed ## Measure throughput beside its floor and plain Python
	@$(VENV)/bin/assay bench

load: $(VENV)/.installed-dev ## Load-test a service and check every answer (URL=… KEY=… ONLY="…")
	@$(if $(KEY),ASSAY_API_KEY='$(KEY)') $(VENV)/bin/assay bench --scenarios '$(or $(ONLY),all)' $(if $(URL),--url '$(URL)')

##@ Release

constraints: $(VENV)/.installed-dev ## Pin the image's dependencies in deploy/constraints.txt
	@$(RUN) -m uv pip compile --quiet --upgrade --python-version 3.11 --python-platform linux --no-header --no-annotate \
		--no-emit-index-url $(foreach extra,arrow lexical otel prepare zstd,--extra $(extra)) -o deploy/constraints.txt pyproject.toml

image: ## Build the image with buildah and start it (root; BASE=…)
	@deploy/image.sh $(BASE)

# Its tag names the platform, because it has machine code; without kernels: python -m build
wheel: $(VENV)/.installed-dev ## Build a wheel with compiled kernels into dist/, for this version of Python
	rm -rf build/wheel
	$(RUN) -m build --wheel --outdir build/wheel
	$(RUN) -m wheel unpack --dest build/wheel build/wheel/*.whl
	cd build/wheel/*/ && PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 $(abspath $(RUN)) $(abspath deploy/kernels.py)
	$(RUN) -m wheel pack --dest-dir build/wheel build/wheel/*/
	$(RUN) -m wheel tags --remove $$($(RUN) -c 'import sysconfig as s; python = "cp" + s.get_config_var("py_version_nodot"); \
		print("--python-tag", python, "--abi-tag", python, "--platform-tag", s.get_platform().replace("-", "_"))') build/wheel/*.whl
	mkdir -p dist && mv build/wheel/*.whl dist/

clean: ## Remove the environment and everything built
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-ray $(VENV)-audit $(VENV)-trainers $(VENV)-environments build dist site *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage* htmlcov

# A stamp is newer than pyproject.toml if its requirements are installed.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Assay needs Python 3.11 or later; name one: make $(or $(MAKECMDGOALS),demo) PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV): a minute or two, 360 MB …"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	@echo "Installing what the tests need: a minute or two, 650 MB in all …"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-test
	@echo "Installing linters and optional libraries: some minutes, 1.3 GB in all …"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@mkdir -p $(VENV)/types && ln -sfn "$(CURDIR)" $(VENV)/types/assay  # for mypy: the package `assay` is this folder
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	@echo "Installing MkDocs …"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	@touch $@

$(VENV)/.installed-browser: $(VENV)/.installed-docs
	@echo "Installing browser automation …"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs,browser]'
	@touch $@

$(VENV)-lowest/.installed: $(VENV)/.installed-dev
	@echo "Setting up $(VENV)-lowest …"
	@$(PYTHON) -m venv $(VENV)-lowest
	@$(RUN) -m uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct --editable '.[test]'
	@touch $@

# Ray is large, and the suite would start clusters if it were in the suite's environment.
$(VENV)-ray/.installed: pyproject.toml
	@$(PYTHON) -m venv $(VENV)-ray
	@$(VENV)-ray/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[ray]' httpx hypothesis psutil pytest
	@touch $@

$(VENV)-audit/.installed:
	@$(PYTHON) -m venv $(VENV)-audit
	@$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.7'
	@touch $@

# Trainers require GPUs and conflicting versions: they are installed without their dependencies, of which their reward
# code needs few. The service is not installed here.
$(VENV)-trainers/.installed: tests/trainers/requirements.txt tests/trainers/trainers.txt tests/trainers/oldest.txt
	@echo "Setting up $(VENV)-trainers, which takes 3 GB …"
	@$(PYTHON) -m venv $(VENV)-trainers
	@$(VENV)-trainers/bin/python -m pip install --quiet --disable-pip-version-check -r tests/trainers/requirements.txt
	@$(VENV)-trainers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python -r tests/trainers/trainers.txt
	@$(VENV)-trainers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(VENV)-trainers/trl-oldest -r tests/trainers/oldest.txt
	@touch $@

$(VENV)/.installed-faults: $(VENV)/.installed-dev
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev,faults]'
	@touch $@
