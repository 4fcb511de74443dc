# `make help` lists the targets. PYTHON picks the interpreter, JOBS the number of test processes.
PYTHON ?= python3
JOBS ?= 2
PORT ?= 8000
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/installed.txt

# One thread for each process: the same bits on every machine, and no more threads than cores.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help env book test check soak serve clean browser bench vendor interactive launch-cells pdf picture cover lite

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The stamp holds what was installed and where, so that pip runs again only when one of them changed;
# it is written last, so that an interrupted installation is repaired by the next call.
env:  ## Make .venv with the pinned packages (the other targets call it)
	@{ pwd; cat requirements.txt; } | cmp -s - $(STAMP) && $(PY) -c "" 2>/dev/null \
	|| $(MAKE) --no-print-directory $(STAMP)

.PHONY: $(STAMP)
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or later is needed, and '$(PYTHON)' is not. Name another one: make PYTHON=python3.12 ..."; \
	  exit 1; }
	@rm -f $(STAMP)
	@$(PY) -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } || { \
	  rm -rf $(VENV); \
	  echo; echo "No virtual environment could be made. On Debian and Ubuntu: sudo apt-get install python3-venv"; \
	  exit 1; }
	@echo "Installing the pinned packages into $(VENV) (about a minute and a half, 180 MB to download, 0.9 GB of disk)"
	@$(PY) -m pip install -r requirements.txt
	@{ pwd; cat requirements.txt; } > $(STAMP)

book: env  ## Execute the notebooks and build the site, strictly
	$(VENV)/bin/jupyter-book build . -W -n --keep-going
	@echo "Open $(CURDIR)/_build/html/index.html in a browser, or run: make serve"

# After `book`, whose executed notebooks it uses. CONTRIBUTING lists the Debian packages.
pdf: env  ## Set the whole book as a PDF (needs xelatex and latexmk)
	$(VENV)/bin/jupyter-book build . --builder pdflatex -n
	@echo "The book is $(CURDIR)/_build/latex/gated-attention.pdf"

# Not for `book`: with a backend set from outside, the kernel would show no figure at all.
test: export MPLBACKEND := agg
test: env  ## Run all tests: library, doctests, notebooks, the book's structure
	$(PY) -m pytest -n $(JOBS) --dist worksteal --nbmake --nbmake-timeout=1800 --durations=10 \
	  --ignore tests/classroom tests hmoe_lib $$($(PY) tests/book/toc.py)
	$(PY) -m pytest -n $(JOBS) --dist loadfile --durations=5 tests/classroom

check: env  ## Lint, formatting, import contracts, spelling
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/codespell

# JAX too, or the training of Part V would count as never run.
cover: export MPLBACKEND := agg
cover: env  ## Measure which branches of hmoe_lib its tests run; tests/mutants.py needs it as well
	@$(PY) -m pip install --quiet -r requirements-practice.txt coverage==7.17.5 pytest-cov==7.1.0
	rm -rf .coverage
	$(PY) -m coverage run -m pytest -n $(JOBS) --dist worksteal --ignore tests/classroom \
	  --ignore tests/book --ignore tests/browser tests hmoe_lib
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --fail-under=95

soak: env  ## Fit 500 random problems and check every status (a test fits 40 of them)
	HMOE_SOAK=500 $(PY) -m pytest -n $(JOBS) tests/test_soak.py

serve: env  ## Show the built site at http://localhost:8000
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

browser: env  ## Open every built page in Chromium (needs a Chromium; run `make book` first)
	@$(PY) -m pip install --quiet -r tests/browser/requirements.txt
	$(PY) -m pytest tests/browser

bench:  ## Compare speeds with JAX, PyTorch and scipy (in .venv-bench, 1.5 GB)
	@[ -x .venv-bench/bin/python ] || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet -r tests/benchmarks/requirements.txt
	.venv-bench/bin/python tests/benchmarks $(BENCH)

# A class is a folder; another class, or another year, gets another COURSE and another SEED.
COURSE ?= course
.PHONY: classroom release grade
classroom: env  ## Install what release, grade and their tests need (into .venv, 120 MB)
	@$(PY) -m pip install --quiet -r requirements-classroom.txt

release: classroom  ## Write the students' notebooks and zips to COURSE (SEED changes the data)
	@PYTHONPATH=$(CURDIR):$(CURDIR)/book/assignments $(PY) -m classroom.course "$(COURSE)" $(SEED)

grade: classroom  ## Grade the folder SUBMISSIONS: marks, reasons and feedback pages in COURSE
	@PYTHONPATH=$(CURDIR):$(CURDIR)/book/assignments $(PY) -m classroom.grade "$(COURSE)" \
	  "$(SUBMISSIONS)" --jobs $(JOBS) $(if $(WRITTEN),--written "$(WRITTEN)")

.PHONY: practice
practice: env  ## Train the small transformers of Part V anew (needs JAX, which it installs; resumable)
	@$(PY) -m pip install --quiet -r requirements-practice.txt
	$(PY) -m hmoe_lib.practice train --out book/results

.PHONY: dist
dist: env  ## Put all that a release consists of into dist/ (after `book` and `pdf`)
	$(PY) book/_ext/make_dist.py

vendor: env  ## Fetch the vendored MathJax and fonts anew (needs npm)
	$(PY) book/_ext/vendor.py

interactive: export MPLBACKEND := agg
interactive: env  ## Have the library write anew what the moving figures start from
	$(PY) book/_ext/export_interactive.py

picture: export MPLBACKEND := agg
picture: env  ## Draw the picture of the cover anew
	$(PY) book/_ext/draw_cover.py

LITE := jupyterlite-core==0.8.6 jupyterlite-pyodide-kernel==0.8.6 jupyter-server==2.21.1
lite: env  ## Build a version that runs in the browser (in .venv-lite, needs a network)
	@[ -x .venv-lite/bin/python ] || $(PYTHON) -m venv .venv-lite
	@.venv-lite/bin/python -m pip install --quiet $(LITE) PyYAML
	.venv-lite/bin/python book/_ext/build_lite.py $$($(PY) tests/book/toc.py)

launch-cells: env  ## Write the cell that fetches the library into every notebook (after a change of `url`)
	$(PY) book/_ext/launch_cells.py $$($(PY) tests/book/toc.py)

clean:  ## Remove what was built, and keep .venv
	rm -rf _build dist .cache .coverage .pytest_cache .ruff_cache .import_linter_cache .hypothesis
