# make demo   fit the embedded sample, show recommendations with their reasons, write reports with pictures, and serve
#             the application on this machine; SERVE=0 stops before that, PORT=8123 takes another port than 8000
# make test   lint and the whole test suite
# Both set up .venv first; they need Python 3.11 or later, git and make.

.PHONY: demo test lint bench clean
BIN := .venv/bin

demo: .venv/.demo
	$(BIN)/ocular demo -o demo $(if $(filter 0,$(SERVE)),,--serve $(if $(PORT),--port $(PORT)))

test: lint
	$(BIN)/pytest

lint: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p ocular
	$(BIN)/lint-imports --no-cache

# the short form: start-up times and a small fit; with OCULAR_DATA=DIR the comparisons on public data too
bench: .venv/.test
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/scaling.py --quick
	$(BIN)/python benchmarks/recovery.py --quick
	$(BIN)/python benchmarks/roofline.py --quick
	$(BIN)/python benchmarks/netflix.py --quick
	$(BIN)/python benchmarks/gpu.py --quick
	$(BIN)/python benchmarks/spark.py --quick
	@if [ -n "$(OCULAR_DATA)" ]; then for script in fit sparse recommend; do $(BIN)/python benchmarks/$$script.py; done; \
	else echo "set OCULAR_DATA=DIR for the comparisons with other libraries on public data"; fi

clean:
	rm -rf .venv .tools demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.venv/.demo: pyproject.toml uv.lock scripts/setup
	scripts/setup demo
	@touch $@

.venv/.test: pyproject.toml uv.lock scripts/setup
	scripts/setup test
	@touch $@ .venv/.demo
