# Every target builds the virtual environments that it needs, from lock files with hashes.
# `make help` prints the texts after ##. The text above a harness describes this harness.

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

# The Python that builds the environments. `make demo PYTHON=python3.13` selects another one.
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
SETUP = $(or $(PYTHON),$(error Waybook needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3)) tools/setup_env.py
VENV := .venv
BIN := $(VENV)/bin
# Let Python keep compiled modules. Otherwise, every run would compile all tests and all sources.
unexport PYTHONDONTWRITEBYTECODE

help:
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) } /^## / { about = substr($$0, 4) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 } \
		/^harness\./ { split($$1, part, /[. ]/); printf "  NAME=%-16s %s\n", part[2], about }' $(firstword $(MAKEFILE_LIST))

##@ Start here
demo: run-env ## install Waybook in .venv, and show agents that work through a plan; one minute
	@$(BIN)/waybook demo

test: env ## run the tests; about eight minutes on two cores
	@$(PYTEST) -m "$(ONCE)"

##@ Work on it
# Waybook, and the packages that it needs at run time.
WAYBOOK := pyproject.toml requirements/build.lock requirements/run.lock
run-env: ## install Waybook in .venv, without the packages for tests
	@$(SETUP) $(VENV) $(WAYBOOK)

env: ## install Waybook in .venv, with the packages for tests
	@$(SETUP) $(VENV) $(WAYBOOK) requirements/dev.lock

# Three workers on two cores: tests often wait for processes to start.
PYTEST := $(BIN)/python -m pytest -n 3 --dist worksteal -q
# The tests that need no database; tests/layers.py assigns every test to a layer.
UNIT := $(addprefix tests/,accounts conditions core dag fuzz importers integrations notifications plan plugins research run test_page_address.py test_redaction.py test_settings.py)
SMOKE := tests/acceptance/test_smoke.py
# Leave out the tests that harnesses run.
ONCE := not model and not load and not pg15 and not slow

