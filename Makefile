# Needs make and a Python >= 3.11; everything else is installed into .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
CORES ?= 1
SHELL := /bin/bash

.DEFAULT_GOAL := help
.PHONY: help setup plan test test-all test-lowest torture lint docs dist clean

help: ## Lists the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("ilbo needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[rddl]'
	@touch $@

.venv/.dev: .venv/.core
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

setup: .venv/.dev ## Creates .venv with everything in it, and does no more.

plan: .venv/.core ## Trains a policy for navigation-3 and draws its learning curve and paths.
	$(BIN)/ilbo plan navigation-3 --episodes 200

test: lint ## Lint, types, layers and the quick tests.
	$(BIN)/pytest -n 2 --dist worksteal

test-all: lint ## Everything `make test` runs, and the slow tests.
	$(BIN)/pytest -n 2 --dist worksteal -m 'slow or not slow'

torture: .venv/.dev ## Kills, full disks, two processes at once, 100,000 mutated inputs: an hour; goes on where it stopped.
	PYTHONPATH=src:tests $(BIN)/python -m torture --cores $(CORES)

test-lowest: ## The quick tests with the lowest versions that pyproject.toml allows, in .venv-lowest.
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest --resolution lowest-direct -e '.[dev]'
	.venv-lowest/bin/pytest -n 2 --dist worksteal

lint: .venv/.dev ## Lint, types and layers alone.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: .venv/.dev ## Builds the documentation into docs/_build.
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build

dist: .venv/.dev ## Builds wheel and sdist into dist/, and tries the wheel in an empty environment.
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	ls -lh dist
	$(BIN)/pytest -m slow tests/test_dist.py

clean: ## Removes .venv and what was built.
	rm -rf .venv .venv-lowest dist docs/_build .pytest_cache .mypy_cache .ruff_cache
