# Every target builds the virtual environments that it needs, from lock files with hashes.
# The texts after ## are printed by `make help`; a text above a harness describes it.

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

# The Python that builds the environments: `make demo PYTHON=python3.13` chooses another one.
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
SETUP = $(or $(PYTHON),$(error Waybook needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3)) tools/setup_env.py
VENV := .venv
BIN := $(VENV)/bin
# Python keeps the compiled modules: without them, every run compiles all tests and all sources.
unexport PYTHONDONTWRITEBYTECODE

help:
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) } /^## / { about = substr($$0, 4) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 } \
		/^harness\./ { split($$1, part, /[. ]/); printf "  NAME=%-16s %s\n", part[2], about }' $(firstword $(MAKEFILE_LIST))

##@ Start here
demo: run-env ## install Waybook in .venv and watch agents work through a plan; one minute
	@$(BIN)/waybook demo

test: env ## run the tests; about eight minutes on two cores
	@$(PYTEST) -m "$(ONCE)"

##@ Work on it
# Waybook and the packages that it runs with.
WAYBOOK := pyproject.toml requirements/build.lock requirements/run.lock
run-env: ## install Waybook in .venv, without the packages for tests
	@$(SETUP) $(VENV) $(WAYBOOK)

env: ## install Waybook in .venv, with the packages for tests
	@$(SETUP) $(VENV) $(WAYBOOK) requirements/dev.lock

# One worker more than there are cores: tests wait for processes to start.
PYTEST := $(BIN)/python -m pytest -n 3 --dist worksteal -q
# The tests that need no database; tests/layers.py assigns every test to a layer.
UNIT := $(addprefix tests/,accounts conditions core dag fuzz importers integrations notifications plan plugins research run test_page_address.py test_redaction.py test_settings.py)
SMOKE := tests/acceptance/test_smoke.py
# Excluded here: what harnesses run.
ONCE := not model and not load and not pg15 and not slow

# The checks use one core and run beside the tests. No test here waits, so there is one worker per
# core.
fast: env ## while editing: lint, types, tests without a database, one test with it; a minute
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

check: quick ## what to run before a merge: quick, model, test, test-load
	@$(MAKE) --no-print-directory harness NAME=model
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory harness NAME=test-load

format: env ## format all files and fix what the linter can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Tests compare each generated file with the output of its generator.
generate: env ## write all generated files: schema, tool list, parts of the documentation
	@$(BIN)/python -m tools.generate

# The site generator is installed apart from the packages that Waybook and its tests need.
docs: env ## build the documentation site in build/site; a broken link is an error
	@$(SETUP) .venv-docs requirements/docs.lock
	@$(BIN)/python tools/site/stage.py build/pages
	@.venv-docs/bin/zensical build --clean --strict
	@$(BIN)/python tools/site/check_links.py build/site
	@echo "open build/site/index.html, or serve it: python -m http.server --directory build/site"

# WAYBOOK_REPOSITORY_URL sets the addresses in the package.
wheel: run-env ## build the wheel and the sdist in dist/, twice: both builds must be equal
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

# The systems that benchmarks/peers compares with Waybook, each installed in .bench/. A system that
# cannot be installed is left out of the comparison.
PEERS := absurd pgqueuer langgraph dbos
# All benchmarks run, even if one misses its limit; the results are in build/bench. ONLY="name name"
# selects benchmarks.
bench: env ## all benchmarks, each compared with its limits, and a summary; half an hour
	@for name in $(PEERS); do UV_COMPILE_BYTECODE=1 $(SETUP) .bench/$$name requirements/bench-$$name.lock || true; done
	@$(BIN)/python benchmarks/run_all.py $(ONLY)

# Each harness is a variable with the command that it runs.
NAME :=
HARNESSES := $(sort $(shell sed -n 's/^harness\.\([a-z0-9-]*\) .*/\1/p' $(firstword $(MAKEFILE_LIST))))
harness: env ## run one of the following by name: make harness NAME=faults
	@$(if $(filter $(NAME),$(HARNESSES)),$(harness.$(NAME)),echo "make harness NAME=...: $(HARNESSES)"; exit 2)

