"""A review card shows the result, the changes since the previous attempt, and links."""

import re

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from transport.page_client import make_browser, send
from waybook.store.plans.details import MAX_ARTIFACTS
from waybook.store.runs.work import MAX_DOCUMENTS
from waybook.transport.http.dashboard.line_diff import (
    MAX_CHANGED_LINES,
    MAX_DIFF_LENGTH,
    LineKind,
    compare_texts,
)


async def request_review(agent: AgentClient, plan: Body, result: object) -> Body:
    taken = await agent.take(plan)
    return await agent.call(
        "request_user_review", stepId=taken["stepId"], summary="Right?", resultSummary=result
    )


async def request_twice(agent: AgentClient, first: object, second: object) -> Body:
    """Return a plan whose step was sent back once by a person and is under review again."""
    plan = await agent.plan(1, name="Rivers")
    review = await request_review(agent, plan, first)
    named = {"planId": review["planId"], "reviewId": review["reviewId"], "back": "/inbox"}
    decided = {"decision": "modify", "feedback": "Name the **sources**."}
    async with make_browser(agent) as person:
        reply = await send(person, "/inbox", at="/decisions", **named, **decided)
    assert reply.status_code == 303
    await request_review(agent, plan, second)
    return plan


@pytest.mark.parametrize("page", ["/inbox", "/plans/{planId}"])
async def test_review_card_of_second_attempt_shows_feedback_and_changed_lines(
    browser: httpx2.AsyncClient, agent: AgentClient, page: str
) -> None:
    plan = await request_twice(agent, "Nile\nAmazon", "Nile\n<b>Congo</b>")
    text = (await browser.get(page.format(**plan))).text
    assert "Feedback on the previous attempt by pat" in text
    assert "<blockquote>Name the **sources**.</blockquote>" in text
    assert '<del><span class="visually-hidden">Removed: </span>Amazon</del>' in text
    added = '<ins><span class="visually-hidden">Added: </span>&lt;b&gt;Congo&lt;/b&gt;</ins>'
    assert added in text
    assert "<span>Nile</span>" in text


@pytest.mark.parametrize(
    ("first", "second", "note"),
    [
        ("Nile", "Nile", "The result is the same as in the previous attempt."),
        (None, "Nile", "The previous attempt had no result to compare."),
        ("x" * (MAX_DIFF_LENGTH + 1), "Nile", "The texts are too long to compare here."),
        ("Nile", "x" * (MAX_DIFF_LENGTH + 1), "The texts are too long to compare here."),
    ],
    ids=["equal", "missing", "first too long", "second too long"],
)
async def test_review_card_without_comparison_states_the_reason(
    browser: httpx2.AsyncClient, agent: AgentClient, first: object, second: object, note: str
) -> None:
    await request_twice(agent, first, second)
    text = (await browser.get("/inbox")).text
    assert note in text
    assert "<del>" not in text


async def test_review_card_of_first_attempt_shows_no_comparison(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    await request_review(agent, await agent.plan(1), "Nile")
    assert "previous attempt" not in (await browser.get("/inbox")).text


async def test_review_card_links_step_research_and_latest_outputs(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    agent = world.agent
    plan = await agent.plan(1, name="Rivers")
    taken = await agent.take(plan)
    for n in range(MAX_ARTIFACTS + 1):
        world.clock.advance(seconds=1)
        note = {"kind": "finding", "title": f"Finding {n}", "content": "It is long."}
        source = {"url": "https://example.org/", "title": "Rivers"}
        await agent.call("store_research", stepId=taken["stepId"], sources=[source], **note)
    written = {"mediaType": "text/markdown", "title": "Report", "planId": plan["planId"]}
    for content in ("One", "Two"):
        world.clock.advance(seconds=1)
        await agent.call("store_research_output", content=content, **written)
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    text = (await browser.get("/inbox")).text
    step = taken["stepId"]
    assert f'/steps/{step}">View step</a>' in text
    assert "Finding 5</a>" in text
    assert "Finding 0</a>" not in text
    assert f'/steps/{step}#research">All research (6)</a>' in text
    assert text.count(">Report</a>") == 1


async def test_feedback_card_lists_documents_of_completed_stage(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    run = await agent.run("dialectic", ["opus", "gpt"], input="Build a lighthouse.")
    over = await agent.work_off(run)
    assert over["status"] == "awaiting_feedback", over
    await render_all(agent)
    text = (await browser.get("/inbox")).text
    (listed,) = re.findall(r'<ul class="documents".*?</ul>', text, re.DOTALL)
    assert 1 <= listed.count("/api/documents/") <= MAX_DOCUMENTS
    assert "by opus" in listed
    assert "by gpt" in listed
    named = {"runId": run["runId"], "stageSlug": over["stageSlug"], "back": "/inbox"}
    reply = await send(browser, "/inbox", at="/feedback", **named, feedback=" ")
    assert reply.text.count("/api/documents/") == listed.count("/api/documents/")


def test_review_card_comparison_omits_unchanged_lines_far_from_changes() -> None:
    lines = [str(n) for n in range(30)]
    changed = [*lines[:15], "new", *lines[16:]]
    diff = compare_texts("\n".join(lines), "\n".join(changed))
    assert diff.lines == [
        (LineKind.OMITTED, "12"),
        *((LineKind.SAME, str(n)) for n in (12, 13, 14)),
        (LineKind.REMOVED, "15"),
        (LineKind.ADDED, "new"),
        *((LineKind.SAME, str(n)) for n in (16, 17, 18)),
        (LineKind.OMITTED, "11"),
    ]
    assert (diff.added, diff.removed) == (1, 1)


def test_review_card_omits_comparison_of_texts_with_too_many_changes() -> None:
    lines = [str(n) for n in range(3 * MAX_CHANGED_LINES)]
    assert compare_texts("\n".join(lines), "\n".join([*lines, "end"])).added == 1
    assert compare_texts("\n".join(lines), "\n".join(f"{line}!" for line in lines)).note