# The checks use one core and run at the same time as the tests. These tests do not wait for
# processes, so there is one worker per core.
fast: env ## lint, types, tests without a database and one with it, while you edit; one minute
	@{ $(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && \
		$(BIN)/mypy --no-error-summary && { $(BIN)/lint-imports > $(VENV)/contracts.log || \
		{ cat $(VENV)/contracts.log; false; }; }; } & checks=$$!; \
	WAYBOOK_HYPOTHESIS=quick $(PYTEST) -n 2 -m "not model" --durations=5 $(UNIT) $(SMOKE); tests=$$?; \
	wait $$checks && exit $$tests

quick: env ## lint, types and import rules of all files
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

check: quick ## everything to run before a merge: quick, model, test, test-load
	@$(MAKE) --no-print-directory harness NAME=model
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory harness NAME=test-load

format: env ## format all files, and fix what the linter can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Tests compare each generated file with the output of its generator.
generate: env ## write all generated files: schema, tool list, parts of the documentation
	@$(BIN)/python -m tools.generate

# The site generator has a separate environment.
docs: env ## build the documentation site in build/site; a broken link is an error
	@$(SETUP) .venv-docs requirements/docs.lock
	@$(BIN)/python tools/site/stage.py build/pages
	@.venv-docs/bin/zensical build --clean --strict
	@$(BIN)/python tools/site/check_links.py build/site
	@echo "open build/site/index.html, or serve it: python -m http.server --directory build/site"

# The variable WAYBOOK_REPOSITORY_URL sets the addresses in the package.
wheel: run-env ## build the wheel and the sdist in dist/, twice: the builds must be equal
	@$(BIN)/python tools/package/build.py

LOCK = UV_SYSTEM_CERTS=1 $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
lock: env ## update the lock files and the bill of materials after a change in pyproject.toml
	$(LOCK) --group dev pyproject.toml -o requirements/dev.lock
	$(LOCK) --constraints requirements/dev.lock pyproject.toml -o requirements/run.lock
	$(LOCK) --constraints requirements/dev.lock --group build -o requirements/build.lock
	echo uv | $(LOCK) - -o requirements/uv.lock
	$(LOCK) requirements/audit.in -o requirements/audit.lock
	$(LOCK) pyproject.toml requirements/fuzz.in -o requirements/fuzz.lock
	$(LOCK) pyproject.toml requirements/examples.in -o requirements/examples.lock
	$(LOCK) requirements/deploy.in -o requirements/deploy.lock
	$(LOCK) --group docs -o requirements/docs.lock
	$(harness.sbom)

clean: ## remove all environments, builds and caches
	rm -rf .venv .venv-* .clients .bench build dist .mypy_cache .ruff_cache .pytest_cache

# The systems that benchmarks/peers compares with Waybook. Each is installed in .bench/. If a system
# cannot be installed, the comparison leaves it out.
PEERS := absurd pgqueuer langgraph dbos
# Every benchmark runs, even if another misses its limit. The results are in build/bench.
# ONLY="name name" selects benchmarks.
bench: env ## run all benchmarks, compare them with their limits, print a summary; half an hour
	@for name in $(PEERS); do UV_COMPILE_BYTECODE=1 $(SETUP) .bench/$$name requirements/bench-$$name.lock || true; done
	@$(BIN)/python benchmarks/run_all.py $(ONLY)

# Each variable `harness.NAME` has the command that the harness NAME runs.
NAME :=
HARNESSES := $(sort $(shell sed -n 's/^harness\.\([a-z0-9-]*\) .*/\1/p' $(firstword $(MAKEFILE_LIST))))
harness: env ## run one of the following by name: make harness NAME=faults
	@$(if $(filter $(NAME),$(HARNESSES)),$(harness.$(NAME)),echo "make harness NAME=...: $(HARNESSES)"; exit 2)

HARNESS_PYTHON := PYTHONPATH=harness:tests:tests/support:. $(BIN)/python -m
# If a harness has parts, ONLY="text" selects those whose names contain the text.
ONLY :=

##@ Further tests: make harness NAME=...
# With WAYBOOK_WALK=wide, more states are checked, which takes some minutes more.
## check the rules in every reachable state of small plans and runs; ten minutes
harness.model = $(PYTEST) -o faulthandler_timeout=1800 -m model tests/conditions tests/plan tests/run

# `make test` makes 600 of these calls.
## make 10,000 random tool calls on plans, and compare each reply and all rows with the rules
harness.model-db = WAYBOOK_RANDOM_PLANS=340 $(PYTEST) -n 0 -m "not pg15 and not slow" tests/app/test_same_as_the_rules.py

# Smaller versions of these tests are part of `make test`.
## test with 32 workers on 2,197 jobs, 64 agents on a plan, 1,000 waiting calls; two minutes
harness.test-load = $(BIN)/python -m pytest -q -m load tests/acceptance tests/browser

# EVERY=1 adds all other tests with a database.
EVERY :=
## run on PostgreSQL 15 the tests whose result may depend on its version
harness.test-15 = $(PYTEST) -m "pg15$(if $(EVERY), or slow)"

## run tests without the org conditions of queries: row-level security must isolate tenants
harness.test-rls = WAYBOOK_TEST_WITHOUT_ORG=1 $(PYTEST) -m "not slow" tests/store tests/app tests/transport tests/acceptance tests/backup

# The tests, and the processes that they start, run in a network namespace that has only loopback.
# Download the Node packages that the tests use before.
OWN_NETWORK = unshare --net $(if $(filter-out 0,$(shell id -u)),--map-current-user --keep-caps)
LOOPBACK_ONLY := ip link set lo up && ! ip route get 192.0.2.1 2>/dev/null
## run `make test` without a network
harness.test-offline = $(OWN_NETWORK) sh -c '$(LOOPBACK_ONLY) && exec $(PYTEST) -m "$(ONCE)"'

## run `make test` on every supported Python of this machine, and print a table
harness.test-pythons = $(or $(PYTHON),python3) tools/pythons.py

## remove each security control in turn: a test must fail each time; a few minutes
harness.test-controls = $(BIN)/python tools/controls/run.py $(ONLY)

## complete 1,300 random plans and runs: agents follow only 'next', and may crash; ten minutes
harness.naive-agents = WAYBOOK_NAIVE_PLANS=1000 WAYBOOK_NAIVE_RUNS=300 $(BIN)/python -m pytest -q -n 0 -o faulthandler_timeout=0 -m "not pg15 and not slow" tests/app/test_naive_agents.py

## test runs thousands of times: jobs end at the same moment, and connections break
harness.fan-in = WAYBOOK_WALK=wide $(BIN)/python -m pytest -q tests/acceptance/test_runs_fan_in.py tests/acceptance/test_runs_killed.py

##@ Security, packages and clients: make harness NAME=...
# The scanners need other versions of Waybook's dependencies, so they have a separate environment.
AUDIT_ENV = $(SETUP) .venv-audit requirements/audit.lock
## scan all files for security problems: Waybook's own rules, Bandit, a search for secrets
harness.audit = $(AUDIT_ENV) && .venv-audit/bin/python tools/audit/check.py

## write the bill of materials of the runtime packages, requirements/sbom.cdx.json
harness.sbom = $(AUDIT_ENV) && .venv-audit/bin/python tools/audit/sbom.py

## check that a cluster could distribute the schema and all queries by org
harness.schema-check = $(BIN)/python -m tools.schema_check

## check image, compose file, Helm chart and systemd unit with their linters
harness.deploy-check = $(MAKE) wheel && $(SETUP) .venv-deploy requirements/deploy.lock && .venv-deploy/bin/python tools/deploy/check.py

## run all commands of the README and the quickstart, from a clone and from the wheel
harness.start-test = $(MAKE) wheel && $(BIN)/python -m tools.package.start_test dist/waybook-*.whl

# Each client is installed in .clients/; see docs/clients.md. WRITE=1 updates the page.
WRITE :=
## let real clients and agent frameworks work through a plan, with a scripted model
harness.clients = $(BIN)/python -m tools.clients $(if $(WRITE),--write) $(ONLY)

## the same, only with the clients that CI tests with every change
harness.clients-ci = $(BIN)/python -m tools.clients --ci

## let Claude Code and Gemini CLI complete a plan despite compactions and a kill; ten minutes
harness.plugins = $(HARNESS_PYTHON) plugin_clients.real_clients

## start the real coding agents as `waybook work` does, with a scripted model; ten minutes
harness.work-agents = $(HARNESS_PYTHON) work_agents.real_agents $(ONLY)

## let the real coding agents do one plan together, with scripted models; two minutes
harness.work-fleet = $(HARNESS_PYTHON) work_agents.real_fleet $(ONLY)

## let eight workers do 40 steps while agents, workers, servers and database fail; 30 minutes
harness.work-faults = $(HARNESS_PYTHON) work_agents.chaos $(if $(SEED),--seed $(SEED))

# The agent frameworks have a separate environment.
## run the examples for agent frameworks, with scripted models
harness.examples = $(SETUP) .venv-examples requirements/examples.lock && $(BIN)/python tools/examples/check.py $(BIN)/waybook .venv-examples/bin/python

# The fuzzers have a separate environment, because they have wheels only for a few platforms.
FUZZ_SECONDS := 60
FUZZ_EXAMPLES := 200
## fuzz each parser for a minute, then the HTTP interface; inputs that fail are saved
harness.fuzz = $(SETUP) .venv-fuzz requirements/fuzz.lock && PYTHONPATH=src .venv-fuzz/bin/python tools/fuzz/run.py $(FUZZ_SECONDS) && .venv-fuzz/bin/python tools/fuzz/api.py $(BIN)/waybook $(FUZZ_EXAMPLES)

##@ Break it under load: make harness NAME=...
# See docs/reliability.md. SEED=n repeats an earlier run. MINUTES=n is the duration of `soak`.
SEED :=
MINUTES := 60
FAULTS = $(HARNESS_PYTHON) faults.run $(if $(SEED),--seed $(SEED))

## cause 75 faults in servers, database and network, and check all guarantees; three minutes
harness.faults = $(FAULTS) short

## the same with hundreds of faults and 100,000 calls; up to 70 minutes
harness.faults-long = $(FAULTS) long

## plant ten known bugs, one at a time: the fault harness must find each
harness.faults-planted = $(FAULTS) planted $(if $(ONLY),--only "$(ONLY)")

## measure the time until calls succeed again after each kind of fault
harness.faults-recovery = $(FAULTS) recovery

## put load on servers for an hour: memory, descriptors and connections must not grow
harness.soak = $(FAULTS) soak --minutes $(MINUTES)

# SERVERS is the number of servers, and WORKERS the number of workers of each. OLD is the version to
# start with: a commit, or a src folder.
SERVERS := 3
WORKERS := 1
OLD :=
## restart and migrate a fleet of servers under load: no call may be lost; two minutes
harness.fleet = $(HARNESS_PYTHON) fleet.run --servers $(SERVERS) --workers $(WORKERS) $(if $(OLD),--old $(OLD))

# Needs Patroni, etcd and HAProxy. AGENTS is the number of agents that work during the failovers.
AGENTS := 8
## fail over a Patroni cluster: measure what is lost and how long calls fail; a few minutes
harness.failover = $(HARNESS_PYTHON) ha.run --agents $(AGENTS) $(if $(ONLY),--only "$(ONLY)")

# CITUS_SOURCE is a folder with the source of Citus. To use an existing cluster instead, set
# CITUS_URL to the superuser's URL of its coordinator.
CITUS_SOURCE :=
CITUS_URL :=
## run the demo and tests on a Citus cluster built from CITUS_SOURCE=folder
harness.citus = $(HARNESS_PYTHON) citus.run $(if $(CITUS_URL),--url "$(CITUS_URL)",--source "$(CITUS_SOURCE)") $(if $(ONLY),--only "$(ONLY)")

##@ Measure and write: make harness NAME=...
# First fills a database with a million plans: about 8 GB in the temporary directory.
## measure reads in orgs with 100,000 and 1,000,000 plans; some minutes
harness.bench-large = PYTHONPATH=.:tests:tests/support $(BIN)/python benchmarks/lists.py --plans 100000 1000000

# First fills a database with 200,000 passages, or with two million if PASSAGES=1000000. If
# PGVECTOR_URL is set, the search is compared with pgvector on that server.
PASSAGES ?= 100000
## measure the quality and the speed of the search; some minutes
harness.bench-search = $(BIN)/python benchmarks/retrieval.py && $(BIN)/python benchmarks/search_scale.py --passages $(PASSAGES)

# Described in docs/operate.md. SIMULATE has options for capacity.simulate.
SIMULATE :=
## print a table of fleet sizes, and check it with simulated agents; six minutes
harness.capacity = $(BIN)/python harness/capacity/model.py && $(HARNESS_PYTHON) capacity.simulate $(SIMULATE)

# Not part of `make generate`, because the pictures contain plan ids, which are new every time.
## make the pictures of the documentation from scripted plans and runs
harness.pictures = $(BIN)/python -m tools.pictures

# Not part of `make lock`, because the clients must be tested after an update.
## update the lock files of the clients that are tested
harness.lock-clients = $(BIN)/python -m tools.clients.lock $(ONLY)

# Not part of `make lock`, because docs/evidence/performance.md needs new figures after an update.
## update the lock files of the systems that `make bench` compares with Waybook
harness.lock-bench = for name in $(PEERS); do $(LOCK) --upgrade requirements/bench-$$name.in -o requirements/bench-$$name.lock; done
