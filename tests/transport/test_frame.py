"""Common behavior of all pages: partial updates, and error messages."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from transport.faces import a_browser
from worlds import Agent, World


@pytest.fixture
async def browser(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with a_browser(world.agent) as client:
        yield client


async def test_home_page_part_query_returns_only_that_fragment(
    browser: httpx2.AsyncClient, agent: Agent
) -> None:
    await agent.plan(3, name="Rivers of the north")
    page = (await browser.get("/")).text
    part = (await browser.get("/?part=list")).text
    assert part in page
    assert "Rivers of the north" in part
    assert "<html" not in part
    assert "<html" in (await browser.get("/?part=nonsense")).text