HARNESS_PYTHON := PYTHONPATH=harness:tests:tests/support:. $(BIN)/python -m
# ONLY="text" selects by name, where a harness has parts.
ONLY :=

##@ Further tests: make harness NAME=...
# With WAYBOOK_WALK=wide, the walk goes further and takes some minutes more.
## model checks: the rules in every reachable state of plans and runs; ten minutes
harness.model = $(PYTEST) -o faulthandler_timeout=1800 -m model tests/conditions tests/plan tests/run

# `make test` executes 100 of these decisions.
DECISIONS := 10000
## 10,000 decisions sampled from the model check of plans, executed on PostgreSQL
harness.model-db = WAYBOOK_SAMPLED_DECISIONS=$(DECISIONS) $(PYTEST) -m "not pg15" tests/store/test_sampled_decisions.py

# Smaller versions of these tests are part of `make test`.
## 32 workers on 2,197 jobs, 64 agents on one plan, 1,000 waiting calls; two minutes
harness.test-load = $(BIN)/python -m pytest -q -m load tests/acceptance tests/browser

# EVERY=1 adds all other tests with a database.
EVERY :=
## tests whose result may depend on the server version, on PostgreSQL 15
harness.test-15 = $(PYTEST) -m "pg15$(if $(EVERY), or slow)"

## tests with all org conditions removed: row-level security alone must isolate tenants
harness.test-rls = WAYBOOK_TEST_WITHOUT_ORG=1 $(PYTEST) -m "not slow" tests/store tests/app tests/transport tests/acceptance tests/backup

# The tests run in a network namespace with loopback only, and so do the processes that they start.
# The Node packages that they use must have been downloaded before.
OWN_NETWORK = unshare --net $(if $(filter-out 0,$(shell id -u)),--map-current-user --keep-caps)
LOOPBACK_ONLY := ip link set lo up && ! ip route get 192.0.2.1 2>/dev/null
## make test without a network
harness.test-offline = $(OWN_NETWORK) sh -c '$(LOOPBACK_ONLY) && exec $(PYTEST) -m "$(ONCE)"'

## make test on every supported Python that this machine has, with a table at the end
harness.test-pythons = $(or $(PYTHON),python3) tools/pythons.py

## remove each security control in turn: a test must fail each time; minutes
harness.test-controls = $(BIN)/python tools/controls/run.py $(ONLY)

## 1,000 random plans and 300 runs with agents that follow only 'next' and may die; ten minutes
harness.naive-agents = WAYBOOK_NAIVE_PLANS=1000 WAYBOOK_NAIVE_RUNS=300 $(BIN)/python -m pytest -q -n 0 -o faulthandler_timeout=0 -m "not pg15 and not slow" tests/app/test_naive_agents.py

## jobs that end at the same moment and connections that break, thousands of times
harness.fan-in = WAYBOOK_WALK=wide $(BIN)/python -m pytest -q tests/acceptance/test_runs_fan_in.py tests/acceptance/test_runs_killed.py

##@ Security, packages and clients: make harness NAME=...
# The scanners need other versions of our dependencies.
AUDIT_ENV = $(SETUP) .venv-audit requirements/audit.lock
## scan all files for security problems: our own rules, Bandit, secrets
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

## the same with the few clients that every change is tested with
harness.clients-ci = $(BIN)/python -m tools.clients --ci

## real Claude Code and Gemini CLI follow a plan through compactions and a kill; ten minutes
harness.plugins = $(HARNESS_PYTHON) plugin_clients.real_clients

# The agent frameworks are installed apart from the packages that Waybook and its tests need.
## run the examples for agent frameworks, with scripted models
harness.examples = $(SETUP) .venv-examples requirements/examples.lock && $(BIN)/python tools/examples/check.py $(BIN)/waybook .venv-examples/bin/python

