"""Event stream at `/live`, which tells open dashboard pages what has changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from browser.served_site import Site, serve_site
from database_fixtures import ON_POSTGRES_18
from org_env import OrgEnv
from patience import PATIENCE_SECONDS
from waybook.store.driver.bus import Bus
from waybook.transport.http.dashboard import live

pytestmark = ON_POSTGRES_18


@pytest.fixture
async def site(world: OrgEnv) -> AsyncIterator[Site]:
    async with serve_site(world) as made:
        yield made


class Stream:
    def __init__(self, answer: httpx2.Response) -> None:
        self.complete = answer
        self._lines = answer.aiter_lines()

    async def event(self) -> tuple[str, set[str]]:
        """Return the position and the topics, such as `plans`, of the next event except beats."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                position = (await anext(self._lines)).removeprefix("id: ")
                topics = set((await anext(self._lines)).removeprefix("data: ").split())
                assert await anext(self._lines) == ""
                if topics != {"beat"}:
                    return position, topics


@asynccontextmanager
async def streamed(site: Site, since: str = "", **headers: str) -> AsyncIterator[Stream]:
    async with (
        httpx2.AsyncClient(
            base_url=site.address, trust_env=False, timeout=PATIENCE_SECONDS
        ) as client,
        client.stream("GET", "/live", params={"since": since}, headers=headers) as answer,
    ):
        yield Stream(answer)


async def test_live_stream_sends_only_changes_of_the_same_org(site: Site) -> None:
    world = site.world
    async with streamed(site) as stream:
        assert stream.complete.headers["content-type"].startswith("text/event-stream")
        assert "no-store" in stream.complete.headers["cache-control"]
        assert (await stream.event())[1] == {"hello"}
        await world.other_org.plan(1, name="Also next door")
        plan = await world.agent.plan(2)
        _, topics = await stream.event()
        assert topics == {f"plan:{plan['planId']}", "plans", "inbox"}
        step = await world.agent.take(plan)
        await stream.event()
        await world.agent.submit(step)
        assert (await stream.event())[1] == {f"plan:{plan['planId']}", "plans"}


async def test_reconnected_live_stream_sends_changes_missed_while_disconnected(
    site: Site,
) -> None:
    async with streamed(site) as stream:
        position, _ = await stream.event()
    plan = await site.world.agent.plan(1)
    async with streamed(site, position) as stream:
        again, topics = await stream.event()
        assert f"plan:{plan['planId']}" in topics
    async with streamed(site, **{"last-event-id": again}) as stream:
        assert (await stream.event())[1] == {"hello"}
    async with streamed(site, Bus().position(site.world.agent.org_id)) as stream:
        assert (await stream.event())[1] == {"hello", "*"}


async def test_live_stream_sends_changes_made_since_the_page_was_loaded(site: Site) -> None:
    async with httpx2.AsyncClient(base_url=site.address, trust_env=False) as client:
        text = (await client.get("/")).text
    position = text.partition('data-at="')[2].partition('"')[0]
    plan = await site.world.agent.plan(1)
    async with streamed(site, position) as stream:
        assert f"plan:{plan['planId']}" in (await stream.event())[1]


async def test_live_stream_without_events_sends_keep_alive_messages(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0)
    async with streamed(site) as stream, asyncio.timeout(PATIENCE_SECONDS):
        lines = stream.complete.aiter_lines()
        assert "data: beat" in [await anext(lines) for _ in range(6)]


@pytest.mark.parametrize(("limit", "status"), [("MAX_STREAMS", 503), ("MAX_STREAMS_PER_ORG", 429)])
async def test_live_streams_over_limit_are_rejected_until_another_stream_closes(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch, limit: str, status: int
) -> None:
    monkeypatch.setattr(live, limit, 1)
    async with serve_site(world) as site:
        async with streamed(site) as stream:
            await stream.event()
            async with streamed(site) as second:
                assert second.complete.status_code == status
                assert second.complete.headers["retry-after"] == "30"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while world.dispatcher.bus.subscribed_orgs():  # noqa: ASYNC110 - no event reports a closed stream
                await asyncio.sleep(0)
        async with streamed(site) as stream:
            assert stream.complete.status_code == 200


async def test_live_streams_end_when_the_server_stops(world: OrgEnv) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with serve_site(world) as site:
            waiting = asyncio.create_task(_to_its_end(site))
            await world.dispatcher.bus.is_wanted.wait()
        assert await waiting


async def _to_its_end(site: Site) -> bool:
    async with streamed(site) as stream:
        return "data: hello" in [line async for line in stream.complete.aiter_lines()]
