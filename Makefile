# `make` lists the targets. Everything they need beyond Python 3.11 and make is installed by them.
PYTHON ?= python3
UV_VERSION := 0.13.7
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LAKE ?= demo-lake
WORKERS ?= 2
SOAK_SECONDS ?= 1800
SCALE ?= full

.DEFAULT_GOAL := help
.PHONY: help setup hooks demo test test-fast check format lock bench bench-compaction soak clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(STAMP) ## make the virtual environment, install the locked dependencies, fetch the jars

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "icepack needs Python 3.11 or later as '$(PYTHON)'. Install it, or name another: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "Python has no venv module. On Debian: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) || \
	  { echo "uv $(UV_VERSION) could not be installed from PyPI. Check the network or pip's index settings."; exit 1; }
	@echo "Installing the locked dependencies …"
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock || \
	  { echo "The locked dependencies could not be installed. Check the network or uv's index settings."; exit 1; }
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/icepack jars fetch
	@touch $@

hooks: $(STAMP) ## install the pre-commit hooks of .pre-commit-config.yaml (10 s)
	@$(BIN)/uv tool run pre-commit install

demo: $(STAMP) ## build a sample lake, heal it, show before and after
	@$(BIN)/icepack demo --dir $(LAKE)

check: $(STAMP) ## lint, types, import contracts, Java sources (30 s)
	@$(BIN)/ruff format --check --quiet . || { echo "Run 'make format'."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python scripts/compile_java.py

test-fast: check ## check, then the tests that need no Spark, no PostgreSQL and no browser (minutes)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not spark and not postgres and not browser" tests/unit tests/contract

test: check ## check, then every test
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --cov --cov-report= tests
	@$(BIN)/coverage report --fail-under=85 --format=total
	@$(BIN)/coverage report --include='src/icepack/domain/*' --fail-under=95

format: $(STAMP) ## put the code in order
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

lock: ## resolve the dependencies again (needs $(BIN)/uv)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras --group dev pyproject.toml -o requirements.lock

bench: $(STAMP) ## measure planning, inspection, the queue, the API, the page and health sync
	@$(BIN)/python benchmarks/planning.py
	@$(BIN)/python -m benchmarks.job_queue
	@$(BIN)/python -m benchmarks.api
	@$(BIN)/python -m benchmarks.page
	@$(BIN)/python benchmarks/health_sync.py

bench-compaction: $(STAMP) ## measure compaction against Spark's procedure (SCALE=small: five minutes)
	@$(BIN)/python -m benchmarks.compaction --scale $(SCALE)

soak: $(STAMP) ## what takes longer than a test may: fifty kills, random tables, other writers' files, racing writers (SOAK_SECONDS=…)
	@ICEPACK_SOAK=1 ICEPACK_SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/acceptance/test_kill.py \
	  tests/integration/test_native_differential.py tests/integration/test_native_corpus.py tests/integration/test_native_races.py

clean: ## remove what the targets made, except downloaded jars
	rm -rf $(VENV) $(LAKE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
