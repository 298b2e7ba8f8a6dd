"""Inbox page: decisions without JavaScript, and what a review card shows."""

import re
from html import unescape

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from transport.page_client import Browser, make_browser, send, visible_text
from waybook.store.plans.details import MAX_ARTIFACTS
from waybook.store.runs.work import MAX_DOCUMENTS
from waybook.transport.http.dashboard.texts import (
    MAX_CHANGED_LINES,
    MAX_DIFF_LENGTH,
    MAX_LENGTH,
    compare_texts,
    to_rich_text,
)
from waybook.transport.http.html.layout import safe_return_path


async def make_review(agent: AgentClient, steps: int = 1, **more: object) -> Body:
    plan = await agent.plan(steps, name=str(more.pop("name", "Rivers")))
    taken = await agent.take(plan)
    arguments = {"summary": "Is this **right**?", "stepId": taken["stepId"], **more}
    review = await agent.call("request_user_review", **arguments)
    return {**review, "plan": plan}


async def decide(browser: Browser, review: Body, decision: str, **more: str) -> httpx2.Response:
    named = {"planId": review["planId"], "reviewId": review["reviewId"], "decision": decision}
    return await send(browser, "/inbox", at="/decisions", **{"back": "/inbox", **named, **more})


async def test_inbox_card_shows_question_requester_and_waiting_time(
    browser: Browser, world: OrgEnv
) -> None:
    result = {"rivers": [{"name": "Nile", "km": 6650}], "note": "<script>alert(1)</script>"}
    questions = ["Are <these> all?", "And the Amazon?"]
    await make_review(world.agent, name="Older", questions=questions, resultSummary=result)
    world.clock.advance(minutes=4)
    await make_review(world.agent, name="Newer", resultSummary="long\n" * 200)
    text = (await browser.get("/inbox")).text
    assert text.index("Older, step 1</b>") < text.index("Newer, step 1</b>")
    assert "Requested by ann , waiting 4 min" in visible_text(text)
    assert "Is this <strong>right</strong>?" in text
    assert "Are &lt;these&gt; all?" in text
    assert "6650" in text
    assert "Result under review" in opened_texts(text)
    newer = re.findall(r'href="(/inbox\?item=[^"]+)"', text)[1]
    assert "Result under review" not in opened_texts((await browser.get(newer)).text), "it is long"
    assert "<script>alert" not in text
    assert "Next door" not in text
    assert 'title="2 waiting for you"' in text


def opened_texts(html: str) -> list[str]:
    return re.findall(r'<details class="text fold" open><summary>([^<]+)', html)


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil", "", "x"])
async def test_decision_form_with_unsafe_return_url_redirects_to_the_inbox(
    browser: Browser, agent: AgentClient, back: str
) -> None:
    reply = await decide(browser, await make_review(agent), "skip", back=back)
    assert (reply.status_code, reply.headers["location"]) == (303, "/inbox")


@given(st.text())
def test_redirect_after_a_form_never_leaves_the_site(address: str) -> None:
    assert re.fullmatch(r"/([!-.0-\[\]-~][!-\[\]-~]*)?", safe_return_path(address))
    assert re.fullmatch(r"/([!-.0-\[\]-~][!-\[\]-~]*)?", safe_return_path(f"/{address}"))


async def test_change_request_without_feedback_returns_400_and_preserves_input(
    browser: Browser, agent: AgentClient
) -> None:
    review = await make_review(agent)
    reply = await decide(browser, review, "modify", feedback="  ")
    assert reply.status_code == 400
    assert "describe the requested changes" in reply.text
    reply = await decide(browser, review, "nonsense", feedback="Half a <sentence>")
    assert reply.status_code == 400
    assert ">Half a &lt;sentence&gt;</textarea>" in reply.text
    reply = await decide(browser, review, "modify", feedback="Add\r\nthe Amazon.")
    assert reply.status_code == 303
    again = await agent.take(review["plan"])
    assert again["attempt"] == 2
    assert again["instructions"].endswith("User feedback: Add\nthe Amazon.")


