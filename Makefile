# Every target sets itself up: `make env` builds .venv from the locked, hashed requirements.

.DEFAULT_GOAL := help
.PHONY: naive-agents audit docs examples fuzz sbom help env demo generate pictures fast model model-db test test-15 test-rls test-offline test-controls quick check fan-in faults faults-long faults-planted faults-recovery soak format lock lock-bench bench bench-peers bench-large bench-search clean plugins wheel start-test clients clients-ci lock-clients test-load deploy-check fleet capacity failover schema-check citus

PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
UV := $(shell command -v uv 2>/dev/null || echo .venv/bin/uv)
BIN := .venv/bin
# Compiled modules are kept: without them every run compiles all tests and all sources again.
unexport PYTHONDONTWRITEBYTECODE
STAMP := .venv/.waybook-installed

help:
	@echo "make demo    the main job on the embedded database, live in this terminal"
	@echo "make fast    what to run while working, within a minute: lint, types, rules, one smoke test"
	@echo "make test    the tests, except the model checks, load, and repetitions on PostgreSQL 15"
	@echo "make model   the model checks: every reachable state of plans and runs; two minutes"
	@echo "make test-load  2,197 jobs for 32 workers, 64 agents on a plan, 1,000 waiting calls; two minutes"
	@echo "make model-db  10,000 sampled decisions of the model check of plans, on PostgreSQL"
	@echo "make test-15  the tests that may differ there, on PostgreSQL 15; EVERY=1 for all with a database"
	@echo "make test-rls  those with a database, the queries saying nothing of whose the rows are"
	@echo "make test-offline  all of them, where there is no network but loopback"
	@echo "make test-controls  each control against a threat taken away, alone: a test must notice"
	@echo "make check   the whole gate: format, lint, types, import contracts, model checks, tests, load"
	@echo "make generate  write every generated file: schema, tool list, parts of pages"
	@echo "make pictures  draw the pictures of the documentation that come from a demo run"
	@echo "make docs    the documentation site with search in build/site; broken links fail"
	@echo "make clients  drive real clients and agent frameworks through a plan; prints their matrix"
	@echo "make audit   scanners over every file: our own rules, Bandit, secrets"
	@echo "make schema-check  whether the schema and all queries can be distributed by org"
	@echo "make sbom    what we ship with, as requirements/sbom.cdx.json"
	@echo "make examples  the examples for agent frameworks, with scripted models"
	@echo "make fuzz    fuzzers, a minute for each target; what they find is kept"
	@echo "make naive-agents  1,000 random plans with agents that follow only 'next', and die; ten minutes"
	@echo "make fan-in  what the tests do to runs some hundred times, ten thousand times"
	@echo "make faults  kill, cut and fill everything under load, and check what is left; 5 minutes"
	@echo "make faults-long  the same with hundreds of faults and 100,000 calls; 70 minutes at most"
	@echo "make faults-planted  ten bugs planted, one at a time: the fault harness must catch each"
	@echo "make fleet   rolling restarts and a migration behind HAProxy and pgbouncer; two minutes"
	@echo "make capacity  table of sizes of a fleet, and simulated agents that check it; six minutes"
	@echo "make failover  failovers of a Patroni cluster under load: what is lost, and for how long; minutes"
	@echo "make citus CITUS_SOURCE=folder  demo and tests on a Citus cluster, and the tasks of each query"
	@echo "make faults-recovery  how soon the servers serve again after each kind of fault"
	@echo "make soak    an hour of load: memory, descriptors and connections must stay flat"
	@echo "make bench   the benchmarks, each with its limits, and a summary; half an hour"
	@echo "make bench-large  reads in an org with 100,000 and with 1,000,000 plans; fails over a limit; minutes"
	@echo "make bench-search  how well and how fast search finds; takes minutes"
	@echo "make wheel   the wheel and sdist in dist/, built twice: equal sources give equal files"
	@echo "make plugins  real clients keep to their plan through compactions and a kill; ten minutes"
	@echo "make start-test  every command of the quickstart page, from the wheel, in an empty home"
	@echo "make deploy-check  image, compose file, Helm chart and systemd unit with their linters"
	@echo "make env     .venv with the locked dependencies and .venv/bin/waybook"

env: $(STAMP)

