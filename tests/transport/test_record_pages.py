"""Dashboard pages for outputs, audit, tool calls and health."""

import csv
import io
import json
import re
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import NOON, AgentClient, Body, OrgEnv
from transport.page_client import Browser, main_text, make_browser
from waybook.app.queries.audit import AuditFilter, all_entries, browse_audit
from waybook.app.queries.timeline import FORMULA_PREFIXES, escape_cell
from waybook.app.queries.usage import count_calls
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Change, Entity, Entry, Event
from waybook.core.decision_context import Actor, Channel
from waybook.settings_reading import read_settings
from waybook.store.audit import WriteContext, sealed_entries
from waybook.store.calls import LoggedCall
from waybook.transport.http.dashboard.audit import MAX_CHANGES, MAX_VALUE_LENGTH, entry_view


async def make_finished_plan(agent: AgentClient, name: str = "Rivers") -> Body:
    plan = await agent.plan(2, name=name)
    await agent.work_through(plan)
    return plan


async def make_output(agent: AgentClient, plan: Body, **more: object) -> Body:
    fields = {"title": "Answer", "mediaType": "text/markdown", "content": "# The *Nile*"}
    return await agent.call("store_research_output", planId=plan["planId"], **{**fields, **more})


# Tests of the pages of outputs.


