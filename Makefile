# kvtui: everything starts from a bare Python 3.11+ and make.
#
#   make run     the workbench; without a terminal, the fan-page job on the
#                embedded stores
#   make test    lint and all tests, against real servers
#   make lint    ruff, mypy, import-linter
#   make bench   kvtui beside other tools, in one run
#   make wiredtiger  build the embedded store WiredTiger: minutes, once a machine

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Each program, and its package where that has another name; MariaDB's start no
# service.
SERVERS := redis-server memcached mariadbd:mariadb-server-core mariadb-slap:mariadb-client \
	apache2:apache2-bin
# Processes that test side by side; most tests wait for a server.
TESTERS ?= 4
# Stands in for mongod, which few distributions have; the version that is known to do.
STAND_IN := secantusdb==0.7.0b3
STAND_IN_HOME := $(VENV)/servers/secantusdb

# plyvel brings LevelDB with it up to Python 3.12; for later ones it is compiled.
LEVELDB_BUILD := libleveldb-dev g++ python3-dev
NEEDS_LEVELDB = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 13))' \
	&& ! [ -e /usr/include/leveldb/db.h ]

.DEFAULT_GOAL := help
.PHONY: help run test lint bench servers stand-in wiredtiger clean

help:
	@sed -n '3,8s/^# *//p' Makefile

# Made anew when the dependencies change; the stamp is written last.
$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kvtui needs Python 3.11 or newer; $(PYTHON) is" \
		"$$($(PYTHON) --version 2>&1). Name one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq python3-venv >/dev/null; \
		else echo "python3-venv is missing: sudo apt install python3-venv"; exit 1; fi; }
	@$(NEEDS_LEVELDB) && { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing $(LEVELDB_BUILD)"; apt-get update -qq; \
			DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq $(LEVELDB_BUILD) >/dev/null; \
		else echo "plyvel has to be compiled for this Python:" \
			"sudo apt install $(LEVELDB_BUILD)"; exit 2; fi; }; [ $$? != 2 ]
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

run: $(VENV)/installed
	@if [ -t 0 ] && [ -t 1 ] && [ -t 2 ]; then $(BIN)/kvtui; \
	else $(BIN)/kvtui run fans --store null --store ram --store leveldb \
		$$($(BIN)/python -c 'import wiredtiger' 2>/dev/null && echo --store wiredtiger); fi

test: lint servers stand-in
	@$(MAKE) --no-print-directory wiredtiger || \
		echo "WiredTiger could not be built; its tests will skip"
	$(BIN)/python -m pytest -q --durations=10 -n $(TESTERS)

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Where apt may be used it is; otherwise the tests that need a server skip, and say
# so at the end.
servers:
	@for each in $(SERVERS); do \
		server=$${each%%:*}; package=$${each#*:}; \
		PATH="$$PATH:/usr/local/sbin:/usr/sbin:/sbin"; \
		command -v $$server >/dev/null && continue; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing $$server"; \
			apt-get update -qq; \
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$package >/dev/null \
				|| echo "$$server could not be installed; its tests will skip"; \
		else echo "$$server is missing, its tests will skip: sudo apt install $$package"; fi; \
	done

# An environment of its own: its packages would collide with other stores' bindings.
stand-in: $(VENV)/installed
	@command -v mongod >/dev/null || [ -x $(STAND_IN_HOME)/bin/secantusd-py ] || { \
		echo "no mongod here: installing $(STAND_IN) to stand in for it"; \
		$(PYTHON) -m venv $(STAND_IN_HOME) && $(STAND_IN_HOME)/bin/python -m pip \
			install --quiet --disable-pip-version-check $(STAND_IN) || { \
			rm -rf $(STAND_IN_HOME); \
			echo "$(STAND_IN) could not be installed; its tests will skip"; }; }

# Says what is wrong where it cannot be built, and does nothing where it is there.
wiredtiger: $(VENV)/installed
	@$(BIN)/python -m kvtui.stores.wiredtiger.build

bench: $(VENV)/installed servers stand-in
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
