"""Fixtures for PostgreSQL servers, databases, and the application that uses them.

`conftest.py` loads this plugin with the first test file that is not a unit test, so that unit
tests start without the database driver and the application.
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

import postgres_servers
import rls_only_queries
from missing_programs import FIFTEEN, PGVECTOR, POSTGRES_15
from org_env import AgentClient, FakeClock, OrgEnv, make_env, open_owner
from pgvector import usable_server
from postgres_servers import Server, ServerDatabase, new_database
from run_place import CITUS
from waybook.store.maintenance.migrate import migrate

#: Mark for tests that run only on PostgreSQL 18, because the version does not affect their result.
ON_POSTGRES_18 = pytest.mark.parametrize("server", ["18"], indirect=True, scope="session")


def pytest_configure() -> None:
    """Remove the org filter from every SQL query if `WAYBOOK_TEST_WITHOUT_ORG` is set."""
    if rls_only_queries.SWITCH in os.environ:
        assert rls_only_queries.strip() > 0


@pytest.fixture(scope="session")
def eighteen() -> Iterator[Server]:
    """Yield the embedded PostgreSQL 18 server, or a Citus cluster if `CITUS` is set."""
    on_cluster = CITUS in os.environ
    with postgres_servers.citus() if on_cluster else postgres_servers.eighteen() as server:
        yield server


@pytest.fixture(scope="session")
def fifteen() -> Iterator[Server]:
    if not FIFTEEN.exists():
        POSTGRES_15.skip(f"{FIFTEEN} does not exist")
    with postgres_servers.fifteen() as server:
        yield server


@pytest.fixture(scope="session", params=["18", "15"])
def server(request: pytest.FixtureRequest) -> Server:
    chosen: Server = request.getfixturevalue({"18": "eighteen", "15": "fifteen"}[request.param])
    return chosen


@pytest.fixture(scope="session")
def shared_databases(server: Server) -> Iterator["SharedDatabases"]:
    with closing(SharedDatabases(server)) as databases:
        yield databases


@pytest.fixture(scope="module")
def shared_place(shared_databases: "SharedDatabases") -> ServerDatabase:
    """Return a migrated database that several test files share; each test creates its own orgs."""
    return shared_databases.current()


@pytest.fixture(scope="module")
def catalog(shared_place: ServerDatabase) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shared_place.admin_dsn, autocommit=True) as connection:
        yield connection


class SharedDatabases:
    """Migrated database shared by test files, replaced by a new one when it contains many orgs.

    Background tasks process every org, so with the orgs of all earlier tests a task would take
    seconds.
    """

    MAX_ORGS = 40

    def __init__(self, server: Server) -> None:
        self.server = server
        self._place: ServerDatabase | None = None
        self._opened = ExitStack()

    def current(self) -> ServerDatabase:
        if self._place is None or count_orgs(self._place) > self.MAX_ORGS:
            self.close()
            self._place = self._opened.enter_context(new_database(self.server))
            self._opened.enter_context(open_owner(self._place))
        return self._place

    def close(self) -> None:
        self._opened.close()
        self._place = None


def count_orgs(place: ServerDatabase) -> int:
    with psycopg.connect(place.admin_dsn) as admin:
        (count,) = admin.execute("select count(*) from org").fetchone() or (0,)
        return int(count)


@pytest.fixture
def own_place(server: Server) -> Iterator[ServerDatabase]:
    with new_database(server) as place:
        yield place


@pytest.fixture(scope="module")
def module_place(eighteen: Server) -> Iterator[ServerDatabase]:
    """Yield a migrated database on PostgreSQL 18 for the tests of one file."""
    with new_database(eighteen) as place, open_owner(place):
        yield place


@pytest.fixture(scope="session")
def pgvector_server(request: pytest.FixtureRequest) -> Server:
    """Return a server whose pgvector works on this CPU; skip the test if no server has one."""
    name, why = usable_server()
    if name is None:
        PGVECTOR.skip(why)
    chosen: Server = request.getfixturevalue({"18": "eighteen", "15": "fifteen"}[name])
    return chosen


@pytest.fixture
def pgvector_place(pgvector_server: Server) -> Iterator[ServerDatabase]:
    with new_database(pgvector_server) as place:
        with psycopg.connect(place.admin_dsn) as admin:
            admin.execute("create extension if not exists vector")
        migrate(place.owner_dsn)
        yield place


@pytest.fixture
async def world(shared_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    """Yield a test environment: two orgs, a tool dispatcher, and a clock fixed at noon."""
    async with make_env(shared_place) as made:
        yield made


@pytest.fixture
async def own_world(own_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(own_place) as made:
        yield made


@pytest.fixture
async def alone(module_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(module_place) as made:
        yield made


@pytest.fixture
def agent(world: OrgEnv) -> AgentClient:
    return world.agent


@pytest.fixture
def other_org(world: OrgEnv) -> AgentClient:
    return world.other_org


@pytest.fixture
def clock(world: OrgEnv) -> FakeClock:
    return world.clock
