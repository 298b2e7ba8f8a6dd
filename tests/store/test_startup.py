"""Wait at start-up until the database is reachable."""

import asyncio

import pytest
from psycopg.conninfo import make_conninfo

from fault_link import fault_link
from postgres_servers import ServerDatabase
from waybook.errors import Misconfigured, Unavailable
from waybook.store.driver.startup import wait_until_reachable


class Reports(list[str]):
    """Callable list that records the reasons why the server still waits for the database."""

    def __call__(self, obstacle: str, waited: float, limit: float) -> None:
        assert 0 <= waited <= limit
        self.append(obstacle)


async def test_startup_continues_once_the_database_is_reachable(
    own_place: ServerDatabase,
) -> None:
    reports = Reports()
    with fault_link(own_place.owner_dsn) as (link, dsn):
        target, link.target = link.target, "/nowhere"
        waiting = asyncio.create_task(wait_until_reachable(dsn, 60, reports))
        while not reports:  # noqa: ASYNC110 - reported from within the wait
            await asyncio.sleep(0.01)
        link.target = target
        await waiting
    assert reports


async def test_startup_fails_if_the_database_stays_unreachable() -> None:
    reports = Reports()
    with pytest.raises(Unavailable, match=r"not ready within 0.8 seconds: .*refused"):
        await wait_until_reachable("host=127.0.0.1 port=1", 0.8, reports)
    assert len(reports) == 1


async def test_startup_does_not_wait_after_a_permanent_error(
    own_place: ServerDatabase,
) -> None:
    reports = Reports()
    for wrong in ({"dbname": "missing"}, {"user": "missing"}):
        await wait_until_reachable(make_conninfo(own_place.owner_dsn, **wrong), 60, reports)
    assert reports == []


async def test_startup_with_an_invalid_database_url_raises_misconfigured() -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        await wait_until_reachable("postgresql://[", 60, Reports())
