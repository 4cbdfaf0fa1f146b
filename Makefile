# The book's commands. Each sets up what it needs: a virtual environment in .venv, with the small
# `book` extra for rendering and all extras for the rest. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# These files say that an installation is complete and newer than what it was made from.
BOOK := $(VENV)/installed-book
COMPLETE := $(VENV)/installed-all
SOURCES := pyproject.toml constraints.txt
NO_PACKAGES := "The packages could not be installed. The first installation needs the network; run the same command again when it is there."

# `make study NAME=x` and `make study x` are the same.
ifeq (study,$(firstword $(MAKECMDGOALS)))
ifneq (,$(word 2,$(MAKECMDGOALS)))
NAME := $(word 2,$(MAKECMDGOALS))
.PHONY: $(NAME)
$(NAME): study
	@:
endif
endif

.DEFAULT_GOAL := help
.PHONY: help book test lab execute study check serve pdf parity clean check-types check-tests

help:
	@echo "make book               render the stored outputs to _build/html"
	@echo "make test               prove what is new, stale or old, and a seventh of the rest"
	@echo "make test ALL=1         prove everything; CHAPTER=N: what belongs to one chapter;"
	@echo "                        KEEP=1: and write the proofs into tests/proofs.json"
	@echo "make lab                open the chapters and exercises in JupyterLab"
	@echo "make serve              render the book and show it at a local address"
	@echo "make pdf                print the book to one PDF (needs Chromium)"
	@echo "make check              lint, types and fast tests, in about six minutes"
	@echo "make execute [PAGES=…]  rerun stale pages and store their outputs"
	@echo "make study NAME=…       run a long experiment and store its result"
	@echo "make parity             compare the losses with other libraries, in their own environment"
	@echo "make clean              delete what was built; .venv stays"

book: $(BOOK)
	$(BIN)/nbkit book build

serve: $(BOOK)
	$(BIN)/nbkit book serve

pdf: $(BOOK)
	$(BIN)/nbkit book pdf

# DeepSpeed compiles helpers at first use; built beforehand, no test waits for them.
test: $(COMPLETE)
	$(BIN)/nbkit build-deepspeed
	$(BIN)/nbkit test $(if $(CHAPTER),--chapter $(CHAPTER)) $(if $(ALL),--all) $(if $(KEEP),--keep)

lab: $(COMPLETE)
	$(BIN)/nbkit lab $(ARGS)

execute: $(COMPLETE)
	$(BIN)/nbkit execute $(PAGES)

study: $(COMPLETE)
	@test -n "$(NAME)" || { echo "Say which study: make study NAME=reinforce_text"; exit 1; }
	$(BIN)/nbkit study $(NAME)

# Types and fast tests side by side: one processor each.
check: $(COMPLETE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/nbkit lint-prose
	@$(MAKE) --no-print-directory -j2 --output-sync=target check-types check-tests

check-types:
	$(BIN)/mypy

check-tests:
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -p no:nbmake -n 2 -m "not slow and not browser" tests

parity: $(COMPLETE)
	$(BIN)/python benchmarks/peers/run.py

clean:
	rm -rf _build .pytest_cache .ruff_cache .mypy_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "The book needs Python 3.11 or newer; $(PYTHON) is missing or older."; \
	  echo "Name another: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian, install python3-venv."; exit 1; }

# What has all extras has the book's too.
$(BOOK): $(SOURCES) | $(BIN)/python
	@if [ $(COMPLETE) -nt pyproject.toml ] && [ $(COMPLETE) -nt constraints.txt ]; then :; else \
	  $(PIP) install -c constraints.txt -e '.[book]' || { echo $(NO_PACKAGES); exit 1; }; fi
	@touch $@

$(COMPLETE): $(SOURCES) | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[all]' || { echo $(NO_PACKAGES); exit 1; }
	@touch $@
