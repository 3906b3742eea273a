# Every target sets up what it needs. Overridable: PYTHON, TORCH, TRITON, VENV, PYTEST_ARGS,
# TEST_JOBS, BENCH_ARGS, FUZZ_ARGS, EXPLORE_ARGS and MATRIX_ARGS, for example
# `make test TRITON=triton==3.6.0 VENV=.venv-3.6`. CONSTRAINTS=/dev/null takes the newest of all else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
# Hundreds of the tests' processes import the same modules; images often switch compiled ones off.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
# The newest versions tested. A torch built for the CPU takes any Triton; PyPI's CUDA build names
# the one Triton it goes with, hence a range here.
TORCH ?= torch==2.13.0
TRITON_RANGE := triton>=3.6,<=3.9.0
TRITON ?= $(TRITON_RANGE)
NEWEST_TRITON := triton==3.9.0
OLDEST_TRITON := triton==3.6.0
# What others release must not turn a change red; other Pythons than its lines name take the newest.
CONSTRAINTS ?= tools/constraints.txt
PYTEST_ARGS ?=
# Processes of the other tools.
JOBS := $(shell jobs=$$(nproc); echo $$((jobs < 4 ? jobs : 4)))
# Processes that share the tests, one more than there are processors, because many tests wait for
# child processes. Each takes up to 4 GB of memory. 0 for this one only, as --pdb needs it.
TEST_JOBS ?= $(shell jobs=$$(nproc); echo $$((jobs < 4 ? jobs + 1 : 4)))
# The slowest files come first, an order of our own (tests/conftest.py).
SHARED = -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder
BENCH_ARGS ?=
FUZZ_ARGS ?= --new --seconds 60 --processes $(JOBS)
EXPLORE_ARGS ?= --seconds 300 --processes $(JOBS)
MATRIX_ARGS ?=

# `make ci` sets the exact version, so that what it tested can be named.
ifneq ($(filter ci ci-full,$(MAKECMDGOALS)),)
TRITON := $(NEWEST_TRITON)
endif

MEMBERS := core ir interpreter watch sanitizer prove profiler tuner fuzz verifier cli triton-ttools
PYPROJECTS := pyproject.toml $(MEMBERS:%=packages/%/pyproject.toml)
PY := $(VENV)/bin/python
TTOOLS := $(VENV)/bin/ttools
# One stamp per set of pins: changing TORCH or TRITON installs again.
PINS := $(shell printf '%s' '$(TORCH) $(TRITON)' | cksum | cut -d ' ' -f 1)
STAMP := $(VENV)/.installed-$(PINS)
ENGINE_TESTS := $(wildcard tests/core tests/ir tests/interpreter tests/watch tests/examples)
DEMOS := vector_add softmax matmul strided_views liger

.PHONY: help demo test lint typecheck bench fuzz explore docs ci ci-full smoke smoke-oldest test-docs engine test-gpu constraints clean

help: ## Show the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) \
	  | while IFS='|' read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

$(STAMP): $(PYPROJECTS) $(CONSTRAINTS)
	@rm -f $(VENV)/.installed-*
	@echo "Installing into $(VENV): $(TORCH), $(TRITON), the workspace members, tools (minutes)"
	@$(PYTHON) -m venv $(VENV)
	@mapfile -t tools < <($(PY) tools/requirements.py dev demo); \
	  $(PY) -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) \
	  '$(TORCH)' '$(TRITON)' $(MEMBERS:%=-e packages/%) "$${tools[@]}"
	@touch $@

demo: $(STAMP) ## Run examples on the CPU; sets up everything first
	@for name in $(DEMOS); do \
	  echo "--- ttools interpret examples/$$name.py"; \
	  $(TTOOLS) interpret examples/$$name.py; \
	done
	@echo "--- ttools sanitize examples/defects/softmax.py (its store has lost the mask)"
	@status=0; $(TTOOLS) sanitize examples/defects/softmax.py || status=$$?; \
	  [ $$status -eq 1 ] || { echo "the defect was not found (exit status $$status)"; exit 1; }