async def test_rejection_in_the_inbox_asks_for_confirmation(
    browser: Browser, agent: AgentClient
) -> None:
    review = await make_review(agent, 2)
    reply = await decide(browser, review, "reject", feedback="Beyond repair.")
    assert reply.status_code == 200
    assert "Reject?" in reply.text
    assert ">Beyond repair.</textarea>" in reply.text
    assert (await agent.status(review["plan"]))["status"] == "awaiting_review"
    reply = await decide(browser, review, "wait", feedback="Beyond repair.", confirmed="yes")
    assert ">Beyond repair.</textarea>" in reply.text
    assert "Request changes" in reply.text
    reply = await decide(browser, review, "reject", feedback="Beyond repair.", confirmed="yes")
    assert reply.status_code == 303
    assert (await agent.status(review["plan"]))["status"] == "failed"


async def test_decision_on_already_decided_review_leaves_newer_review_open(
    browser: Browser, agent: AgentClient
) -> None:
    first = await make_review(agent, 2)
    await decide(browser, first, "modify", feedback="Again.")
    taken = await agent.take(first["plan"])
    await agent.review(taken, summary="Better?")
    reply = await decide(browser, first, "approve")
    assert (reply.status_code, "Already decided by pat" in reply.text) == (409, True)
    assert (await agent.status(first["plan"]))["status"] == "awaiting_review"


async def make_waiting_run(agent: AgentClient) -> tuple[Body, str]:
    run = await agent.run()
    over = await agent.work_off(run)
    assert over["status"] == "awaiting_feedback", over
    return run, over["stageSlug"]


async def test_inbox_shows_waiting_run_and_accepts_stage_feedback_once(
    browser: Browser, agent: AgentClient
) -> None:
    run, stage = await make_waiting_run(agent)
    text = (await browser.get("/inbox")).text
    assert "Rivers. Your feedback starts the next stage." in text
    assert 'title="1 waiting for you"' in text
    named = {"runId": run["runId"], "stageSlug": stage, "back": "/inbox"}
    reply = await send(browser, "/inbox", at="/feedback", **named, feedback=" ")
    assert (reply.status_code, "enter your feedback on the stage" in reply.text) == (400, True)
    reply = await send(browser, "/inbox", at="/feedback", **named, feedback="Go north.")
    assert (reply.status_code, reply.headers["location"]) == (303, "/inbox")
    assert (await agent.job(run))["status"] == "job_ready"
    await make_review(agent)
    reply = await send(browser, "/inbox", at="/feedback", **named, feedback="Go south.")
    assert reply.status_code == 409
    assert "Already decided by pat:</b> gave feedback" in reply.text
    assert "Go north." in reply.text
    assert "Go south." in reply.text
    named |= {"stageSlug": "nowhere"}
    reply = await send(browser, "/inbox", at="/feedback", **named, feedback="Go.")
    assert reply.status_code == 404


async def test_failed_stage_stays_in_inbox_until_retry(browser: Browser, world: OrgEnv) -> None:
    runs = [await world.agent.run(name=name) for name in ("Older", "Newer")]
    jobs = [await world.agent.job(run) for run in runs]
    for job in jobs:
        await world.agent.fail_job(job, "No <sources>.")
        world.clock.advance(minutes=4)
    page = await browser.get("/inbox")
    text = visible_text(page.text)
    assert text.index("Older. Job failed:") < text.index("Newer. Job failed:")
    assert "Waiting 8 min for you to retry it" in text
    assert "Job failed: scope (a, held by ann): No &lt;sources&gt;." in text
    assert page.text.count("Retry failed jobs") == 1
    assert 'title="2 waiting for you"' in page.text
    assert "Nothing needs you." in (await browser.get("/")).text
    fields = {"key": "k", "back": "/inbox"}
    for run in runs:
        work = f"run:{run['runId']}:scope"
        reply = await send(browser, "/inbox", at="/rescue", work=work, **fields)
        assert (reply.status_code, reply.headers["location"]) == (303, "/inbox?done=retry")
    assert "Nothing is waiting for you" in (await browser.get("/inbox")).text
    for run, job in zip(runs, jobs, strict=True):
        assert (await world.agent.job(run))["jobId"] == job["jobId"]


async def test_failed_stage_of_canceled_run_is_not_in_the_inbox(
    browser: Browser, agent: AgentClient
) -> None:
    job = await agent.job(await agent.run())
    await agent.fail_job(job, "No.")
    await agent.call("cancel_run", runId=job["runId"], reason="No use.")
    assert "Nothing is waiting for you" in (await browser.get("/inbox")).text


