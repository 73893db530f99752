# The whole developer interface. `make` prints this list; every target sets up what it needs.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes
CONFORMANCE := tests/conformance
PLAYGROUND := app/playground

# pyright would tell of its own newer releases on every run
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run migrate test check static fmt readme lock playground bench soak clean

help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# --- set-up: done when missing or when requirements.lock changed ------------------------------------------------------

setup: $(VENV)/.installed ## create .venv and install exactly what requirements.lock pins

$(VENV)/.installed: requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not installed; Python 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, $(PYTHON) is " + sys.version.split()[0] + "; name another: make setup PYTHON=python3.12")'
	@test -x $(PY) && $(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) \
		|| { echo "could not create $(VENV) (on Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@# uv, pinned by the same file, is ten times faster; where it cannot get through (a proxy that only pip knows), pip can
	@echo "installing requirements.lock into $(VENV)"
	@awk '/^uv==/,/# via/' requirements.lock | $(PIP) --requirement /dev/stdin \
		&& $(PY) -m uv pip install --quiet --python $(PY) --require-hashes --requirement requirements.lock \
		|| $(PIP) --requirement requirements.lock
	@touch $@

$(CONFORMANCE)/node_modules/.installed: $(CONFORMANCE)/package.json
	@command -v npm >/dev/null || { echo "node (20 or newer) and npm are needed for the conformance suite" >&2; exit 1; }
	npm install --prefix $(CONFORMANCE) --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

$(PLAYGROUND)/node_modules/.installed: $(PLAYGROUND)/package.json
	@command -v npm >/dev/null || { echo "node (20 or newer) and npm are needed to build the page and to test it" >&2; exit 1; }
	npm install --prefix $(PLAYGROUND) --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

playground: $(PLAYGROUND)/node_modules/.installed ## build the page at GET / anew from app/playground/src
	@npm run --prefix $(PLAYGROUND) --silent build

lock: $(VENV)/.installed ## resolve pyproject.toml anew into requirements.lock (all platforms, Python 3.11 and newer)
	$(PY) -m uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade --generate-hashes \
		--no-header --no-emit-index-url --no-emit-find-links --quiet --output-file requirements.lock

# --- run ---------------------------------------------------------------------------------------------------------------

run: $(VENV)/.installed ## serve on AGENT_SERVER_HOST and AGENT_SERVER_PORT (default http://127.0.0.1:8000)
	@$(PY) -m app serve

migrate: $(VENV)/.installed ## bring the database to the newest schema
	@$(PY) -m app migrate

# --- prove -------------------------------------------------------------------------------------------------------------

test: $(VENV)/.installed $(CONFORMANCE)/node_modules/.installed $(PLAYGROUND)/node_modules/.installed ## every test, the real frontend packages on Node included
	$(PY) -m pytest

check: static test ## what CI runs: format, lint, types, import contracts, tests

static: $(VENV)/.installed ## the part of check that runs nothing
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m pyright
	$(VENV)/bin/lint-imports --no-logo

fmt: $(VENV)/.installed ## format, and fix what can be fixed
	$(PY) -m ruff check --fix-only --quiet .
	$(PY) -m ruff format .

readme: $(VENV)/.installed ## write the README's tables anew from the code
	@$(PY) -m tests.architecture.readme

bench: $(VENV)/.installed ## every benchmark in tests/bench
	@for file in tests/bench/[a-z]*.py; do \
		name=$$(basename "$$file" .py); \
		[ ! -f "$$file" ] || [ "$$name" = soak ] || $(PY) -m "tests.bench.$$name" || exit 1; \
	done

soak: $(VENV)/.installed ## long load with faults, then the long fuzz; stop it with Ctrl-C
	@$(PY) -m tests.bench.soak
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-100000} $(PY) -m pytest tests/security --timeout 0

clean: ## remove what set-up and tests created; keeps the data folder
	rm -rf $(VENV) $(CONFORMANCE)/node_modules $(PLAYGROUND)/node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
