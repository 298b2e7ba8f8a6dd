"""Startup while the database is unreachable, or while its connections break."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fault_link import FaultLink, fault_link
from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from waybook import application
from waybook.bootstrap import Application, start_application
from waybook.errors import Misconfigured, Unavailable
from waybook.settings import Settings
from waybook.store.driver import pool


class Reports(list[str]):
    """List to which each call adds the reason why startup waits for the database."""

    def __call__(self, obstacle: str, waited: float, limit: float) -> None:
        assert 0 <= waited <= limit
        self.append(obstacle)


def start(
    dsn: str,
    reports: Reports,
    owner: str | None = None,
    migrate: str = "embedded",
) -> AbstractAsyncContextManager[Application]:
    settings = Settings(database_url=dsn, owner_url=owner, migrate=migrate)
    return start_application(settings, waiting=reports)


@contextmanager
def linked(place: ServerDatabase) -> Iterator[tuple[FaultLink, str, str]]:
    """Yield a proxy to the database, and the DSNs of server and owner through the proxy."""
    with fault_link(place.owner_dsn) as (link, owner):
        through = conninfo_to_dict(owner)
        yield link, make_conninfo(place.app_dsn, host="127.0.0.1", port=through["port"]), owner


async def start_and_stop(dsn: str, reports: Reports, owner: str, migrate: str = "embedded") -> None:
    async with start(dsn, reports, owner=owner, migrate=migrate) as system:
        await system.dispatcher.services.database.check_ready()


async def test_startup_continues_once_the_database_is_reachable(own_place: ServerDatabase) -> None:
    reports = Reports()
    with linked(own_place) as (link, dsn, owner):
        target, link.target = link.target, "/nowhere"
        starting = asyncio.create_task(start_and_stop(dsn, reports, owner))
        while not reports:  # noqa: ASYNC110 - reported from within the wait
            await asyncio.sleep(0.01)
        link.target = target
        await starting
    assert reports


async def test_startup_succeeds_despite_connection_reset_after_any_answer(
    own_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PAUSE_SECONDS", 0.0)
    with linked(own_place) as (link, dsn, owner):
        async with start(dsn, Reports(), owner=owner):
            answers = [*link.answers]
    assert len(answers) > 1
    for number, count in enumerate(answers, start=1):
        reports = Reports()
        for answered in range(count):
            with linked(own_place) as (link, dsn, owner):
                link.cut = number, answered
                await start_and_stop(dsn, reports, owner)
                assert link.was_reset.wait(PATIENCE_SECONDS)
        assert reports, number


async def test_migration_at_startup_continues_after_a_connection_reset(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PAUSE_SECONDS", 0.0)
    reports = Reports()
    with new_database(server, template="template0") as empty, linked(empty) as (link, dsn, owner):
        link.cut = 1, 100
        await start_and_stop(dsn, reports, owner, migrate="always")
    assert len(reports) == 1


async def test_startup_fails_if_the_database_stays_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(application, "START_SECONDS", 1)
    reports = Reports()
    with pytest.raises(Unavailable, match=r"not ready within 1 seconds: .*refused"):
        async with start("host=127.0.0.1 port=1", reports):
            pass
    assert 1 <= len(reports) <= 2


async def test_startup_does_not_wait_after_a_permanent_error(own_place: ServerDatabase) -> None:
    reports = Reports()
    for wrong in ({"dbname": "missing"}, {"user": "missing"}):
        with pytest.raises(Unavailable, match="missing"):
            async with start(make_conninfo(own_place.owner_dsn, **wrong), reports):
                pass
    assert reports == []


async def test_startup_with_an_invalid_database_url_raises_misconfigured() -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        async with start("postgresql://[", Reports()):
            pass
