# Needs Python 3.11+ and make; everything else is set up here. Another Python: make PYTHON=python3.13
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# One environment that grows: first what the package needs, which is all that the demo needs, then the tools of the tests.
PACKAGE := $(VENV)/.package-ready
READY := $(VENV)/.ready
SOURCES := pyproject.toml src/belated/base/version.py

.PHONY: docs docs-refresh demo test test-all test-lowest lint bench evidence dist dist-test release clean

demo: $(PACKAGE)
	@$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/pytest -n auto

# On every supported Python that this machine has, each in an environment of its own.
test-all:
	@pythons=$$(.ci/pythons) && for each in $$pythons; do \
	  version=$$($$each -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "Python $$version: $$each"; \
	  $(MAKE) test PYTHON=$$each VENV=.venv-$$version || exit 1; done

# With the oldest versions of what the package needs that pyproject.toml allows; the tools of the tests are new.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct -e .
	$(MAKE) test VENV=.venv-lowest

# The site, in build/site; a warning or a dead link fails.
docs: $(READY)
	$(BIN)/python docs/build_site.py

# Writes what the blocks of README and docs print now into the pages; PAGES="README or planning" for some of them.
PAGES ?= md
docs-refresh: $(READY)
	BELATED_REFRESH_DOCS=1 $(BIN)/pytest -n auto tests/test_documentation.py -k "every_block and ($(PAGES))"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# How fast, as ratios. Alone, because they need servers or a long time: python benchmarks/engines.py, benchmarks/event_tables.py,
# benchmarks/service.py, benchmarks/dashboard.py
bench: $(READY)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/commands.py
	$(BIN)/python benchmarks/live.py

# The simulations that show the statistics work, some hours; each alone: python benchmarks/winner.py
evidence: $(READY)
	$(BIN)/python benchmarks/intervals.py > benchmarks/COVERAGE.md
	for each in lift sequences winner batches diagnostics sensitivity planning segments maturing; do \
	  $(BIN)/python benchmarks/$$each.py > benchmarks/$$(echo $$each | tr a-z A-Z).md || exit 1; done

# The wheel and the source distribution, as they are uploaded.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*

# Tests from the unpacked source distribution: all of them, or TESTS="tests/cli tests/test_packaging.py".
dist-test: dist
	rm -rf dist/unpacked && mkdir dist/unpacked
	tar -xzf dist/belated-*.tar.gz -C dist/unpacked --strip-components=1
	cd dist/unpacked && PYTHONPATH=$$PWD/src $(abspath $(BIN))/pytest -n auto $(TESTS)
	rm -rf dist/unpacked

# A release: make release VERSION=0.2.0; see CONTRIBUTING.md.
release: $(READY)
	$(BIN)/python .ci/release.py $(VERSION)

$(PACKAGE): EXTRAS :=
$(READY): EXTRAS := [dev]
$(PACKAGE) $(READY): $(SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "belated needs Python 3.11 or newer; choose it with make PYTHON=python3.11"; exit 1; }
	@rm -f $(PACKAGE) $(READY)
	$(PYTHON) -m venv $(VENV)
# uv takes a third of the time; where it cannot reach an index that pip is set up for, pip does it
	{ $(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -e ".$(EXTRAS)"; } 2> /dev/null || \
	  $(PIP) --no-compile -e ".$(EXTRAS)"
	@touch $(PACKAGE) $@

clean:
	rm -rf .venv .venv-* dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