$(STAMP): pyproject.toml requirements/dev.lock
	@test -n "$(PYTHON)" || { echo "Waybook needs Python 3.11 or newer on the PATH." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || uv venv --quiet --python $(PYTHON) .venv
	@test -x "$(UV)" || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock
	@VIRTUAL_ENV=.venv $(UV) pip sync --quiet --require-hashes requirements/dev.lock $(if $(filter .venv/bin/uv,$(UV)),requirements/uv.lock)
	@VIRTUAL_ENV=.venv $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev pyproject.toml -o requirements/dev.lock --no-header
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes pyproject.toml -o requirements/run.lock --no-header
	echo uv | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes - -o requirements/uv.lock --no-header
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements/audit.in -o requirements/audit.lock --no-header
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes pyproject.toml requirements/fuzz.in -o requirements/fuzz.lock --no-header
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes pyproject.toml requirements/examples.in -o requirements/examples.lock --no-header
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements/deploy.in -o requirements/deploy.lock --no-header
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group docs -o requirements/docs.lock --no-header
	$(MAKE) sbom

# Apart from `lock`: a new version of a client needs `make clients`.
lock-clients: env
	@$(BIN)/python -m tools.clients.lock $(ONLY)

# Apart from `lock`: a new version of a peer needs new figures in docs/performance.md.
lock-bench: env
	@for name in $(PEERS); do $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes requirements/bench-$$name.in -o requirements/bench-$$name.lock --no-header; done

demo: env
	@$(BIN)/waybook demo

# One worker more than cores: tests wait for processes to start.
PYTEST := $(BIN)/python -m pytest -n 3 --dist worksteal -q
# The tests that need no database; tests/layers.py has the layers of all tests.
UNIT := $(addprefix tests/,accounts conditions core dag fuzz importers integrations notifications plan plugins research run test_page_address.py test_redaction.py test_settings.py)
SMOKE := tests/acceptance/test_smoke.py
ONCE := not model and not load and not pg15 and not slow

fast: env
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > .venv/contracts.log || { cat .venv/contracts.log; exit 1; }
	@WAYBOOK_HYPOTHESIS=quick $(PYTEST) -m "not model" --durations=5 $(UNIT) $(SMOKE)

test: env
	@$(PYTEST) -m "$(ONCE)"

# What is load rather than a rule; the same tests run with fewer workers and agents in `make test`.
test-load: env
	@$(BIN)/python -m pytest -q -m load tests/acceptance tests/browser

# WAYBOOK_WALK=wide walks further, for some minutes more.
model: env
	@$(PYTEST) -m model tests/conditions tests/plan tests/run

# Sampled decisions of the walk through all plan states, executed by the store; `make test` has 500.
DECISIONS := 10000
model-db: env
	@WAYBOOK_SAMPLED_DECISIONS=$(DECISIONS) $(PYTEST) -m "not pg15" tests/store/test_sampled_decisions.py

# What may differ on the oldest PostgreSQL we support; EVERY=1 adds what should not.
EVERY :=
test-15: env
	@$(PYTEST) -m "pg15$(if $(EVERY), or slow)"

# A thousand random plans, each with eight agents that follow only the suggested calls and die.
naive-agents: env
	@WAYBOOK_NAIVE_PLANS=1000 $(BIN)/python -m pytest -q -n 0 -o faulthandler_timeout=0 -m "not pg15 and not slow" tests/app/test_naive_agents.py

# The same with every condition on the org taken out of the queries: row-level security alone keeps
# orgs apart.
test-rls: env
	@WAYBOOK_TEST_WITHOUT_ORG=1 $(PYTEST) -m "not slow" tests/store tests/app tests/transport tests/acceptance tests/backup

# Runs in a network namespace with loopback only, so that no child process has a network either. The
# Node packages that the tests use must have been downloaded before.
OWN_NETWORK := unshare --net $(if $(filter-out 0,$(shell id -u)),--map-current-user --keep-caps)
LOOPBACK_ONLY := ip link set lo up && ! ip route get 192.0.2.1 2>/dev/null
test-offline: env
	@$(OWN_NETWORK) sh -c '$(LOOPBACK_ONLY) && exec $(PYTEST) -m "$(ONCE)"'

# Takes some minutes. ONLY="a word" tries the controls that have it in their name or threat.
ONLY :=
test-controls: env
	@$(BIN)/python tools/controls/run.py $(ONLY)

# What needs no database: format, lint, types, import contracts.
quick: env
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

# Every file that is made from others; tests compare each with what the generator returns.
generate: env
	@$(BIN)/python -m tools.generate

# Apart from `generate`: a plan id in each picture is new every time.
pictures: env
	@$(BIN)/python tools/pictures/watch.py
	@$(BIN)/python tools/pictures/run_map.py

# The whole gate. Tests compare every generated file with its generator.
check: quick model test test-load

# The scanners have a virtual environment of their own: they need other versions of our dependencies.
AUDIT := .venv-audit/.installed

$(AUDIT): requirements/audit.lock | $(STAMP)
	@test -x .venv-audit/bin/python || $(PYTHON) -m venv .venv-audit || uv venv --quiet --python $(PYTHON) .venv-audit
	@VIRTUAL_ENV=.venv-audit $(UV) pip sync --quiet --require-hashes requirements/audit.lock
	@touch $@

audit: $(AUDIT)
	@.venv-audit/bin/python tools/audit/check.py

# What a cluster that distributes the tables by org would refuse, in the schema and in all queries.
schema-check: env
	@$(BIN)/python -m tools.schema_check

# The linters of the files in deploy/ have an environment of their own.
DEPLOY := .venv-deploy/.installed

$(DEPLOY): requirements/deploy.lock | $(STAMP)
	@test -x .venv-deploy/bin/python || $(PYTHON) -m venv .venv-deploy || uv venv --quiet --python $(PYTHON) .venv-deploy
	@VIRTUAL_ENV=.venv-deploy $(UV) pip sync --quiet --require-hashes requirements/deploy.lock
	@touch $@

deploy-check: $(DEPLOY) wheel
	@.venv-deploy/bin/python tools/deploy/check.py

# Software bill of materials of the runtime dependencies.
sbom: $(AUDIT)
	@.venv-audit/bin/python tools/audit/sbom.py

# The site generator has its own environment, so that runtime and tests do not depend on it.
SITE := .venv-docs/.installed

$(SITE): requirements/docs.lock | $(STAMP)
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs || uv venv --quiet --python $(PYTHON) .venv-docs
	@VIRTUAL_ENV=.venv-docs $(UV) pip sync --quiet --require-hashes requirements/docs.lock
	@touch $@

docs: $(SITE)
	@$(BIN)/python tools/site/stage.py build/pages
	@.venv-docs/bin/zensical build --clean --strict
	@$(BIN)/python tools/site/check_links.py build/site
	@echo "open build/site/index.html, or serve it: python -m http.server --directory build/site"

# Clients and agent frameworks, each in an environment of its own in .clients/, work through a plan
# with a scripted model; see docs/clients.md. ONLY="name name" drives those, WRITE=1 updates the page.
WRITE :=
clients: env
	@$(BIN)/python -m tools.clients $(if $(WRITE),--write) $(ONLY)

clients-ci: env
	@$(BIN)/python -m tools.clients --ci

# The fuzzers have a virtual environment of their own: they have wheels for few machines.
FUZZ := .venv-fuzz/.installed
FUZZ_SECONDS := 60
FUZZ_EXAMPLES := 200

$(FUZZ): requirements/fuzz.lock | $(STAMP)
	@test -x .venv-fuzz/bin/python || $(PYTHON) -m venv .venv-fuzz || uv venv --quiet --python $(PYTHON) .venv-fuzz
	@VIRTUAL_ENV=.venv-fuzz $(UV) pip sync --quiet --require-hashes requirements/fuzz.lock
	@touch $@

fuzz: $(FUZZ)
	@PYTHONPATH=src .venv-fuzz/bin/python tools/fuzz/run.py $(FUZZ_SECONDS)
	@.venv-fuzz/bin/python tools/fuzz/api.py $(BIN)/waybook $(FUZZ_EXAMPLES)

# The agent frameworks have a virtual environment of their own, so that neither the runtime nor the
# tests depend on them.
EXAMPLES := .venv-examples/.installed

$(EXAMPLES): requirements/examples.lock | $(STAMP)
	@test -x .venv-examples/bin/python || $(PYTHON) -m venv .venv-examples || uv venv --quiet --python $(PYTHON) .venv-examples
	@VIRTUAL_ENV=.venv-examples $(UV) pip sync --quiet --require-hashes requirements/examples.lock
	@touch $@

examples: $(EXAMPLES)
	@$(BIN)/python tools/examples/check.py $(BIN)/waybook .venv-examples/bin/python

# Jobs that end at the same moment and connections cut between any two statements, at length.
fan-in: env
	@WAYBOOK_WALK=wide $(BIN)/python -m pytest -q tests/acceptance/test_runs_fan_in.py tests/acceptance/test_runs_killed.py

# The fault harness, see docs/reliability.md. SEED=n repeats a run, MINUTES=n is for `soak`,
# ONLY="a word" plants the bugs that have it in their name.
SEED :=
MINUTES := 60
FAULTS = PYTHONPATH=tests:tests/support $(BIN)/python -m faults.run $(if $(SEED),--seed $(SEED))

faults: env
	@$(FAULTS) short

faults-long: env
	@$(FAULTS) long

faults-planted: env
	@$(FAULTS) planted $(if $(ONLY),--only "$(ONLY)")

# SERVERS and WORKERS choose the size; OLD is the commit or the src folder of another version to
# start with.
SERVERS := 3
WORKERS := 1
OLD :=
fleet: env
	@PYTHONPATH=tests:tests/support $(BIN)/python -m fleet.run --servers $(SERVERS) --workers $(WORKERS) $(if $(OLD),--old $(OLD))

# Table of sizes by the capacity model, and simulated agents that check it; see docs/operate.md.
SIMULATE :=
capacity: env
	@$(BIN)/python -m tools.capacity.model
	@PYTHONPATH=tests:tests/support $(BIN)/python -m tools.capacity.simulate $(SIMULATE)

# Needs Patroni, etcd and HAProxy. AGENTS is the load, ONLY="a word" chooses scenarios.
AGENTS := 8
failover: env
	@PYTHONPATH=tests:tests/support $(BIN)/python -m ha.run --agents $(AGENTS) $(if $(ONLY),--only "$(ONLY)")

# CITUS_SOURCE is a folder with the source of Citus, CITUS_URL the superuser's URL of a coordinator.
CITUS_SOURCE :=
CITUS_URL :=
citus: env
	@PYTHONPATH=tests:tests/support:. $(BIN)/python -m citus.run $(if $(CITUS_URL),--url "$(CITUS_URL)",--source "$(CITUS_SOURCE)") $(if $(ONLY),--only "$(ONLY)")

faults-recovery: env
	@$(FAULTS) recovery

soak: env
	@$(FAULTS) soak --minutes $(MINUTES)

# Systems that benchmarks/peers compares with Waybook, each in an environment of its own in .bench/.
# A peer that cannot be installed is left out of the comparison.
PEERS := absurd pgqueuer langgraph dbos

.bench/%/.installed: requirements/bench-%.lock | $(STAMP)
	@test -x .bench/$*/bin/python || $(PYTHON) -m venv .bench/$* || uv venv --quiet --python $(PYTHON) .bench/$*
	@VIRTUAL_ENV=.bench/$* $(UV) pip sync --quiet --require-hashes --compile-bytecode $<
	@touch $@

bench-peers: env
	@-$(MAKE) --silent --keep-going $(PEERS:%=.bench/%/.installed)

# All benchmarks run, even if one misses its limit; results are in build/bench. ONLY="name name"
# runs those.
bench: bench-peers
	@$(BIN)/python benchmarks/run_all.py $(ONLY)

# Apart, for it fills a database with a million plans first, about 8 GB in the temporary directory.
bench-large: env
	@PYTHONPATH=tests:tests/support $(BIN)/python benchmarks/lists.py --plans 100000 1000000

# The real Claude Code and Gemini CLI with scripted models, and the bundle manifest; ten minutes.
plugins: env
	@PYTHONPATH=tests:tests/support $(BIN)/python -m plugins.real_clients

# Apart, for it fills a database of 200,000 passages first; PASSAGES=1000000 fills two million. With
# PGVECTOR_URL, the search is compared with that of pgvector on this server.
PASSAGES ?= 100000
bench-search: env
	@$(BIN)/python benchmarks/retrieval.py
	@$(BIN)/python benchmarks/search_scale.py --passages $(PASSAGES)

# Wheel and sdist in dist/, built twice and compared. WAYBOOK_REPOSITORY_URL sets the addresses.
wheel: env
	@$(BIN)/python tools/package/build.py

# The commands of docs/start.md from the built wheel, in an empty home directory, with the real
# Claude Code and a scripted model.
start-test: wheel
	@$(BIN)/python -m tools.package.start_test dist/waybook-*.whl

format: env
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-docs .venv-examples .clients .bench build dist .mypy_cache .ruff_cache .pytest_cache
