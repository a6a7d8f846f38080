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
# Who imports a module first keeps its bytecode; else each of the many processes would compile it once more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help env dev lock sbom repro test coverage lint check graph figures fuzz chaos chaos-hosts bench-eval bench-train site ui clean
.DEFAULT_GOAL := help

help:
	@echo "make repro   create the environment and rebuild everything (dvc repro)"
	@echo "make test    create the environment and run all checks and tests"
	@echo "make coverage  which lines the tests run, in processes that they start, too"
	@echo "make check   lint, types and layers only"
	@echo "make lock    write the lock files, of the versions that they have; UPGRADE='--upgrade' for newer ones"
	@echo "make sbom    write work/sbom.json: the locked packages, their versions and hashes (CycloneDX)"
	@echo "make graph   write the source dependencies of the stages into dvc.yaml"
	@echo "make figures write the figures of README.md and docs/results.md from the tables of the last run"
	@echo "make fuzz    10,000 mutated inputs for every reader and command; SEED=N for others"
	@echo "make chaos   strike the smoke graph with 100 faults at random moments; EVENTS=N, SEED=N for others"
	@echo "make chaos-hosts  strike a cluster of three hosts that share no disk; EVENTS=N, SEED=N for others"
	@echo "make bench-eval  measure caramel eval against one instance at a time"
	@echo "make bench-train measure training beside open_clip's own program"
	@echo "make site    the documentation as a site, in work/site; fails on a broken link"
	@echo "make ui      open MLflow on this machine"
	@echo "make clean   remove the environment and scratch files; data and mlruns stay"

# uv installs several times as fast as pip, and is fetched by it. Where only pip is set up to reach packages, pip installs.
# Neither compiles: of 413 MB of modules a third is ever imported. A file whose hash is not in the lock is refused;
# uv also checks the hash of the setuptools that it builds source distributions with. Where LC_ALL=C setuptools writes no path with
# an é.
UV := LC_ALL=C.UTF-8 $(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python --build-constraints requirements.lock
PIP := LC_ALL=C.UTF-8 $(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check
install = $(UV) $(1) || { echo "uv could not install; pip does it, which takes longer."; $(PIP) $(1); }

# Python 3.11 reads the path to an editable package as the locale says, and does not start where LC_ALL=C and the path has an é:
# a relative one has none.
$(VENV)/core: requirements-uv.lock requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed, $(PYTHON) is older: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements-uv.lock || echo "uv could not be fetched."
	@$(call install,--require-hashes -r requirements.lock)
	@$(call install,--no-deps --no-build-isolation -e .)
	@echo ../../../../src | tee $(VENV)/lib/python*/site-packages/__editable__.caramel-*.pth > /dev/null
	@touch $@

# What writes the bill of materials lies in a folder apart: pyproject.toml says why.
$(VENV)/dev: $(VENV)/core requirements-dev.lock requirements-sbom.lock
	@$(call install,--require-hashes -r requirements-dev.lock)
	@rm -rf $(VENV)/bom
	@$(call install,--target $(VENV)/bom --require-hashes -r requirements-sbom.lock)
	@touch $@

env: $(VENV)/core
dev: $(VENV)/dev

# The versions of the lock files stay while pyproject.toml allows them. UPGRADE='--upgrade-package NAME' moves one.
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
UPGRADE ?=
lock: env
	$(LOCK) --group installer --output-file requirements-uv.lock > /dev/null
	$(LOCK) $(UPGRADE) pyproject.toml --output-file requirements.lock > /dev/null
	$(LOCK) $(UPGRADE) pyproject.toml --extra dev --constraints requirements.lock --output-file requirements-dev.lock > /dev/null
	$(LOCK) $(UPGRADE) --group sbom --output-file requirements-sbom.lock > /dev/null

sbom: dev
	mkdir -p work
	PYTHONPATH=$(VENV)/bom python -m cyclonedx_py requirements --output-reproducible --pyproject pyproject.toml --output-file work/sbom.json requirements.lock

repro: env
	@python -m caramel.runtime.code_manifest
	@python -m caramel.runtime.progress
	dvc repro || { echo; echo 'It did not end. `caramel doctor` says what is wrong with machine or project.'; exit 1; }

# Three processes on two cores: while one waits, for a server or for Ray, the others work.
PYTEST := pytest -n 3 --dist loadscope --no-loadscope-reorder

# What one process has compiled no other has to; in a new environment all that the tests run in would do it at once, each for itself.
HEAVY := diffusers, dvc.repo, great_expectations, matplotlib.pyplot, mlflow, open_clip, ray.tune, sentence_transformers, torch._dynamo
$(VENV)/compiled: $(VENV)/dev
	@python -c 'import $(HEAVY)'
	@touch $@

# mypy works beside the rest, on what that leaves of the machine; what it says comes last.
test: dev
	@types=$$(mktemp); mypy > $$types 2>&1 & typed=$$!; failed=0; \
	$(MAKE) --no-print-directory $(VENV)/compiled & compiled=$$!; \
	$(MAKE) --no-print-directory lint || { kill $$typed; exit 1; }; \
	wait $$compiled; $(PYTEST) --durations=20 || failed=1; \
	wait $$typed || failed=1; echo mypy; cat $$types; rm $$types; exit $$failed

# Apart from `make test`: counting lines makes what is Python half as fast, and fails no test.
coverage: dev
	coverage erase
	$(PYTEST) --cov=caramel --cov-report=term:skip-covered

lint: dev
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