async def test_full_inbox_shows_the_next_review_after_a_decision(
    browser: Browser, world: OrgEnv
) -> None:
    reviews = []
    for n in range(22):
        world.clock.advance(seconds=1)
        reviews.append(await make_review(world.agent, name=f"Plan {n}"))
    text = (await browser.get("/inbox")).text
    assert "2 more will appear after you decide these" in text
    assert "Plan 20, step 1</b>" not in text
    await decide(browser, reviews[0], "approve")
    assert "Plan 20, step 1</b>" in (await browser.get("/inbox")).text


async def test_next_item_opens_after_a_decision_without_scripts(
    browser: Browser, world: OrgEnv
) -> None:
    reviews = []
    for n in range(3):
        world.clock.advance(seconds=1)
        reviews.append(await make_review(world.agent, name=f"Plan {n}"))
    page = (await browser.get(f"/inbox?item=review-{reviews[1]['reviewId']}")).text
    assert "2 of 3" in page
    back = unescape(re.findall(r'name="back" value="([^"]+done=[^"]+)"', page)[0])
    reply = await decide(browser, reviews[1], "approve", back=back)
    assert (reply.status_code, reply.headers["location"]) == (303, back)
    page = (await browser.get(back)).text
    assert "pat approved: Plan 1, step 1." in page
    assert f'id="review-{reviews[2]["reviewId"]}"' in page
    assert "Plan 1, step 1</b>" not in page
    # After the last item, the first one opens.
    back = unescape(re.findall(r'name="back" value="([^"]+done=[^"]+)"', page)[0])
    assert f"item=review-{reviews[0]['reviewId']}" in back


async def test_second_list_has_a_decided_review_and_the_decision(
    browser: Browser, agent: AgentClient
) -> None:
    review = await make_review(agent)
    await decide(browser, review, "modify", feedback="Name the sources.")
    text = (await browser.get("/inbox?show=decided")).text
    assert "Done:</b> pat requested changes" in text
    assert "<blockquote>Name the sources.</blockquote>" in text
    assert 'action="/decisions"' not in text
    again = (await browser.get(f"/inbox?item=review-{review['reviewId']}")).text
    assert "Done:</b> pat requested changes" in again
    unknown = await browser.get("/inbox?item=review-nonsense&done=nonsense")
    assert "Nothing is waiting for you" in unknown.text


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    )
)
def test_html_of_agent_texts_contains_no_scripts_forms_or_images(value: Body) -> None:
    shown = to_rich_text(value)
    if shown is None:
        return
    tags = {tag.lower() for tag in re.findall(r"<([a-zA-Z][a-zA-Z0-9]*)", shown.html)}
    assert not tags & {"script", "img", "style", "iframe", "form", "input", "h1", "h2", "h6"}
    assert " style=" not in re.sub(r">[^<]*<", "><", shown.html)


def test_review_card_shortens_long_text_and_counts_omitted_characters() -> None:
    shown = to_rich_text("a " * MAX_LENGTH)
    assert shown is not None
    assert (shown.long, shown.omitted) == (True, MAX_LENGTH)


async def test_review_url_opens_page_with_decision_form(
    browser: Browser, agent: AgentClient
) -> None:
    review = await make_review(agent)
    waits = await agent.call("get_next_step", planId=review["planId"])
    assert waits["review"]["reviewUrl"] == review["reviewUrl"]
    base = agent.dispatcher.services.base_url
    path, place = review["reviewUrl"].removeprefix(base).split("#")
    page = await browser.get(path)
    assert page.status_code == 200
    assert f'id="{place}"' in page.text
    assert f'id="review-{review["reviewId"]}"' in page.text
    assert 'action="/decisions"' in page.text
    named = {"planId": review["planId"], "reviewId": review["reviewId"], "decision": "approve"}
    reply = await send(browser, path, at="/decisions", back=path, **named)
    assert (reply.status_code, reply.headers["location"]) == (303, path)