# The fuzzers have wheels for few machines only.
FUZZ_SECONDS := 60
FUZZ_EXAMPLES := 200
## fuzz the parsers for a minute each, and the HTTP interface; findings are kept
harness.fuzz = $(SETUP) .venv-fuzz requirements/fuzz.lock && PYTHONPATH=src .venv-fuzz/bin/python tools/fuzz/run.py $(FUZZ_SECONDS) && .venv-fuzz/bin/python tools/fuzz/api.py $(BIN)/waybook $(FUZZ_EXAMPLES)

##@ Break it under load: make harness NAME=...
# See docs/reliability.md. SEED=n repeats a run, MINUTES=n is for `soak`.
SEED :=
MINUTES := 60
FAULTS = $(HARNESS_PYTHON) faults.run $(if $(SEED),--seed $(SEED))

## 75 faults in servers, database and network, then check every guarantee; three minutes
harness.faults = $(FAULTS) short

## the same with hundreds of faults and 100,000 calls; 70 minutes at most
harness.faults-long = $(FAULTS) long

## plant ten known bugs, one at a time: the fault harness must find each
harness.faults-planted = $(FAULTS) planted $(if $(ONLY),--only "$(ONLY)")

## measure the time until calls succeed again after each kind of fault
harness.faults-recovery = $(FAULTS) recovery

## an hour of load: memory, file descriptors and connections must not grow
harness.soak = $(FAULTS) soak --minutes $(MINUTES)

# SERVERS and WORKERS set the size; OLD is a commit or a src folder of the version to start with.
SERVERS := 3
WORKERS := 1
OLD :=
## rolling restarts and a migration behind HAProxy and pgbouncer; two minutes
harness.fleet = $(HARNESS_PYTHON) fleet.run --servers $(SERVERS) --workers $(WORKERS) $(if $(OLD),--old $(OLD))

# Needs Patroni, etcd and HAProxy. AGENTS sets the load.
AGENTS := 8
## failovers of a Patroni cluster: what is lost, and how long calls fail; minutes
harness.failover = $(HARNESS_PYTHON) ha.run --agents $(AGENTS) $(if $(ONLY),--only "$(ONLY)")

# CITUS_SOURCE is a folder with the sources of Citus; CITUS_URL is the superuser's URL of a
# coordinator that runs already.
CITUS_SOURCE :=
CITUS_URL :=
## demo and tests on a Citus cluster built from CITUS_SOURCE=folder
harness.citus = $(HARNESS_PYTHON) citus.run $(if $(CITUS_URL),--url "$(CITUS_URL)",--source "$(CITUS_SOURCE)") $(if $(ONLY),--only "$(ONLY)")

##@ Measure and write: make harness NAME=...
# First fills a database with a million plans: about 8 GB in the temporary directory.
## reads in orgs with 100,000 and 1,000,000 plans, compared with their limits; minutes
harness.bench-large = PYTHONPATH=tests:tests/support $(BIN)/python benchmarks/lists.py --plans 100000 1000000

# First fills a database with 200,000 passages; PASSAGES=1000000 fills in two million. With
# PGVECTOR_URL, the search is compared with pgvector on that server.
PASSAGES ?= 100000
## quality and speed of the search; minutes
harness.bench-search = $(BIN)/python benchmarks/retrieval.py && $(BIN)/python benchmarks/search_scale.py --passages $(PASSAGES)

# See docs/operate.md.
SIMULATE :=
## table of fleet sizes, and simulated agents that check it; six minutes
harness.capacity = $(BIN)/python harness/capacity/model.py && $(HARNESS_PYTHON) capacity.simulate $(SIMULATE)

# Not part of `generate`, because the pictures contain plan ids, which are new every time.
## make the pictures of the documentation from scripted plans and runs
harness.pictures = $(BIN)/python -m tools.pictures

# Not part of `lock`: after an update, the clients must be tested.
## update the lock files of the clients that are tested
harness.lock-clients = $(BIN)/python -m tools.clients.lock $(ONLY)

# Not part of `lock`: after an update, docs/evidence/performance.md needs new figures.
## update the lock files of the systems that `make bench` compares with Waybook
harness.lock-bench = for name in $(PEERS); do $(LOCK) --upgrade requirements/bench-$$name.in -o requirements/bench-$$name.lock; done
