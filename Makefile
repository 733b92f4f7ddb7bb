.DEFAULT_GOAL := help
.PHONY: help setup demo reproduce map ui test smoke lint size docs bench bench-quick conformance deploy-check gpu-check campaign screenshots lock address sbom site

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FLOWER := $(VENV)/.flower
CORES ?= all
# The first Python that is new enough.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
LOCKED = --universal --python-version 3.11 --no-header --no-annotate --quiet
VERSION_OF_PACKAGE = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' plfl/__init__.py)
EXTRAS = --extra study --extra comstock --extra dev
TORCH = --requirement torch.lock
# Python files are compiled at the end, on all cores: pip would do it on one.
INSTALL = $(BIN)/pip install --quiet --no-compile

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## install everything into .venv

# Without an NVIDIA GPU a CPU build of PyTorch saves gigabytes; not every network reaches its index.
$(READY): requirements.lock torch.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@if nvidia-smi -L >/dev/null 2>&1; then \
		echo "NVIDIA GPU found: installing the CUDA build of PyTorch"; \
		$(INSTALL) $(TORCH); \
	else \
		echo "No NVIDIA GPU: installing the CPU build of PyTorch"; \
		$(INSTALL) --timeout 10 --retries 0 \
			--index-url https://download.pytorch.org/whl/cpu $(TORCH) 2>/dev/null \
		|| $(INSTALL) $(TORCH); \
	fi
	$(INSTALL) --no-deps --require-hashes --requirement requirements.lock
	$(INSTALL) --no-deps --editable .
	$(BIN)/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib plfl plfl_images plfl_reproductions || true
	$(BIN)/python -m plfl.training.fused
	@touch $@

# Flower, which only deployments and their tests need. setuptools warns of every editable installation.
$(FLOWER): $(READY)
	PYTHONWARNINGS=ignore::UserWarning $(BIN)/pip install --quiet --editable '.[deploy]'
	@touch $@

demo: $(READY) ## run a short study on sample data; two minutes on two cores
	$(BIN)/plfl study config/demo.yaml --cores $(CORES)

reproduce: $(READY) ## run the paper's study: 36 buildings from the public bucket, full rounds
	$(BIN)/plfl study config.yaml --cores $(CORES)

map: $(READY) ## run the study of measured meters in the folder DATA, or STUDY=map-homes, map-homes-40, map-cambridge, map-size, map-homes-size, map-day-ahead, map-homes-day-ahead, map-cambridge-day-ahead, channel-meters
	@test -d "$(DATA)" || { echo "DATA=FOLDER is needed: docs/measured-meters.md says where the files come from" >&2; exit 1; }
	@mkdir -p data && for name in bdg2_sites lcl_homes cambridge ausgrid_homes; do ln -sfn "$(abspath $(DATA))" data/$$name; done
	$(BIN)/python -m benchmarks.map_public data/public $(or $(STUDY),map) --data data
	$(BIN)/plfl study config/$(or $(STUDY),map).yaml
	$(BIN)/python -m benchmarks.map results

ui: $(READY) ## open all studies in MLflow
	$(BIN)/plfl ui

test: $(FLOWER) ## run the tests
	$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

smoke: $(READY) ## run the complete pipeline on three clients; 25 seconds on two cores
	$(BIN)/plfl study config/smoke.yaml --cores $(CORES)

