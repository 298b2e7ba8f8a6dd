"""Compressed page sizes: small enough for a slow mobile connection."""

import gzip
import re

import pytest

from org_env import AgentClient, make_step
from transport.page_client import make_browser
from waybook.transport.http.html.layout import NAMES, read_asset

SCRIPTS = [name for name in NAMES if name.endswith(".js")]


def weight(text: str) -> int:
    return len(gzip.compress(text.encode()))


def test_compressed_style_sheet_and_scripts_stay_within_size_limits() -> None:
    assert weight(read_asset("waybook.css")) <= 6_000
    assert sum(weight(read_asset(name)) for name in SCRIPTS) <= 22_000
    assert sum(weight(read_asset(name)) for name in SCRIPTS if "htmx" not in name) <= 5_000


@pytest.mark.parametrize(("address", "limit"), [("/", 12_000), ("/inbox", 12_000)])
async def test_full_page_stays_within_size_element_and_asset_limits(
    agent: AgentClient, address: str, limit: int
) -> None:
    for n in range(51):
        steps = [make_step(title=f"Step {k} of {n}") for k in range(5)]
        taken = await agent.take(await agent.plan(steps, name=f"A plan of the number {n}"))
        arguments = {"stepId": taken["stepId"], "summary": f"Is {n} right? " * 20}
        await agent.call("request_user_review", **arguments, resultSummary={"found": [n] * 30})
    async with make_browser(agent) as browser:
        text = (await browser.get(address)).text
    assert weight(text) <= limit, weight(text)
    assert len(re.findall(r"<(?!/)", text)) <= 15_000
    assert len(re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="/', text)) <= 5
