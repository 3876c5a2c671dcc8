# Everything a contributor needs. On a fresh machine only Python 3.11+ (with venv) and make have to be there:
# each target sets up its own environment and sets it up again when pyproject.toml changes.

PYTHON ?= python3
VENV ?= .venv
ORACLE_VENV ?= .venv-oracle

RUN := $(VENV)/bin/python
RUN_ORACLE := $(ORACLE_VENV)/bin/python
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-oracle test-all lint fix types bench clean

help:
	@echo "make demo         train a small GPT in several memory modes and print one table (a few minutes)"
	@echo "make test         the default tests and the doctests; PyTorch is not needed"
	@echo "make test-oracle  comparisons with PyTorch (installs it)"
	@echo "make test-all     every test, the slow ones too (installs PyTorch)"
	@echo "make lint         ruff check and ruff format --check"
	@echo "make fix          let ruff mend and format what it can"
	@echo "make types        mypy, strict"
	@echo "make bench        the benchmarks beside PyTorch (installs it)"
	@echo "make clean        remove environments, caches and builds"

demo: $(VENV)/.base
	$(RUN) examples/demo.py

test: $(VENV)/.test
	$(RUN) -m pytest -n auto -m "not slow and not oracle"
	$(RUN) -m pytest --doctest-modules stowgrad
	$(RUN) -m pytest --doctest-glob="*.md" README.md docs/numpy-programs.md docs/random.md docs/checkpointing.md

test-oracle: $(ORACLE_VENV)/.test
	$(RUN_ORACLE) -m pytest -n auto tests/oracle -m "oracle and not slow"

test-all: $(ORACLE_VENV)/.test
	$(RUN_ORACLE) -m pytest
	$(RUN_ORACLE) -m pytest --doctest-modules stowgrad
	$(RUN_ORACLE) -m pytest --doctest-glob="*.md" README.md docs/numpy-programs.md docs/random.md docs/checkpointing.md

lint: $(VENV)/.lint
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

fix: $(VENV)/.lint
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

types: $(VENV)/.lint
	$(RUN) -m mypy

# OpenBLAS is let choose its kernels for the processor that it finds: these two variables, where set, would fix the choice.
bench: $(ORACLE_VENV)/.bench
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(RUN_ORACLE) benchmarks/run.py
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(RUN_ORACLE) benchmarks/heat.py
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(RUN_ORACLE) benchmarks/mlp.py
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(RUN_ORACLE) benchmarks/op_table.py

clean:
	rm -rf $(VENV) $(ORACLE_VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- environments: a stamp file a step, newer than pyproject.toml when it is up to date ----
# setuptools warns of a folder with the package's name: that is the link to src/, the very package (docs/decisions/0001).

$(VENV)/.base $(ORACLE_VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("stowgrad needs Python 3.11 or later, this is %s; name another: make PYTHON=python3.12 ..." % sys.version.split()[0])'
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP_INSTALL) --upgrade "pip>=25.1"
	PYTHONWARNINGS="ignore:Editable installation" $(@D)/bin/python $(PIP_INSTALL) --editable ".[cli]"
	@touch $@

$(VENV)/.test: $(VENV)/.base
	$(RUN) $(PIP_INSTALL) --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	$(RUN) $(PIP_INSTALL) --group lint
	@touch $@

$(ORACLE_VENV)/.test: $(ORACLE_VENV)/.base
	$(RUN_ORACLE) $(PIP_INSTALL) --group test --group oracle
	@touch $@

$(ORACLE_VENV)/.bench: $(ORACLE_VENV)/.test
	$(RUN_ORACLE) $(PIP_INSTALL) --group bench
	@touch $@
