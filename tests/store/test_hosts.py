"""Database URLs with several hosts, and a primary that became a standby."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fault_link import FaultLink, fault_link
from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from waybook.accounts.model import LOCAL_ORG
from waybook.errors import Busy, Unavailable
from waybook.store.driver.addresses import bounded_dsn, connect
from waybook.store.driver.database import Database
from waybook.store.driver.leadership import Leadership, hold_leadership
from waybook.store.driver.pool import ConnectionPool
from waybook.store.maintenance.migrate import owner_connection

CLOSED_PORT = "9"
READ_ONLY = "-c default_transaction_read_only=on"


@pytest.fixture
def place(eighteen: Server) -> Iterator[ServerDatabase]:
    with new_database(eighteen) as made:
        yield made


@contextmanager
def two_hosts(dsn: str) -> Iterator[tuple[FaultLink, FaultLink, str]]:
    """Yield two proxies to one server, and a DSN with both as hosts."""
    with fault_link(dsn) as (first, first_dsn), fault_link(dsn) as (second, second_dsn):
        ports = [str(conninfo_to_dict(each)["port"]) for each in (first_dsn, second_dsn)]
        host = str(conninfo_to_dict(first_dsn)["host"])
        both = make_conninfo(first_dsn, host=f"{host},{host}", port=",".join(ports))
        yield first, second, both


@contextmanager
def opened(place: ServerDatabase, dsn: str) -> Iterator[Database]:
    pool = ConnectionPool(dsn, size=2, timeout=PATIENCE_SECONDS)
    pool.wire.message_seconds = 2 * PATIENCE_SECONDS
    with closing(Database(pool, role=place.server.role)) as database:
        yield database


async def backend(database: Database) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        ((row,),) = await database.read_org(LOCAL_ORG, "select pg_backend_pid()")
    return int(row[0])


def test_database_url_with_several_hosts_selects_the_primary() -> None:
    parameters = conninfo_to_dict(bounded_dsn("postgresql://u@a:1,b:2/d"))
    assert parameters["target_session_attrs"] == "read-write"
    assert parameters["connect_timeout"] == "3"
    assert "target_session_attrs" not in conninfo_to_dict(bounded_dsn("postgresql://u@a/d"))


async def test_second_database_host_is_used_if_first_does_not_answer(place: ServerDatabase) -> None:
    with two_hosts(place.app_dsn) as (first, _, dsn):
        first.is_open.clear()
        async with asyncio.timeout(PATIENCE_SECONDS), await connect(dsn) as connection:
            assert str(connection.info.port) == str(conninfo_to_dict(dsn)["port"]).split(",")[1]
        first.is_open.set()


async def test_connection_refused_by_every_host_raises_an_error() -> None:
    with pytest.raises(psycopg.OperationalError):
        await connect(f"host=127.0.0.1,127.0.0.1 port={CLOSED_PORT} dbname=d user=u")


def test_owner_connection_uses_the_host_that_accepts_connections(place: ServerDatabase) -> None:
    with fault_link(place.owner_dsn) as (_, dsn):
        parameters = conninfo_to_dict(dsn)
        host, port = parameters["host"], parameters["port"]
        both = make_conninfo(dsn, host=f"{host},{host}", port=f"{CLOSED_PORT},{port}")
        with owner_connection(both) as connection:
            assert connection.info.port == int(str(port))


async def test_unanswered_call_fails_when_new_connection_reaches_another_primary(
    place: ServerDatabase,
) -> None:
    with two_hosts(place.app_dsn) as (first, _, dsn), opened(place, dsn) as database:
        await backend(database)
        first.is_open.clear()
        pending = asyncio.create_task(backend(database))
        await asyncio.sleep(0)
        assert await backend(database)
        with pytest.raises(Unavailable, match="not known"):
            await pending
        first.is_open.set()


async def test_lost_connection_closes_the_free_connections_of_the_pool(
    place: ServerDatabase,
) -> None:
    with fault_link(place.app_dsn) as (link, dsn), opened(place, dsn) as database:
        async with database.org_transaction(LOCAL_ORG) as tx:
            await tx.send("select 1")
            free = await backend(database)
            link.lose_next_answer()
            with pytest.raises(Unavailable):
                await tx.send("select 1")
        assert await backend(database) != free


async def test_write_to_a_standby_returns_busy_and_closes_the_connection(
    place: ServerDatabase,
) -> None:
    dsn = make_conninfo(place.app_dsn, options=READ_ONLY)
    with opened(place, dsn) as database:
        before = await backend(database)
        with pytest.raises(Busy, match="nothing was written"):
            await database.read_global("update org set slug = slug")
        assert await backend(database) != before


async def test_read_only_error_on_primary_is_not_reported_as_busy(
    place: ServerDatabase,
) -> None:
    not_busy = pytest.raises(psycopg.errors.ReadOnlySqlTransaction)
    with opened(place, place.app_dsn) as database, not_busy:
        await database.read_org(LOCAL_ORG, "update plan set name = name")


async def test_leader_process_is_determined_on_database_host_that_responds(
    place: ServerDatabase,
) -> None:
    with (
        two_hosts(place.app_dsn) as (first, _, dsn),
        opened(place, dsn) as database,
        psycopg.connect(place.app_dsn) as leader,
    ):
        leader.execute("select pg_advisory_lock(718291004528)")
        first.is_open.clear()
        leadership = Leadership()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await hold_leadership(database, leadership)
        assert not leadership.is_leader
        first.is_open.set()
