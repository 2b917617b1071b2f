# Every target sets up what it needs; a set-up that is there already costs about a second.
.DEFAULT_GOAL := help
.ONESHELL:
.PHONY: help setup demo fleet fleet-test test test-fast test-long test-versions contract mutants bench bench-batching bench-forecasts bench-prefixes bench-policies bench-engine bench-dashboard bench-fleet bench-front bench-engines gpu-check check audit reference pictures site format lock release clean

PYTHON ?= python3
BIN := .venv/bin
FLEET_BIN := out/fleet/venv/bin
AUDIT := out/audit/bin
SITE := out/site/bin
# An environment with vLLM for the GPU.
GPU_BIN ?= out/gpu/bin
TESTS ?= tests
# How many, and which takes what: tests/support/worker_shares.py.
WORKERS := -n auto --dist loadfile --no-loadscope-reorder
# Else each of the many processes that tests start compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE
export HF_HUB_OFFLINE := 1
export VLLM_NO_USAGE_STATS := 1
export DO_NOT_TRACK := 1

help: ## show this text
	@echo "Headway: admission control and priority scheduling for vLLM. Start with: make demo"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s  %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  ARGS goes through to the command:  make demo ARGS=\"--exit-after 60\"   make test-fast ARGS=\"-k desk -x\""
	@echo "  TESTS selects folders or files:    make test TESTS=tests/policies"

setup: ## make .venv with vLLM for CPU, Headway, the dashboard and the tools
	@$(PYTHON) deploy/bootstrap.py

demo: setup ## vLLM with a small real model, the dashboard and sample traffic; Ctrl-C ends it
	@$(BIN)/python deploy/models.py smollm2 && exec $(BIN)/headway demo $(ARGS)

fleet: setup ## two servers with a small real model behind Ray Serve, until Ctrl-C; ARGS: --replicas, --most, --port
	@$(BIN)/python deploy/ray_serve/install.py && $(BIN)/python deploy/models.py smollm2 && PYTHONPATH=deploy/ray_serve exec $(FLEET_BIN)/python -m headway_fleet $(ARGS) -- .models/SmolLM2-135M-Instruct --served-model-name smollm2 --preset balanced --quick-start

fleet-test: setup ## the tests of that, with Ray and real servers: spread, a replica killed, scaling; about ten minutes
	@set -e
	$(BIN)/python deploy/ray_serve/install.py
	$(BIN)/python deploy/models.py tiny
	exec $(FLEET_BIN)/python -m pytest -n 0 tests/deploy -k test_ray $(ARGS)

test: ## set up what the tests use and run them: what a commit must pass beside make check
	@set -e
	$(PYTHON) deploy/bootstrap.py --with-system-packages
	$(BIN)/python deploy/models.py tiny
	exec $(BIN)/pytest $(WORKERS) $(TESTS) $(ARGS)

test-fast: setup ## the quick tests: no engine, browser or installer, nothing that takes seconds
	@exec $(BIN)/pytest $(WORKERS) -m "not engine and not browser and not slow" $(TESTS) $(ARGS)

test-long: ## the nightly tier: make test with every seed, and the tests that are marked long_form
	@HEADWAY_LONG_TESTS=1 exec $(MAKE) --no-print-directory test

test-versions: setup ## the parts of vLLM that Headway uses in releases 0.28 to 0.33, and a server of each; ARGS: releases, --keep, --no-serve, --write
	@exec $(BIN)/python deploy/versions.py $(ARGS)

contract: setup ## the names of vLLM that a release lacks and Headway uses, a line each; ARGS: folders that hold a `vllm`, --write
	@exec $(BIN)/python deploy/contract.py $(ARGS)

mutants: setup ## faults made by mutmut, and whether the tests notice them; ARGS: --all (an hour) or words of file names
	@exec $(BIN)/python tests/mutation/run.py $(ARGS)

bench: setup ## Headway and plain vLLM side by side on the real engine, a quarter of an hour; ARGS: --long, --write, --strict
	@$(BIN)/python deploy/models.py smollm2 && exec $(BIN)/python tests/benchmarks/bench.py $(ARGS)

bench-batching: setup ## what batches of 1 to 64 and each strategy gain on the real engine, half an hour; ARGS: --strict, --write, --only latency spread
	@$(BIN)/python deploy/models.py smollm2 && $(BIN)/python deploy/models.py tiny && exec $(BIN)/python tests/benchmarks/batching.py $(ARGS)

bench-prefixes: setup ## what the order by prefix gives on the real engine, about five minutes; ARGS: --strict, --write
	@$(BIN)/python deploy/models.py smollm2 && exec $(BIN)/python tests/benchmarks/prefixes.py $(ARGS)