lint: $(READY) ## check format, lint, types and workflow
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run --Werror plfl/training/native/*.h plfl/training/native/*.cpp
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	@# No rule names a conda environment: all import plfl, which is installed beside Snakemake.
	$(BIN)/snakemake --lint --configfile config/smoke.yaml 2>&1 | awk '/^    \* / {seen = 1} \
		/^    \* / && !/Specify a conda environment/ {print; bad = 1} END {exit bad || !seen}'

size: ## print the lines of code by folder, and the words of prose
	@python3 benchmarks/size.py

docs: $(READY) ## build the documentation site in site/
	$(BIN)/pip install --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The site has a folder for each version, and `latest` leads to the newest.
site: $(READY) ## add the documentation of VERSION to the branch gh-pages; PUSH=--push publishes it
	$(BIN)/pip install --quiet --editable '.[docs]'
	PATH="$(abspath $(BIN)):$$PATH" VERSION="$(VERSION)" NO_MKDOCS_2_WARNING=1 \
		mike deploy --update-aliases --alias-type copy $(PUSH) "$(VERSION)" latest
	PATH="$(abspath $(BIN)):$$PATH" mike set-default $(PUSH) latest

bench: $(READY) ## measure the speed of training, and of a study of METERS beside the revision BEFORE; write benchmarks/README.md
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/meters.py $(METERS) $(if $(BEFORE),--before $(BEFORE)) --readme

# The training speed against a plain PyTorch loop, in under a minute.
bench-quick: $(READY)
	$(BIN)/python benchmarks/speed.py --quick

conformance: $(READY) ## compare the personalised methods of plfl and of other libraries
	$(BIN)/python -m benchmarks.conformance

deploy-check: $(FLOWER) ## compare three clients as real Flower processes with the simulator; five minutes
	$(BIN)/plfl deploy check
	$(BIN)/plfl deploy check --secure networks
	$(BIN)/plfl deploy check --secure trees

campaign: $(READY) ## run a long test campaign, NAME=...; without NAME, list them
ifdef NAME
	$(BIN)/pytest --capture=no -rs tests/campaigns/test_$(subst -,_,$(NAME))*.py
else
	@awk 'FNR == 1 { gsub("\"\"\"", ""); print FILENAME ":", $$0 }' tests/campaigns/test_*.py
endif

gpu-check: $(READY) ## compare training on a CUDA GPU with the CPU, and time it; needs a GPU
	$(BIN)/pytest tests/campaigns/test_gpu.py
	$(BIN)/python benchmarks/speed_gpu.py

# The screenshots of the documentation, from results/demo and docs/grid.yaml; needs chromium.
screenshots: $(READY)
	$(BIN)/plfl study docs/grid.yaml --cores $(CORES)
	$(BIN)/python docs/screenshots.py

# The owner's part of a first release.
address: ## write where this repository is published into its files; REPOSITORY=ACCOUNT/NAME
	@test -n "$(REPOSITORY)" || { echo "REPOSITORY=ACCOUNT/NAME is needed, as in github.com/ACCOUNT/NAME" >&2; exit 1; }
	@python3 release/address.py "$(REPOSITORY)"

sbom: ## list all locked dependencies in plfl.cdx.json (CycloneDX); needs cyclonedx-bom
	project=$$(mktemp) && sed "s/^dynamic = .*/version = \"$(VERSION_OF_PACKAGE)\"/" pyproject.toml > $$project && \
	cat requirements.lock torch.lock | cyclonedx-py requirements --pyproject $$project --mc-type application \
		--output-reproducible -o plfl.cdx.json -

# Updates the locks; needs uv. Versions that still fit stay; UPGRADE=--upgrade takes the newest. PyTorch's lock has no
# hashes: its CPU build is on an index of its own, and has others than that of PyPI. Flower is not in the locks, but its
# versions fit theirs.
lock:
	both=$$(mktemp) && cat requirements.lock torch.lock > $$both && \
	uv pip compile pyproject.toml $(EXTRAS) --extra deploy $(LOCKED) $(UPGRADE) -o $$both && \
	grep '^torch==' $$both > torch.lock && \
	uv pip compile pyproject.toml $(EXTRAS) --constraint $$both --generate-hashes $(LOCKED) \
		| awk '/^[a-z]/ {keep = !/^(nvidia|cuda|triton|torch)/} keep' > requirements.lock && \
	uv pip compile --group release --generate-hashes $(LOCKED) $(UPGRADE) -o release/requirements.txt
