PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := pyproject.toml constraints.txt

.PHONY: quickstart test bench lint docs

$(VENV)/.installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch torchvision
	$(INSTALL) -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) -e ".[dev]"
	touch $@

# Train the captioner on Scenes with probes on, validate the untrained network beside it, write the report.
quickstart: $(VENV)/.installed
	$(BIN)/lit-attn validate quickstart --run quickstart-untrained
	$(BIN)/lit-attn fit quickstart --run quickstart
	$(BIN)/lit-attn report $$(ls -td checkpoints/quickstart* | grep -v untrained | head -1)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 15

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.scan
	$(BIN)/python -m benchmarks.scenes
	$(BIN)/python -m benchmarks.probing
	$(BIN)/python -m benchmarks.decoding
	$(BIN)/python -m benchmarks.cider
	$(BIN)/python -m benchmarks.attention
	$(BIN)/python -m benchmarks.answering
	$(BIN)/python -m benchmarks.flow
	$(BIN)/python -m benchmarks.report_page

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy lit_attn

# The pages of docs/ as a site in site/, without the network; a broken link is an error.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