async def test_outputs_page_lists_latest_version_and_plan_page_every_version(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    plan = await make_finished_plan(agent)
    await make_output(agent, plan)
    await make_output(agent, plan, content="# The Amazon")
    theirs = await make_finished_plan(world.other_org, "Theirs")
    await make_output(world.other_org, theirs, title="Not ours")
    page = await browser.get("/outputs")
    assert page.text.count("<b>Answer</b></a>") == 1
    assert "Not ours" not in page.text
    of_plan = await browser.get(f"/plans/{plan['planId']}/outputs")
    assert of_plan.text.count(">Answer</a>") == 2
    assert (await browser.get(f"/plans/{theirs['planId']}/outputs")).status_code == 404
    assert (await browser.get("/outputs?behind=x")).status_code == 400


async def test_outputs_page_lists_every_output_once_when_paginated(
    browser: Browser, agent: AgentClient, world: OrgEnv
) -> None:
    plan = await make_finished_plan(agent)
    for number in range(27):
        world.clock.advance(seconds=number % 2)
        await make_output(agent, plan, title=f"Part {number:02}")
    first = await browser.get("/outputs")
    further = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert further is not None
    second = await browser.get(further[1])
    seen = re.findall(r"<b>(Part \d\d)</b></a>", first.text + second.text)
    assert sorted(seen) == [f"Part {number:02}" for number in range(27)]
    assert 'rel="next"' not in second.text


@pytest.mark.parametrize(
    ("media_type", "content", "shown"),
    [
        ("text/markdown", "# The *Nile* <script>1</script>", "<h3>The <em>Nile</em> &lt;script"),
        ("text/html", "<script>1</script><b>x</b>", "&lt;script&gt;1&lt;/script&gt;&lt;b&gt;"),
        ("image/svg+xml", "<svg onload=alert(1)>", "&lt;svg onload=alert(1)&gt;"),
        ("application/json", '{"a": "<b>"}', "{&#34;a&#34;: &#34;&lt;b&gt;&#34;}"),
    ],
)
async def test_output_page_escapes_content_and_links_back(
    browser: Browser, agent: AgentClient, media_type: str, content: str, shown: str
) -> None:
    plan = await make_finished_plan(agent)
    stored = await make_output(agent, plan, mediaType=media_type, content=content)
    page = await browser.get(f"/outputs/{stored['outputId']}")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert shown in page.text
    assert "<script>" not in page.text
    assert 'class="top"' in page.text
    crumbs = page.text.partition('class="crumbs row">')[2].partition("</div>")[0]
    plan_id = plan["planId"]
    assert re.findall(r'<a[^>]* href="([^"]+)"', crumbs) == [
        "/outputs",
        f"/plans/{plan_id}",
        f"/plans/{plan_id}/outputs",
    ]
    assert f'href="/api/outputs/{stored["outputId"]}" download' in page.text


async def test_output_page_links_to_other_versions(browser: Browser, agent: AgentClient) -> None:
    plan = await make_finished_plan(agent)
    first = await make_output(agent, plan, content="# First")
    second = await make_output(agent, plan, content="# Second")
    page = await browser.get(f"/outputs/{first['outputId']}")
    assert "version 1 of 2" in main_text(page)
    assert f'href="/outputs/{second["outputId"]}"' in page.text


async def test_output_page_shows_csv_as_a_table_with_escaped_cells(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await make_finished_plan(agent)
    content = 'river,"length, km"\r\n"<script>1</script>","=1+1"\r\n\r\n"two\nlines",6650,extra\r\n'
    stored = await make_output(agent, plan, mediaType="text/csv", content=content)
    page = await browser.get(f"/outputs/{stored['outputId']}")
    table = page.text.partition("<table")[2].partition("</table>")[0]
    assert re.findall(r"<th scope=\"col\">(.*?)</th>", table) == ["river", "length, km"]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1:]
    assert [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in rows] == [
        ["&lt;script&gt;1&lt;/script&gt;", "=1+1", ""],
        ["two\nlines", "6650", "extra"],
    ]


@pytest.mark.parametrize(
    ("content", "cells", "note"),
    [
        ("a,b\n" + "1,2\n" * 3_000, 1_002, "Only the first 500 rows are shown."),
        (",".join("a" * 5_000) + "\n", 40, "Only the first 40 of 5,000 columns are shown."),
        ("a\n" + "x" * 10_000 + "\n", 2, "…"),
        ('a,b\n"never closed,' + "1,2\n" * 100, 0, "never closed"),
        ("x" * 190_000, 0, "x"),
        (" ", 0, "1 characters"),
        ("\n\n", 0, "2 characters"),
    ],
    ids=["rows", "columns", "cell", "open quote", "field", "blank", "lines"],
)
async def test_table_of_a_malicious_csv_output_has_limited_size(
    browser: Browser, agent: AgentClient, content: str, cells: int, note: str
) -> None:
    plan = await make_finished_plan(agent)
    stored = await make_output(agent, plan, mediaType="text/csv", content=content)
    page = await browser.get(f"/outputs/{stored['outputId']}")
    assert page.status_code == 200
    table = page.text.partition("<table")[2].partition("</table>")[0]
    assert len(re.findall(r"<t[dh]\b", table)) == cells
    assert note in main_text(page)


# Tests of the audit page.


async def test_audit_page_filters_by_each_query_parameter(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    first = await agent.plan(2, name="First")
    world.clock.advance(hours=1)
    second = await agent.acting_as("bob", Channel.REST).plan(2, name="Second")
    await agent.take(second)

    async def seen(**query: str) -> list[tuple[str, str]]:
        page = await browser.get("/audit", params=query)
        assert page.status_code == 200
        return re.findall(r'title="([0-9a-z]{12})">#(\d+)', page.text)

    first_id, two = first["planId"], second["planId"]
    assert await seen() == [(two, "2"), (two, "1"), (first_id, "1")]
    assert await seen(subject=first_id) == [(first_id, "1")]
    assert await seen(subject=first["planId"]) == [(first_id, "1")]
    assert await seen(event="step_started") == [(two, "2")]
    assert await seen(actor="bob") == [(two, "1")]
    assert await seen(channel="rest", event="plan_modified") == [(two, "1")]
    assert await seen(since="2030-01-01T12:30") == [(two, "2"), (two, "1")]
    assert await seen(until="2030-01-01T12:30") == [(first_id, "1")]
    assert await seen(until="2030-01-01T12:30", subject=two) == []
    assert await seen(subject="x") == []
    assert await seen(subject=world.other_org_plan["planId"]) == []
    assert await seen(subject=world.other_org_plan["planId"]) == []


@pytest.mark.parametrize("asked", ["since=yesterday", "behind=1", "behind=2030-01-01~x~1"])
async def test_invalid_audit_filter_returns_400_with_an_alert(browser: Browser, asked: str) -> None:
    page = await browser.get(f"/audit?{asked}")
    assert page.status_code == 400
    assert 'role="alert"' in page.text
    assert (await browser.get(f"/audit.csv?{asked}")).status_code == 400


async def test_audit_pagination_returns_every_entry_exactly_once(agent: AgentClient) -> None:
    for _ in range(3):
        await agent.work_through(await agent.plan(3))
    call = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    every, _ = await browse_audit(call, AuditFilter(), 1_000)
    subject_filter = AuditFilter(subject_id=every[0].subject_id)
    for filter_ in (AuditFilter(), subject_filter):
        expected, _ = await browse_audit(call, filter_, 1_000)
        walked, behind = [], None
        while True:
            entries, behind = await browse_audit(
                call, AuditFilter(subject_id=filter_.subject_id, after_cursor=behind), 4
            )
            walked += entries
            if behind is None:
                break
        assert walked == expected
        bounded = [len(entries) async for entries in all_entries(call, filter_, most=5)]
        assert sum(bounded) == 5


async def test_audit_csv_escapes_formulas_and_is_an_attachment(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.acting_as("=cmd|'/c calc'!A0").plan(1)
    file = await browser.get("/audit.csv", params={"subject": plan["planId"]})
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    assert file.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    rows = list(csv.DictReader(io.StringIO(file.text)))
    assert [row["actor"] for row in rows] == ["'=cmd|'/c calc'!A0"]
    assert json.loads(rows[0]["details"])["action"] == "created"
    lines = await browser.get("/audit.jsonl", params={"subject": plan["planId"]})
    assert [json.loads(line)["seq"] for line in lines.text.splitlines()] == [1]
    assert (await browser.get("/audit.exe")).status_code == 404


@given(st.text())
def test_escaped_csv_cell_never_starts_with_a_formula_prefix(text: str) -> None:
    cell = escape_cell(text)
    assert not cell.startswith(FORMULA_PREFIXES)
    assert cell.endswith(text)


@given(st.lists(st.text(max_size=2 * MAX_VALUE_LENGTH), max_size=2 * MAX_CHANGES))
def test_long_audit_entry_counts_omitted_changes_and_characters(values: list[str]) -> None:
    changes = tuple(Change(Entity.STEP, "s", "title", None, value) for value in values)
    entry = Entry(Event.PLAN_MODIFIED, {"action": "created"}, changes)
    context = WriteContext(NOON, Actor("ann", Channel.MCP, None))
    (sealed,) = sealed_entries([entry], ("plan", "p"), context)
    shown = entry_view(sealed, {})
    assert len(shown["changes"]) + shown["more"] == len(values)
    for (*_, (text, omitted)), value in zip(shown["changes"], values, strict=False):
        assert len(text) + omitted == len(value)
        assert value.startswith(text)


# Tests of the page of tool calls.


def make_call(org_id: UUID, tool: str, ms: float, code: str | None = None) -> LoggedCall:
    """Return an entry of the tool-call log that is ten minutes old."""
    return LoggedCall(
        org_id=org_id,
        at=NOON - timedelta(minutes=10),
        tool=tool,
        actor="ann",
        channel="mcp",
        session=None,
        duration_ms=ms,
        request_bytes=1,
        response_bytes=1,
        is_error=code is not None,
        error_code=code,
        replayed=False,
    )


async def test_calls_page_counts_calls_and_errors_per_tool_and_period(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    log = world.dispatcher.calls
    for ms in range(1, 101):
        log.record(make_call(agent.org_id, "get_plan_status", ms))
    log.record(make_call(agent.org_id, "get_next_step", 7, "NOT_FOUND"))
    log.record(make_call(world.other_org.org_id, "get_next_step", 1_000, "BUSY"))
    await log.flush()
    call = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    counted = await count_calls(call, timedelta(hours=1))
    assert [(row.tool, row.calls, row.errors) for row in counted["tools"]] == [
        ("get_plan_status", 100, 0),
        ("get_next_step", 1, 1),
    ]
    assert (counted["tools"][0].p50, round(counted["tools"][0].p95, 2)) == (50.5, 95.05)
    assert [(row.tool, row.code) for row in counted["errors"]] == [("get_next_step", "NOT_FOUND")]
    assert "Calls 101 Failed 1" in main_text(await browser.get("/calls?window=1h"))
    world.clock.advance(hours=2)
    assert "Calls 0" in main_text(await browser.get("/calls?window=1h"))
    assert "Calls 101" in main_text(await browser.get("/calls"))
    assert (await browser.get("/calls?window=nonsense")).status_code == 400


# Tests of the health page.


@pytest.mark.every_server
async def test_health_page_shows_effective_settings_without_secrets(
    world: OrgEnv, agent: AgentClient, tmp_path: Path
) -> None:
    flags = {
        "database_url": "postgresql://ann:s3cret@db/plans",
        "embeddings_url": "http://localhost:1/v1",
        "embeddings_model": "m",
        "embeddings_key": "k3y",
    }
    loaded = read_settings(flags, {"WAYBOOK_PORT": "9999"}, tmp_path / "none")
    async with make_browser(agent, loaded=loaded) as browser:
        page = await browser.get("/health")
    text = main_text(page)
    assert page.status_code == 200
    assert "s3cret" not in page.text
    assert "k3y" not in page.text
    assert "port 9999 environment WAYBOOK_PORT" in text
    assert "forced on every table" in text
    assert f"PostgreSQL {world.place.server.name}" in text
    assert "full text" in text
    assert "30 min without activity" in text
