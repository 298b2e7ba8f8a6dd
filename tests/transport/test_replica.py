"""Pages that are read from a standby of the database."""

import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace

import httpx2
import pytest

from database_rows import rows
from org_env import AgentClient, OrgEnv, make_env
from replicated_servers import ReplicatedServers, replicated_servers
from transport.full_app import full_app, make_client, routes_of, sample_ids
from transport.page_client import make_browser, send
from waybook.app.request.replica_context import ReplicaContext
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.store.driver.addresses import require_standby
from waybook.store.driver.credential_check import CURRENT_CHECK, CredentialCheck
from waybook.store.driver.database import Database
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.queries import Query
from waybook.store.driver.replica import MAX_PAUSE_SECONDS, Replica

ON_STANDBY = "select pg_is_in_recovery()"
FOOTER = re.compile(r"<footer.*?</footer>", re.DOTALL)
#: Parts of a page that differ each time it is rendered.
VARYING = re.compile(
    r'<footer.*?</footer>\n?|name="(?:token|key)" value="[^"]*"|data-at="[^"]*"', re.DOTALL
)


def stable_lines(answer: httpx2.Response) -> list[str]:
    """Return the lines of a page without the parts that differ each time it is rendered."""
    return VARYING.sub("", answer.text).splitlines()


@pytest.fixture(scope="module")
def servers() -> Iterator[ReplicatedServers]:
    with replicated_servers() as pair:
        yield pair


@dataclass
class Pages:
    """Environment whose dashboard reads from the standby, and a clock that a test can advance."""

    world: OrgEnv
    agent: AgentClient
    replica: Replica
    browser: httpx2.AsyncClient
    ahead: list[float] = field(default_factory=lambda: [0.0])

    def context(self) -> ReplicaContext:
        services = self.agent.dispatcher.services
        return ReplicaContext(services=services, caller=self.agent.caller, replica=self.replica)

    def end_pause(self) -> None:
        """Advance the clock, so that the replica is asked again."""
        self.ahead[0] += MAX_PAUSE_SECONDS

    async def footer(self, path: str = "/plans") -> str:
        """Return the part of a page that says where it was read."""
        answer = await self.browser.get(path)
        assert answer.status_code == 200, answer.text
        (footer,) = FOOTER.findall(answer.text)
        return str(footer)


@asynccontextmanager
async def make_pages(servers: ReplicatedServers, url: str | None = None) -> AsyncIterator[Pages]:
    ahead = [0.0]
    async with make_env(servers.place) as world:
        pool = ConnectionPool(require_standby(url or servers.replica_dsn), timeout=1.0)
        with closing(Database(pool, role=servers.place.server.role)) as database:
            database.frozen_now = world.database.frozen_now
            replica = Replica(database, 0.05, lambda: time.monotonic() + ahead[0])
            services = replace(world.dispatcher.services, replica=replica)
            dispatcher = ServerDispatcher(services, world.dispatcher.calls)
            agent = AgentClient(dispatcher, world.agent.caller)
            async with make_browser(agent) as browser:
                yield Pages(world, agent, replica, browser, ahead)


@pytest.fixture
async def pages(servers: ReplicatedServers) -> AsyncIterator[Pages]:
    async with make_pages(servers) as made:
        servers.resume_replay()
        # A slow machine must not make a replica that has caught up look late.
        made.replica.max_lag_seconds = 5.0
        yield made


async def test_page_is_read_from_standby_that_has_caught_up(pages: Pages) -> None:
    await pages.agent.plan(name="Rivers of Asia")
    answer = await pages.browser.get("/plans")
    assert "Rivers of Asia" in answer.text
    assert "Read from a replica that was up to" in await pages.footer()
    assert (pages.replica.served, pages.replica.fallbacks) == (2, 0)
    assert await pages.context().read(ON_STANDBY) == [[(True,)]]


async def test_page_shows_change_that_the_standby_has_not_replayed(
    pages: Pages, servers: ReplicatedServers
) -> None:
    pages.replica.max_lag_seconds = 0.05
    servers.pause_replay()
    try:
        await pages.agent.plan(name="Just created")
        answer = await pages.browser.get("/plans")
        assert "Just created" in answer.text
        assert "Read from the primary: the replica is up to" in answer.text
    finally:
        servers.resume_replay()


async def test_pages_return_to_standby_that_has_caught_up(
    pages: Pages, servers: ReplicatedServers
) -> None:
    pages.replica.max_lag_seconds = 0.05
    servers.pause_replay()
    await pages.agent.plan()
    assert "primary" in await pages.footer()
    servers.resume_replay()
    pages.replica.max_lag_seconds = 5.0
    pages.end_pause()
    assert "Read from a replica" in await pages.footer()