bench-forecasts: setup ## what a server forecasts of its presets and what then happens, a quarter of an hour; ARGS: --strict, --write
	@$(BIN)/python deploy/models.py smollm2 && exec $(BIN)/python tests/benchmarks/forecasts.py $(ARGS)

bench-policies: setup ## the policies against their goals, about five minutes; ARGS: --strict, --write, --only G4
	@exec $(BIN)/python tests/benchmarks/policies.py $(ARGS)

bench-engine: setup ## an overload of the real engine, memory of what waits, little KV space, a quarter of an hour; ARGS: --strict, --write
	@$(BIN)/python deploy/models.py tiny && exec $(BIN)/python tests/benchmarks/engine.py $(ARGS)

bench-dashboard: setup ## what the dashboard costs, in a real browser, ten minutes; ARGS: --strict, --write, --only soak-long (half an hour)
	@$(BIN)/python deploy/models.py tiny && PYTHONPATH=tests/support exec $(BIN)/python tests/benchmarks/dashboard_costs.py $(ARGS)

bench-fleet: setup ## routing and scaling of several instances on the simulator; ARGS: --strict, --only routing
	@PYTHONPATH=tests/support exec $(BIN)/python tests/benchmarks/fleet.py $(ARGS)

bench-front: setup ## what one `headway route` costs a request and a token, ten minutes; ARGS: --model, --rest, --rounds 5, --write
	@$(BIN)/python deploy/models.py tiny && PYTHONPATH=tests/support exec $(BIN)/python tests/benchmarks/front_costs.py $(ARGS)

bench-engines: setup ## the bundled presets on a family of engines, beside each engine alone, on the simulator, ten minutes; ARGS: --strict, --write
	@PYTHONPATH=tests/support exec $(BIN)/python tests/benchmarks/presets_on_engines.py $(ARGS)

gpu-check: ## does all of Headway work on this GPU? a report to attach to an issue; ARGS: --model M, --short
	@set -e
	test -x $(GPU_BIN)/headway || test $(GPU_BIN) = out/gpu/bin || { echo "no headway in $(GPU_BIN): $(GPU_BIN)/pip install -e '.[gpu,tools]'" >&2; exit 2; }
	test -x $(GPU_BIN)/headway || { $(PYTHON) -m venv out/gpu && $(GPU_BIN)/pip install --quiet -e '.[gpu,tools]'; }
	unset HF_HUB_OFFLINE
	exec $(GPU_BIN)/python tests/benchmarks/gpu_check.py $(ARGS)

check: setup ## lint, format check, types, import contracts
	@set -e
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy deploy
	$(BIN)/mypy plugin/examples
	$(BIN)/lint-imports

audit: ## bandit over the code, and pip-audit over constraints.txt, which asks the advisories of PyPI
	@set -e
	test -x $(AUDIT)/pip-audit || { $(PYTHON) -m venv out/audit && $(AUDIT)/pip install --quiet 'bandit>=1.8' 'pip-audit>=2.9'; }
	$(AUDIT)/bandit --quiet --recursive --severity-level medium plugin policies/headway_policies dashboard/headway_dashboard deploy
	$(AUDIT)/pip-audit --requirement constraints.txt --no-deps --disable-pip
	$(AUDIT)/pip-audit --requirement deploy/ray_serve/constraints.txt --no-deps --disable-pip

reference: setup ## write the generated pages of the documentation anew
	@exec $(BIN)/python deploy/site/reference.py

pictures: setup ## the pictures of the dashboard in the READMEs, of the demo's overload; four minutes, needs Chromium
	@$(BIN)/python deploy/models.py smollm2 && exec $(BIN)/python deploy/site/pictures.py

site: setup ## the documentation as web pages, in out/site/html; fails on a broken link or an unknown name
	@set -e
	test -x $(SITE)/mkdocs || { $(PYTHON) -m venv out/site && $(SITE)/pip install --quiet 'mkdocs>=1.6,<2'; }
	$(BIN)/python deploy/site/reference.py --check
	PYTHONPATH=deploy/site $(BIN)/python -m headway_site.check
	$(SITE)/mkdocs build --strict --config-file deploy/site/mkdocs.yml

format: setup ## format the code
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lock: ## write constraints.txt anew from a fresh install without pins
	@$(PYTHON) deploy/bootstrap.py --lock

release: ## check and build a release in out/release, for a maintainer to publish; nothing is uploaded; ARGS: --date, --rehearse
	@exec $(PYTHON) deploy/release.py $(ARGS)

clean: ## remove everything that the other targets made
	@rm -rf .venv .models out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
