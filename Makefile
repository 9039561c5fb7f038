# Two commands do everything: `make start` for learners, `make test` for whoever changes something.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Commas would end an argument of $(call ...).
EXTRAS := .[train,explore,grade]
PINNED := --constraint constraints.txt --editable
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UV := uv==0.13.9

# uv takes seconds where pip takes a minute: yours is used where there is one, and where it fails, pip does it.
# As it reads nothing of pip's, it is told which index pip would ask; and to trust the certificates of the system.
INDEX = $${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null)}}
install = UV_DEFAULT_INDEX="$(INDEX)" UV_SYSTEM_CERTS=true \
	"$$(command -v uv || echo $(BIN)/uv)" pip install --quiet --python $(BIN)/python $(1) || \
	{ echo "        uv could not: pip does it, and takes longer"; $(PIP) $(1); }

.PHONY: start help format lint style consistency types test suite thorough notebooks pictures site mutants class clean

start: $(READY)  ## set up, check day 1, show the board
	@echo "Day 1, which is yours to write, checked:"
	@$(BIN)/course check 1 || true
	@echo
	@echo "The board:"
	@$(BIN)/course
	@echo
	@echo "To have the course command in this terminal:  source $(BIN)/activate"

# Tests run several processes side by side; and with one thread a notebook repeats itself better.
test thorough notebooks mutants class: export OMP_NUM_THREADS := 1
# Hundreds of processes are started: what the first compiles, the others need not.
test thorough mutants class: export PYTHONDONTWRITEBYTECODE :=

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## /\1\t/p' Makefile | expand -t 12

format: $(READY) .venv/.ready-test  ## format the code, and fix what ruff can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint: style consistency types  ## formatting, types, imports between rooms, stubs and solutions

style: $(READY) .venv/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

consistency: $(READY) .venv/.ready-test
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/course sync --check

types: $(READY) .venv/.ready-test
	$(BIN)/mypy

# Formatting comes first, so that a mistake is found early; types and stubs are checked beside the tests.
test: style  ## what everybody runs, the same at every commit: eight minutes on two cores
	@$(MAKE) --no-print-directory -j3 consistency types suite

# A day in NumPy, a day in PyTorch and a solution; `make thorough PART=notebooks` executes all.
EXECUTED := lessons/day02_attention.ipynb lessons/day09_multi_head_attention.ipynb solutions/day14_make_model.ipynb
suite: $(READY) .venv/.ready-test
	@$(BIN)/python -c "import matplotlib.font_manager"  # builds the font cache, which a notebook's cell would print
	$(BIN)/python -m pytest -n auto -q -p tests.costs -p tests.notebooks.kernels --nbval $(EXECUTED) tests

PART =
thorough: $(READY) .venv/.ready-test  ## everything, in hours; `make thorough PART=pages` for one part
	$(BIN)/python -m tests.thorough $(PART)

notebooks: $(READY)  ## execute every notebook again, in place
	$(BIN)/python tests/notebooks/execute.py lessons/*.ipynb solutions/*.ipynb

pictures: $(READY)  ## draw the README's pictures again
	$(BIN)/python -m website.readme_pictures

site: $(READY) .venv/.ready-site  ## the course as pages, in .site/html
	$(BIN)/python -m website.build

mutants: $(READY) .venv/.ready-test  ## the full mutation run; `make mutants DAY=8` for one day
	$(BIN)/python -m tests.mutants $(DAY)

# torch comes first and by itself: asked for by another package, its newest build with all of CUDA would come.
# On Linux the usual build has CUDA, 6 GB in all. Where there is no NVIDIA driver, the CPU's build is tried once.
CPU_INDEX := https://download.pytorch.org/whl/cpu
TORCH := $$(grep '^torch==' requirements.txt)
cpu_build = [ "$$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null && \
	$(PIP) --index-url=$(CPU_INDEX) --retries 0 --timeout 10 $(TORCH) 2>/dev/null
# Nothing is compiled ahead but what is imported here: Python does the rest when it is first asked for.
start $(READY): export PYTHONDONTWRITEBYTECODE :=
$(READY): requirements.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Setting up in .venv, once: some minutes, most of them for downloads."
	@echo "1 of 3  a Python environment"
	@$(PYTHON) -m venv .venv
	@echo "2 of 3  torch: 0.2 GB to fetch, 0.8 GB on disk; with CUDA several GB"
	@$(if $(TORCH_INDEX_URL),,$(cpu_build) ||) $(PIP) $(addprefix --index-url=,$(TORCH_INDEX_URL)) $(TORCH)
	@echo "3 of 3  the course command, Jupyter, Matplotlib and the other packages: 0.9 GB on disk"
	@command -v uv >/dev/null || $(PIP) --only-binary=:all: $(UV) || true
	@$(call install,$(PINNED) "$(EXTRAS)")
	@$(BIN)/python -c 'import torch'
	@touch $@

.venv/.ready-site: $(READY)
	@echo "What the site needs: 0.1 GB on disk"
	@$(call install,$(PINNED) ".[site]")
	@touch $@

.venv/.ready-test: $(READY) .venv/.ready-site
	@echo "What the tests need: 0.8 GB on disk"
	@$(call install,$(PINNED) ".[test]")
	@touch $@

class: $(READY) .venv/.ready-test  ## a class of 120, a third of it hostile, graded and killed on the way
	$(BIN)/python -m tests.class_of_120

clean:  ## remove what can be made anew
	rm -rf .venv .course .site
