# make demo   fit a made-up sample, show recommendations with their reasons, write reports with pictures, serve the
#             application on this machine and print a link to it; SERVE=0 stops before that, PORT=8123 takes another port
# make test   lint and the whole test suite
# Both set up .venv first; they need Python 3.11 or later, git and make. PYTHON=python3.13 takes another interpreter.
# make test-all   the tests on every Python from 3.11 to 3.14 that this machine has, one after the other

.PHONY: demo test test-all lint bench dist release check-container clean
VENV ?= .venv
BIN := $(VENV)/bin
export VENV

demo: $(VENV)/.demo
	$(BIN)/ocular demo -o demo $(if $(filter 0,$(SERVE)),,--serve $(if $(PORT),--port $(PORT)))

# groups of tests that share a server or a long set-up stay in one process: tests/conftest.py
test: lint
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadscope --no-loadscope-reorder

test-all:
	scripts/test-all

# wheel and sdist, each installed into an empty environment where the demo runs
dist: $(VENV)/.test
	scripts/check-dist

# the same, with a bill of materials (CycloneDX) and requirements with hashes for pip-audit
release: $(VENV)/.test
	scripts/release

# the steps of deploy/Containerfile in a chroot, as root: make check-container BASE=a root file system with Python
check-container:
	scripts/check-container $(BASE)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p ocular
	$(BIN)/lint-imports --no-cache

# the short form: start-up times and a small fit; with OCULAR_DATA=DIR the comparisons on public data too
bench: $(VENV)/.test
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
	rm -rf .venv .venv-* .tools dist demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/.demo: pyproject.toml uv.lock scripts/setup
	scripts/setup demo
	@touch $@

$(VENV)/.test: pyproject.toml uv.lock scripts/setup
	scripts/setup test
	@touch $@ $(VENV)/.demo