async def test_inbox_and_front_page_mark_overdue_review(browser: Browser, world: OrgEnv) -> None:
    await make_review(world.agent, name="Late")
    world.clock.advance(hours=20)
    await make_review(world.agent, name="Recent")
    assert "due in 4 h" in visible_text((await browser.get("/inbox")).text)
    world.clock.advance(hours=6)
    inbox = (await browser.get("/inbox")).text
    assert visible_text(inbox).count("overdue by 2 h") == 1
    assert inbox.count(">overdue</span>") == 1
    assert inbox.index("Late, step 1</b>") < inbox.index("Recent, step 1</b>")
    front = (await browser.get("/")).text
    assert front.count(">overdue</b>") == 1


async def test_bulk_approval_lists_each_outcome_and_approves_only_once(
    browser: Browser, agent: AgentClient
) -> None:
    reviews = [await make_review(agent, name=f"Plan {n}") for n in range(3)]
    await decide(browser, reviews[1], "skip")
    page = (await browser.get("/inbox")).text
    ids = [reviews[0]["reviewId"], reviews[1]["reviewId"], "rv_unknown"]
    form = {"token": page.split('name="token" value="')[1].split('"')[0], "back": "/plans"}
    for first in ("approved", "not approved , already decided: pat approved"):
        reply = await browser.post("/decisions/selected", data={**form, "review": ids})
        assert reply.status_code == 200
        text = visible_text(reply.text)
        assert f"Plan 0, step 1 : {first}" in text
        assert "Plan 1, step 1 : not approved , already decided: pat skipped the step" in text
        assert "Unknown review: not approved , not found in this org" in text
        assert '<a class="b" href="/plans">Back</a>' in reply.text
    assert (await agent.status(reviews[2]["plan"]))["status"] == "awaiting_review"
    assert (await browser.post("/decisions/selected", data=form)).status_code == 400


# Tests of review cards: feedback, comparison with the previous attempt, links and documents.


async def request_review(agent: AgentClient, plan: Body, result: object) -> Body:
    taken = await agent.take(plan)
    return await agent.review(taken, summary="Right?", resultSummary=result)


async def request_twice(agent: AgentClient, first: object, second: object) -> Body:
    """Return a plan whose step is in review again, after a person requested changes."""
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
    browser: Browser, agent: AgentClient, page: str
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
    browser: Browser, agent: AgentClient, first: object, second: object, note: str
) -> None:
    await request_twice(agent, first, second)
    text = (await browser.get("/inbox")).text
    assert note in text
    assert "<del>" not in text


async def test_review_card_of_first_attempt_shows_no_comparison(
    browser: Browser, agent: AgentClient
) -> None:
    await request_review(agent, await agent.plan(1), "Nile")
    assert "previous attempt" not in (await browser.get("/inbox")).text


async def test_review_card_links_to_step_and_research_and_latest_outputs(
    browser: Browser, world: OrgEnv
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
    await agent.review(taken)
    text = (await browser.get("/inbox")).text
    step = taken["stepId"]
    assert f'/steps/{step}">View step</a>' in text
    assert "Finding 5</a>" in text
    assert "Finding 0</a>" not in text
    assert f'/steps/{step}#research">All research (6)</a>' in text
    assert text.count(">Report</a>") == 1


async def test_feedback_card_lists_documents_of_completed_stage(
    browser: Browser, agent: AgentClient
) -> None:
    run = await agent.run("dialectic", ["opus", "gpt"], input="Build a lighthouse.")
    over = await agent.work_off(run)
    assert over["status"] == "awaiting_feedback", over
    await render_all(agent)
    text = (await browser.get("/inbox")).text
    (listed,) = re.findall(r'<ul class="ev documents".*?</ul>', text, re.DOTALL)
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
        ("omitted", "12"),
        *(("same", str(n)) for n in (12, 13, 14)),
        ("removed", "15"),
        ("added", "new"),
        *(("same", str(n)) for n in (16, 17, 18)),
        ("omitted", "11"),
    ]
    assert (diff.added, diff.removed) == (1, 1)


def test_review_card_omits_comparison_of_texts_with_too_many_changes() -> None:
    lines = [str(n) for n in range(3 * MAX_CHANGED_LINES)]
    assert compare_texts("\n".join(lines), "\n".join([*lines, "end"])).added == 1
    assert compare_texts("\n".join(lines), "\n".join(f"{line}!" for line in lines)).note
