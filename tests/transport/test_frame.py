"""Behavior that all dashboard pages share: partial updates, and error messages."""

import httpx2

from org_env import AgentClient


async def test_part_parameter_returns_only_the_named_part_of_the_page(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    await agent.plan(3, name="Rivers of the north")
    page = (await browser.get("/plans")).text
    part = (await browser.get("/plans?part=list")).text
    assert part in page
    assert "Rivers of the north" in part
    assert "<html" not in part
    assert "<html" in (await browser.get("/plans?part=nonsense")).text
