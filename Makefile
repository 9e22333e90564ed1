# Everything that people and CI type. `make demo` and `make test` each make what they need on a fresh machine.
#
#   PYTHON=/path/to/python3.12   the interpreter for .venv, instead of the newest one on the PATH
#   ARGS='...'                   passed on to pytest (make test), to the benchmark (make bench) or to the judges (make judges, judges-ansible)

SHELL := /bin/sh
BIN := .venv/bin
ARGS ?=

C_SOURCES := $(shell find src/roamlet/*/c -name '*.[ch]' 2>/dev/null)
PREPARE := tools/prepare.sh

.PHONY: help demo test check check-native docs pages bench bench-threads test-all test-exhaustive try-pythons test-lab test-ansible lab-demo ansible-demo judges judges-ansible judges-dask judges-executor soak cleanroom nightly try-aarch64 wheels newcomer clean

help:
	@echo 'make demo       local contexts and tasklets: the whole story in half a minute'
	@echo 'make test       the test suite, under 10 minutes on 2 cores'
	@echo 'make check      format, lint, types, layers, exceptions that are kept, C warnings, documentation, words'
	@echo 'make pages      fill in what the documentation has from the code: maps, tables, signatures'
	@echo 'make check-native  the core under a debug interpreter, sanitizers, leak and stress runs (an hour on 2 cores)'
	@echo 'make bench      figures beside those of the peers'
	@echo 'make bench-threads  the page of threads and servers, on every Python >= 3.11 found (under 10 minutes)'
	@echo 'make test-all   core and remote tests with every Python >= 3.11 found'
	@echo 'make test-exhaustive  what make test leaves out because other versions, transports or inputs show the same'
	@echo 'make try-pythons  make test-all on the Pythons of newer Debian releases, 3.14 and 3.15 among them (root, downloads them)'
	@echo 'make test-lab   the tests in offices of network namespaces, at most 10 minutes on 2 cores (root)'
	@echo 'make test-ansible  whole playbooks of Ansible over roamlet, beside ssh, in some minutes'
	@echo 'make lab-demo   three offices on this machine joined by roamlet vpn, shown, and taken down again (root)'
	@echo 'make judges     CPython'"'"'s own tests with the stock and the patched standard library, on every Python >= 3.11 found (an hour)'
	@echo 'make judges-executor  tests of CPython, joblib and scikit-learn over roamlet.executor and roamlet.joblib (10 minutes)'
	@echo 'make judges-dask   tests of distributed'"'"'s own clusters over roamlet.dask (5 minutes)'
	@echo 'make judges-ansible  the integration tests of ansible-core with stock ssh and with roamlet (root, takes hours)'
	@echo 'make ansible-demo  one playbook over ten hosts of a lab with stock ssh, Mitogen and roamlet (root)'
	@echo 'make soak       the tests that take longer'
	@echo 'make cleanroom  clone into fresh Debian systems and make demo and test there (root, takes an hour)'
	@echo 'make nightly    what .ci/run leaves out: test-all whole, try-pythons, long readings of memory, the other clean rooms (root, hours)'
	@echo 'make wheels     sdists and wheels in dist/, built twice and compared, installed without a compiler and tried'
	@echo 'make newcomer   the first hour of a newcomer in fresh Debian systems, from the wheels in dist/, each step timed (root)'
	@echo 'make try-aarch64  the core tests on an emulated aarch64 (takes a quarter of an hour)'

# Stamps: each is newer than what it was made from. The packages first, then the C core alone when only it has changed.
.venv/.packages: pyproject.toml setup.py $(wildcard apps/*/pyproject.toml) $(PREPARE)
	@PYTHON='$(PYTHON)' $(PREPARE) .venv demo,test
	@touch $@ .venv/.core

.venv/.core: .venv/.packages $(C_SOURCES)
	@$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

.venv/.dev: .venv/.packages
	@$(PREPARE) .venv demo,test,dev
	@touch $@

.venv/.bench: .venv/.packages
	@$(PREPARE) .venv demo,test,bench
	@touch $@

demo: .venv/.core
	@$(BIN)/roamlet demo

test: .venv/.core
	@$(BIN)/python tools/run_tests.py $(ARGS)

test-lab: .venv/.core
	@$(BIN)/python tools/run_lab.py $(ARGS)

test-ansible: .venv/.core
	@$(BIN)/python tools/pytest_run.py playbooks -m playbook apps/ansible/tests $(ARGS)

lab-demo: .venv/.core
	@$(BIN)/python examples/three_offices.py

judges: .venv/.core
	@$(BIN)/python -m tools.judges $(ARGS)

judges-executor: .venv/.core
	@$(BIN)/python -m tools.judges.executors $(ARGS)

judges-dask: .venv/.core
	@$(BIN)/python -m tools.judges.dask_cluster $(ARGS)

judges-ansible: .venv/.core
	@$(BIN)/python -m apps.ansible.judges $(ARGS)

ansible-demo: .venv/.core
	@$(BIN)/python -m tools.ansible_demo

soak: .venv/.core
	@$(BIN)/python -m pytest --color=no -o faulthandler_timeout=0 -m soak $(ARGS)

check: .venv/.core .venv/.dev
	@$(BIN)/python tools/check.py

check-native: .venv/.core
	@$(BIN)/python -m tools.check_native $(ARGS)

docs: .venv/.dev
	@$(BIN)/python -m mkdocs build --quiet --strict --site-dir build/docs

pages: .venv/.core
	@$(BIN)/python -m tools.architecture_map --write
	@$(BIN)/python -m tools.signatures --write
	@$(BIN)/python -m tools.figures --write
	@$(BIN)/python -m tools.front_picture --write

bench: .venv/.core .venv/.bench
	@$(BIN)/python -m bench $(ARGS)

bench-threads: .venv/.core .venv/.bench
	@tools/bench_threads.sh $(ARGS)

test-all:
	@tools/test_all.sh $(ARGS)

test-exhaustive: .venv/.core
	@ROAMLET_TESTS=all $(BIN)/python tools/pytest_run.py exhaustive -m exhaustive --roamlet-leaks tests apps $(ARGS)

try-pythons:
	@tools/try_debian_python.sh $(ARGS)

newcomer:
	@tools/newcomer.sh $(ARGS)

wheels: .venv/.packages
	@$(BIN)/python -m tools.wheels $(ARGS)

cleanroom:
	@tools/cleanroom.sh $(ARGS)

nightly:
	@status=0; tools/test_all.sh $(ARGS) || status=1; tools/try_debian_python.sh || status=1; $(MAKE) test-exhaustive || status=1; \
	$(MAKE) wheels ARGS='--debian --aarch64' || status=1; \
	tools/newcomer.sh bookworm forky || status=1; \
	$(MAKE) judges ARGS= || status=1; \
	$(MAKE) soak ARGS='tests/diagnose/outside' || status=1; \
	tools/cleanroom.sh bare user locale space || status=1; exit $$status

try-aarch64: .venv/.packages
	@tools/try_aarch64.sh $(ARGS)

clean:
	rm -rf build .venv dist *.egg-info src/*.egg-info apps/*/src/*.egg-info apps/*/build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete
