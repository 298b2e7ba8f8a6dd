"""What tests share: PostgreSQL, a world to act in, and a Hypothesis that repeats itself."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import uvloop
from hypothesis import HealthCheck, settings

import servers
import without_org
from looking_out import complain, noted, stop_watching, watch_over_this_run
from poolers import NO_PGBOUNCER
from servers import FIFTEEN, NO_FIFTEEN, Place, Server, fresh_place
from worlds import Agent, Clock, World, a_world

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.register_profile("searching", parent=settings.get_profile("steady"), derandomize=False)
settings.load_profile(os.environ.get("WAYBOOK_HYPOTHESIS", "steady"))

ALIVE = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """The controller makes the place the servers of this run live in; workers find it."""
    if servers.PLACE not in os.environ:
        config.stash[ALIVE] = servers.open_place()
    watch_over_this_run()
    if without_org.SWITCH in os.environ:
        assert without_org.strip() > 0


def pytest_unconfigure(config: pytest.Config) -> None:
    stop_watching()
    if ALIVE in config.stash:
        servers.close_place(config.stash[ALIVE])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what did not run on the oldest server, or behind a pooler."""
    for what, why in (("on PostgreSQL 15", NO_FIFTEEN), ("behind a pooler", NO_PGBOUNCER)):
        left_out = [
            report
            for report in terminalreporter.stats.get("skipped", [])
            if why in str(report.longrepr)
        ]
        if left_out:
            terminalreporter.section("not run", sep="!", red=True)
            terminalreporter.line(f"{len(left_out)} tests did not run {what}: {why}")


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every asynchronous test on the event loop that is served."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def within_this_machine() -> Iterator[None]:
    """Whoever looks beyond this machine has failed, even if nobody minded."""
    yield
    complain(noted())


@pytest.fixture(scope="session")
def eighteen() -> Iterator[Server]:
    """The embedded PostgreSQL 18."""
    with servers.eighteen() as server:
        yield server


@pytest.fixture(scope="session")
def fifteen() -> Iterator[Server]:
    """Debian's PostgreSQL 15."""
    if not FIFTEEN.exists():
        pytest.skip(NO_FIFTEEN)
    with servers.fifteen() as server:
        yield server


@pytest.fixture(scope="session", params=["18", "15"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the servers in turn."""
    chosen: Server = request.getfixturevalue({"18": "eighteen", "15": "fifteen"}[request.param])
    return chosen


@pytest.fixture(scope="session")
def shared_place(server: Server) -> Iterator[Place]:
    """A migrated database for all tests of this worker that keep to orgs of their own."""
    with fresh_place(server) as place:
        yield place


@pytest.fixture
def own_place(server: Server) -> Iterator[Place]:
    """A migrated database for one test alone."""
    with fresh_place(server) as place:
        yield place


@pytest.fixture(scope="module")
def module_place(eighteen: Server) -> Iterator[Place]:
    """A migrated database for the tests of one file, where one server is enough."""
    with fresh_place(eighteen) as place:
        yield place


@pytest.fixture
async def world(shared_place: Place) -> AsyncIterator[World]:
    """An org of ours and a neighbour, a doorway, a clock that stands at noon."""
    async with a_world(shared_place) as made:
        yield made


@pytest.fixture
async def own_world(own_place: Place) -> AsyncIterator[World]:
    """The same in a database of its own."""
    async with a_world(own_place) as made:
        yield made


@pytest.fixture
async def alone(eighteen: Server) -> AsyncIterator[World]:
    """The same on one server only."""
    with fresh_place(eighteen) as place:
        async with a_world(place) as made:
            yield made


@pytest.fixture
def agent(world: World) -> Agent:
    """Ann, of our org: `await agent.call("get_next_step", planId=…)`."""
    return world.agent


@pytest.fixture
def neighbour(world: World) -> Agent:
    """Ned, of the org next door."""
    return world.neighbour


@pytest.fixture
def clock(world: World) -> Clock:
    return world.clock