test: $(STAMP) ## Run the tests; sets up everything first
	@$(PY) -m pytest -m "not slow" $(SHARED) $(PYTEST_ARGS) tests

smoke: $(STAMP) ## Run the engine's smoke tests only
	@$(PY) -m pytest -m smoke $(PYTEST_ARGS) tests

smoke-oldest: ## Run the engine's smoke tests on the oldest supported version of Triton
	@$(MAKE) smoke VENV=.venv-3.6 TRITON='$(OLDEST_TRITON)'

test-docs: $(STAMP) ## Run the notebooks and the commands of README.md
	@$(PY) -m pytest -m slow $(PYTEST_ARGS) tests/docs/test_notebooks.py tests/workspace/test_readme.py

engine: $(STAMP) ## Run the engine's tests only
	@$(PY) -m pytest -m "not slow" $(SHARED) $(PYTEST_ARGS) $(ENGINE_TESTS)

lint: $(STAMP) ## Check style, layers, wording and dependencies
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check --quiet .
	@$(VENV)/bin/lint-imports
	@$(VENV)/bin/codespell
	@$(PY) -m tools.prose
	@bin=$$(realpath $(VENV)/bin); \
	for name in $(filter-out triton-ttools,$(MEMBERS)); do \
	  found=$$(cd packages/$$name && "$$bin/deptry" src 2>&1) \
	    || { echo "packages/$$name"; echo "$$found"; exit 1; }; \
	done

typecheck: $(STAMP) ## Check types, strictly
	@$(PY) -m mypy

bench: $(STAMP) ## Measure speed against torch and TRITON_INTERPRET=1, and what checking costs
	@$(PY) benchmarks/run.py $(BENCH_ARGS)

fuzz: $(STAMP) ## Run random kernels and compare them with NumPy
	@$(PY) -m tools.fuzz $(FUZZ_ARGS)

explore: $(STAMP) ## Run the property tests on new examples, for minutes
	@$(PY) -m tools.explore $(EXPLORE_ARGS)

docs: $(STAMP) ## Build the documentation into site/
	@mapfile -t tools < <($(PY) tools/requirements.py docs); \
	  $(PY) -m pip install --quiet --disable-pip-version-check "$${tools[@]}"
	@$(PY) -m tools.gallery
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

ci: $(STAMP) ## Everything a change must pass
	@$(MAKE) -j 2 --output-sync=target lint typecheck TRITON='$(TRITON)'
	@$(MAKE) test TRITON='$(TRITON)'
	@$(MAKE) -j 3 --output-sync=target test-docs smoke-oldest fuzz TRITON='$(TRITON)' \
	  FUZZ_ARGS='--new --seconds 100 --processes 1 --shrink 30 --most 3'

ci-full: ci ## ci, slow tests, built packages, the engine on more versions of Triton and Python
	@$(PY) -m pytest -m slow $(SHARED) $(PYTEST_ARGS) tests
	@$(PY) -m tools.built_packages --torch '$(TORCH)' --range '$(TRITON_RANGE)'
	@$(PY) -m tools.engine_matrix --torch '$(TORCH)' --triton '$(TRITON)' \
	  --range '$(TRITON_RANGE)' --jobs $(JOBS) $(MATRIX_ARGS)

constraints: ## Write the newest versions of all that is installed into tools/constraints.txt
	@rm -rf .venv-newest
	@$(MAKE) .venv-newest/.installed-$(PINS) VENV=.venv-newest CONSTRAINTS=/dev/null
	@for_python=$$(.venv-newest/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  .venv-newest/bin/python -m pip freeze --exclude-editable \
	  | sed -E "/^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z]+)==/d; s/\$$/; python_version == '$$for_python'/" \
	  > tools/constraints.txt

test-gpu: $(STAMP) ## Run the tests that need an NVIDIA GPU
	@$(PY) -m pytest -m gpu $(PYTEST_ARGS) tests

clean: ## Remove environments, caches and build products
	@rm -rf .venv .venv-* site build dist .coverage* .mypy_cache .pytest_cache .ruff_cache \
	  .hypothesis .import_linter_cache benchmarks/results
	@find packages tests tools examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