async def test_every_page_is_the_same_from_standby_and_primary(pages: Pages) -> None:
    from_replica, from_primary = full_app(pages.agent), full_app(pages.world.agent)
    ids = {**await sample_ids(pages.agent), "slug": "none", "agent": "none", "version": "0"}
    compared = 0
    async with make_client(from_replica) as first, make_client(from_primary) as second:
        for route in routes_of(from_replica):
            names = re.findall(r"{(\w+)(?::\w+)?}", route.path)
            if "GET" not in (route.methods or ()) or not set(names) <= ids.keys():
                continue
            if route.path in {"/live", "/health", "/metrics"}:
                continue
            path = re.sub(r"{(\w+)(?::\w+)?}", lambda match: ids[match[1]], route.path)
            served = pages.replica.served
            ours, theirs = await first.get(path), await second.get(path)
            assert ours.status_code == theirs.status_code, path
            assert stable_lines(ours) == stable_lines(theirs), path
            compared += pages.replica.served > served
    assert compared >= 25


async def test_form_is_read_from_primary_and_shows_the_saved_change(pages: Pages) -> None:
    plan = await pages.agent.plan(name="To be canceled")
    path = f"/plans/{plan['planId']}/cancel"
    answer = await send(pages.browser, path, reason="Enough.", revision="1")
    assert answer.status_code < 400
    served = pages.replica.served
    shown = await pages.browser.get(f"/plans/{plan['planId']}")
    assert "Enough." in shown.text
    assert pages.replica.served == served + 1


@pytest.mark.parametrize("seed", range(5))
async def test_every_page_shows_all_changes_despite_lag_of_the_standby(
    pages: Pages, servers: ReplicatedServers, seed: int
) -> None:
    pages.replica.max_lag_seconds = 0.02
    names = list[str]()
    for n, bit in enumerate(f"{seed * 7919 % 4**7:014b}"):
        if bit == "1":
            servers.pause_replay()
        else:
            servers.resume_replay()
        names.append(f"Plan {seed} {n}")
        await pages.agent.plan(1, name=names[-1])
        pages.end_pause()
        text = (await pages.browser.get("/plans")).text
        assert [name for name in names if name not in text] == []
    servers.resume_replay()


async def test_read_of_standby_sees_only_rows_of_own_org(pages: Pages) -> None:
    await pages.agent.plan()
    for table in ("plan", "plan_step", "plan_brief", "audit_entry"):
        (seen,) = await pages.context().read(f"select distinct org_id from {table}")  # noqa: S608 - our own names
        assert seen == [(pages.agent.org_id,)], table


async def test_credential_is_checked_on_primary_only(pages: Pages) -> None:
    check = CredentialCheck(pages.agent.org_id, Query("passes", "select 1")())
    token = CURRENT_CHECK.set(check)
    try:
        assert await pages.context().read(ON_STANDBY) == [[(False,)]]
    finally:
        CURRENT_CHECK.reset(token)
    assert check.is_passed


async def test_write_through_replica_connection_changes_nothing(pages: Pages) -> None:
    await pages.agent.plan()
    before = rows(pages.world)
    assert await pages.replica.read_org(pages.agent.org_id, "delete from plan") is None
    assert rows(pages.world) == before


async def test_page_is_read_from_primary_while_standby_is_stopped(
    pages: Pages, servers: ReplicatedServers
) -> None:
    await pages.footer()
    servers.standby.stop()
    try:
        await pages.agent.plan(name="Written alone")
        answer = await pages.browser.get("/plans")
        assert "Written alone" in answer.text
        assert "Read from the primary: the replica does not answer." in answer.text
    finally:
        servers.standby.start()
    servers.resume_replay()
    pages.end_pause()
    assert "Read from a replica" in await pages.footer()


async def test_page_is_read_from_primary_while_standby_is_frozen(
    pages: Pages, servers: ReplicatedServers
) -> None:
    await pages.footer()
    pages.replica.max_lag_seconds = 0.05
    ours = "select pid from pg_stat_activity where usename = 'builder'"
    backends = [int(str(pid)) for (pid,) in servers.standby.sql(ours)]
    servers.standby.freeze(backends)
    try:
        await pages.agent.plan(name="Written alone")
        answer = await pages.browser.get("/plans")
        assert "Written alone" in answer.text
        assert "Read from the primary: the replica does not answer." in answer.text
    finally:
        servers.standby.thaw(backends)


async def test_replica_url_that_names_a_primary_is_not_used(servers: ReplicatedServers) -> None:
    async with make_pages(servers, servers.place.app_dsn) as pages:
        assert "the replica does not answer" in await pages.footer()


async def test_health_page_is_read_from_primary_and_shows_the_replica(pages: Pages) -> None:
    await pages.footer()
    text = (await pages.browser.get("/health")).text
    assert "1 pages read from it, 0 from the primary instead" in text
