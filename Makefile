# Everything a contributor and CI run. `make` alone lists the targets.
#
# A fresh machine needs Python 3.11 or newer, pip and make. All else goes into .venv, which is
# made once and again only when requirements.lock or pyproject.toml change.

PYTHON ?= python3
VENV   := .venv

DEMO_INSTANCE ?= examples/call-center/instance.toml
DEMO_REPORT   ?= out/call-center.html
DEMO          ?= sweep $(DEMO_INSTANCE) --load .1:.9:.1 --report $(DEMO_REPORT)

PYTEST_FLAGS ?= -n 2
BENCH_FLAGS  ?=

BIN       := $(VENV)/bin
READY     := $(VENV)/.ready
NEIGHBORS := $(VENV)-neighbors

# Real data for tests, benchmarks and the catalog instances that need it. Only this file looks
# for it; the package has no default.
ifeq ($(origin OPPORTUNE_DATA),undefined)
ifneq ($(wildcard ../shared/data),)
export OPPORTUNE_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check format bench docs lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## Make .venv with the pinned packages and the project

demo: $(READY) ## Sweep the call-center example over loads and write its report
	@mkdir -p $(dir $(DEMO_REPORT))
	$(BIN)/opportune $(DEMO)
	@echo "Report: $(DEMO_REPORT)"

test: $(READY) ## Run the test suite (PYTEST_FLAGS="-x -k name" to choose)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

check: $(READY) ## Format, lint, types, structure, then the whole test suite
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/structure --quiet
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

format: $(READY) ## Format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) $(NEIGHBORS)/.ready ## Measure against the named neighbors
	NEIGHBORS_PYTHON=$(NEIGHBORS)/bin/python $(BIN)/python -m benchmarks $(BENCH_FLAGS)

docs: $(READY) ## Write the generated parts of docs/ again and build the site
	@for page in docs/generate_*.py; do echo $$page; PYTHONPATH=. $(BIN)/python $$page || exit 1; done
	$(BIN)/sphinx-build -W --keep-going --quiet --doctree-dir out/doctrees docs out/docs
	@echo "Site: out/docs/index.html"

lock: $(READY) ## Pin the newest packages that pyproject.toml allows, for all platforms
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
	  --upgrade --extra dev --no-emit-index-url --custom-compile-command "make lock" \
	  --output-file requirements.lock pyproject.toml

clean: ## Remove .venv, caches and everything built
	rm -rf $(VENV) $(NEIGHBORS) out build dist
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests docs examples benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): requirements.lock pyproject.toml
	$(call environment,$(VENV))
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	@touch $@

# Other people's tools, which a benchmark runs beside ours: apart, so that the lock stays ours.
$(NEIGHBORS)/.ready: benchmarks/neighbors.txt benchmarks/neighbors-built.txt
	$(call environment,$(NEIGHBORS))
	@$(NEIGHBORS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	-@$(NEIGHBORS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement benchmarks/neighbors-built.txt || echo "left out: what has to be built"
	@touch $@

# A virtual environment with pip in it, also where Python came without ensurepip.
define environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "Opportune needs Python 3.11 or newer, and '$(PYTHON)' is not." \
    "Name one: make setup PYTHON=python3.12"; exit 1; }
@echo "Setting up $(1) (about a minute)"
@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(1); \
elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
  $(PYTHON) -m venv --without-pip $(1) && \
  $(PYTHON) -m pip --python $(1)/bin/python install --quiet pip; \
else echo "'$(PYTHON)' has neither ensurepip nor pip. Debian, Ubuntu:" \
    "apt-get install python3-venv"; exit 1; fi
endef
