# Needs Python 3.11+ and make; everything else is set up here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench evidence clean

demo: $(READY)
	@$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/pytest -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/tables.py

# The simulations that show the statistics work, some hours; each alone: python benchmarks/winner.py
evidence: $(READY)
	$(BIN)/python benchmarks/intervals.py > benchmarks/COVERAGE.md
	for each in lift sequences winner batches diagnostics sensitivity planning; do \
	  $(BIN)/python benchmarks/$$each.py > benchmarks/$$(echo $$each | tr a-z A-Z).md || exit 1; done

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "belated needs Python 3.11 or newer; say which with make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
