.DEFAULT_GOAL := help
.PHONY: help setup demo reproduce ui test test-slurm torture torture-quick deploy-bits deploy-check deploy-hosts deploy-torture deploy-wire smoke lint docs screenshots bench bench-quick lock

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORES ?= all
# The first Python that is new enough.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
LOCKED = --universal --python-version 3.11 --no-header --no-annotate --quiet
TORCH = $(shell grep '^torch==' requirements.lock)
# setuptools warns of every editable installation.
FLOWER = PYTHONWARNINGS=ignore::UserWarning $(BIN)/pip install --quiet --editable '.[deploy]'
SNAKEMAKE = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakemake --cores $(CORES)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## install everything into .venv

# Without an NVIDIA GPU a CPU build of PyTorch saves gigabytes; not every network reaches its index.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@if nvidia-smi -L >/dev/null 2>&1; then \
		echo "NVIDIA GPU found: installing the CUDA build of PyTorch"; \
		$(BIN)/pip install --quiet $(TORCH); \
	else \
		echo "No NVIDIA GPU: installing the CPU build of PyTorch"; \
		$(BIN)/pip install --quiet --timeout 10 --retries 0 \
			--index-url https://download.pytorch.org/whl/cpu $(TORCH) 2>/dev/null \
		|| $(BIN)/pip install --quiet $(TORCH); \
	fi
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	$(BIN)/python -m plfl.training.fused
	@touch $@

demo: $(READY) ## the whole study on sample data, in minutes
	$(SNAKEMAKE) --configfile config/demo.yaml
	@echo "The page of the study: $(CURDIR)/results/demo/index.html"

reproduce: $(READY) ## the paper's study: 36 buildings from the public bucket, full rounds
	$(SNAKEMAKE) --configfile config.yaml

ui: $(READY) ## the MLflow UI of the latest study, or of STUDY=name
	$(BIN)/plfl ui $(if $(STUDY),results/$(STUDY))

test: $(READY) ## the tests
	$(BIN)/pytest --numprocesses auto --dist loadfile

test-slurm: $(READY) ## the workflow on a SLURM cluster made on this machine (root; see the script)
	$(BIN)/pip install --quiet --editable '.[slurm]'
	tests/cluster/slurm.sh $(BIN)/pytest tests/cluster/test_slurm.py

# Without atheris, which is not to be had everywhere, a part of the spoilt files is left out.
torture: $(READY) ## faulty downloads, kills and spoilt files by the hundred; minutes
	-@$(BIN)/pip install --quiet --editable '.[torture]'
	$(BIN)/python -m tests.faults.torture

torture-quick: $(READY) ## a sample of each, under a minute
	$(BIN)/python -m tests.faults.torture --quick

deploy-check: $(READY) ## three clients as real processes with Flower, against the simulator; two minutes
	$(FLOWER)
	$(BIN)/plfl deploy check

deploy-bits: $(READY) ## twelve clients, four methods, three splits, against the simulator; half an hour
	$(FLOWER)
	$(BIN)/python -u -m tests.deploy.bits 2

deploy-hosts: $(READY) ## the page's federation of two hosts, over a bad link (root; see docs/deploy.md)
	$(FLOWER)
	PLFL_HOSTS=1 $(BIN)/pytest tests/deploy/test_hosts.py

deploy-torture: $(READY) ## twenty kills of Flower's processes in the middle of rounds; fifteen minutes
	$(FLOWER)
	$(BIN)/python -m tests.deploy.torture

deploy-wire: $(READY) ## what crosses the wire, counted by a proxy; five minutes
	$(FLOWER)
	$(BIN)/python -u -m tests.deploy.measure P1
	$(BIN)/python -u -m tests.deploy.measure P2

smoke: $(READY) ## the whole pipeline on three clients, in seconds
	$(SNAKEMAKE) --configfile config/smoke.yaml

lint: $(READY) ## format, lint, types, workflow
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint --configfile config/smoke.yaml

bench: $(READY) ## every speed, side by side, into benchmarks/README.md; ten minutes
	$(BIN)/python benchmarks/bench.py

bench-quick: $(READY) ## training speed against a plain PyTorch loop, under a minute
	$(BIN)/python benchmarks/bench_quick.py

docs: $(READY) ## the documentation as a site, in site/
	$(BIN)/pip install --quiet "mkdocs-material>=9.5,<10"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

screenshots: $(READY) ## the pictures of the documentation, from results/demo (needs chromium)
	$(BIN)/python docs/screenshots.py

# Flower is not in the lock, but whoever adds it shall find versions that it can live with.
lock: ## renew requirements.lock (needs uv)
	both=$$(mktemp) && uv pip compile pyproject.toml --extra dev --extra deploy $(LOCKED) -o $$both && \
	uv pip compile pyproject.toml --extra dev --constraint $$both $(LOCKED) \
		| grep -vE '^(nvidia|cuda|triton)' > requirements.lock
