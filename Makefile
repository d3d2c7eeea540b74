# `make demo` and `make test` do all set-up themselves, in .venv; a second run skips what is done.
PYTHON ?= python3
VENV ?= .venv
# torchvision only loads beside the torch that it was built for, so the two are pinned as a pair.
TORCH ?= torch==2.14.1 torchvision==0.29.1
CONSTRAINTS ?=
PYTEST_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check $(CONSTRAINTS:%=--constraint %)
# One stamp for each version of Python: asking for another one builds the environment anew.
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
CREATED := $(VENV)/.created-$(VERSION)
PACKAGE := $(VENV)/.package-$(VERSION)
DEV := $(VENV)/.dev-$(VERSION)

.PHONY: demo test lint test-fast test-slow test-lowest bench clean

demo: $(PACKAGE)
	$(BIN)/python examples/quickstart.py

test: lint test-fast

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-fast: $(DEV)
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS)

test-slow: $(DEV)
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

# The lowest versions that pyproject.toml promises, in an environment of their own.
test-lowest:
	$(MAKE) test-fast VENV=.venv-lowest TORCH= CONSTRAINTS=requirements/lowest.txt

bench: $(DEV)
	$(BIN)/python benchmarks/fit_and_predict.py

$(CREATED):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	touch $@

$(PACKAGE): pyproject.toml $(CREATED)
	$(PIP) $(TORCH) --editable '.[vision,plot]'
	touch $@

$(DEV): $(PACKAGE)
	$(PIP) --group dev
	touch $@

clean:
	rm -rf .venv .venv-lowest build dist .pytest_cache .ruff_cache .mypy_cache
