# Every target sets up what it needs; a set-up that is there already costs about a second.
.DEFAULT_GOAL := help
.ONESHELL:
.PHONY: help setup demo test test-long mutants bench-policies check format lock clean

PYTHON ?= python3
BIN := .venv/bin
TESTS ?= tests
export HF_HUB_OFFLINE := 1
export VLLM_NO_USAGE_STATS := 1
export DO_NOT_TRACK := 1

help: ## show this text
	@echo "Headway: a timetable for vLLM. Start with: make demo"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s  %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  ARGS goes through to the command:  make demo ARGS=\"--exit-after 60\"   make test ARGS=\"-k desk -x\""
	@echo "  TESTS picks folders or files:      make test TESTS=tests/policies"

setup: ## make .venv with vLLM for CPU, Headway, the dashboard and the tools
	@$(PYTHON) deploy/bootstrap.py

demo: setup ## real vLLM on a small real model, the dashboard and sample traffic; Ctrl-C ends it
	@$(BIN)/python deploy/models.py smollm2 && exec $(BIN)/headway demo $(ARGS)

test: ## set up all that the tests use, then run them
	@set -e
	$(PYTHON) deploy/bootstrap.py --with-system-packages
	$(BIN)/python deploy/models.py tiny
	exec $(BIN)/pytest $(TESTS) $(ARGS)

test-long: ## the same, with the tests that take minutes
	@HEADWAY_LONG_TESTS=1 exec $(MAKE) --no-print-directory test

mutants: setup ## faults that mutmut makes, and whether the tests notice; ARGS=--all for every one (an hour), or words of files
	@exec $(BIN)/python tests/mutation/run.py $(ARGS)

bench-policies: setup ## the policies against their goals, in about five minutes; ARGS=--write for the README
	@exec $(BIN)/python tests/benchmarks/policies.py $(ARGS)

check: setup ## lint, format, types, import contracts
	@set -e
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy deploy
	$(BIN)/lint-imports

format: setup ## put the code in the house format
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lock: ## renew constraints.txt from a fresh install without pins
	@$(PYTHON) deploy/bootstrap.py --lock

clean: ## remove everything that the targets above made
	@rm -rf .venv .models out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
