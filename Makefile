# make up    everything from a fresh clone, then web and worker; prints the address with a login link
# make test  everything from a fresh clone, then all tests
# make lint  style, types, migrations, API schema
# make cuda  the CUDA backend, on a machine with an NVIDIA GPU and a CUDA toolkit

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NPM := $(shell command -v npm 2>/dev/null || echo $(CURDIR)/$(BIN)/npm)
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help up test lint format cuda

help:
	@sed -n 's/^# make/make/p' Makefile

up: $(VENV)/.python-stamp node_modules/.npm-stamp
	@$(BIN)/python manage.py prepare
	@exec $(BIN)/python manage.py serve

test: $(VENV)/.python-stamp node_modules/.npm-stamp
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.python-stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file /dev/null

format: $(VENV)/.python-stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

cuda: $(VENV)/.python-stamp
	$(PIP) install -e '.[cuda]'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A torch that is there already (a CUDA build, say) stays.
$(VENV)/.python-stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -c 'import sys, importlib.util as u; sys.exit(u.find_spec("torch") is None)' \
		|| $(PIP) install -q -c constraints.txt torch
	$(PIP) install -q -e '.[dev]'
	@touch $@

node_modules/.npm-stamp: package.json package-lock.json .npmrc | $(VENV)/.python-stamp
	$(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
