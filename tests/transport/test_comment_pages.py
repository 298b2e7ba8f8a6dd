"""Threads of comments on pages: writing, answering, resolving and assigning without JavaScript."""

import re
from urllib.parse import urlsplit

import pytest

from org_env import AgentClient, Body
from transport.page_client import Browser, send, visible_text


async def thread_pages(agent: AgentClient) -> dict[str, str]:
    """Return the paths of a plan, a step, a run and a job, each with the id of its thread."""
    plan, job = await agent.plan(1), await agent.job(await agent.run())
    step = plan["stepIds"][0]
    return {
        f"/plans/{plan['planId']}": plan["planId"],
        f"/plans/{plan['planId']}/steps/{step}": step,
        f"/runs/{job['runId']}": job["runId"],
        f"/runs/{job['runId']}/jobs/{job['jobId']}": job["jobId"],
    }


async def test_comment_form_of_every_page_writes_and_resolves(
    browser: Browser, agent: AgentClient
) -> None:
    for path, subject in (await thread_pages(agent)).items():
        address = f"/comments/{subject}"
        sent = await send(browser, path, at=address, text="Is <b>it</b>?", back=path)
        assert (sent.status_code, sent.headers["location"]) == (303, f"{path}#comments-{subject}")
        shown = (await browser.get(path)).text
        assert f'<details class="fold" id="comment-{subject}"><summary data-act="comment"' in shown
        assert "Is &lt;b&gt;it&lt;/b&gt;?" in shown
        (comment_id,) = re.findall(r'name="resolve" value="(\w+)"', shown)
        await send(browser, path, at=address, resolve=comment_id, back=path)
        shown = (await browser.get(path)).text
        assert "resolved by pat" in visible_text(shown)
        assert 'name="resolve"' not in shown


async def test_refused_comment_is_shown_again_with_the_text(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    typed = {"text": "Is this source reliable?", "assignee": "unknown-user"}
    path = f"/comments/{plan['planId']}"
    answer = await send(browser, path, **typed, back="/inbox")
    assert answer.status_code == 400
    assert "there is no user unknown-user in this org" in visible_text(answer.text)
    assert "Is this source reliable?</textarea>" in answer.text
    assert f'<details class="fold" id="comment-{plan["planId"]}" open>' in answer.text


async def test_thread_shows_newest_comments_and_links_to_earlier(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    for number in range(25):
        await agent.call("comment", subjectId=plan["planId"], text=f"Number {number}.")
    shown = (await browser.get(f"/plans/{plan['planId']}")).text
    assert ("Number 4." in shown, "Number 5." in shown) == (False, True)
    (earlier,) = re.findall(r'href="(/comments/[^"]+)"', shown)
    assert urlsplit(earlier).query.startswith("before=")
    shown = (await browser.get(earlier)).text
    assert ("Number 4." in shown, "Number 5." in shown) == (True, False)


@pytest.fixture
async def review(agent: AgentClient) -> Body:
    taken = await agent.take(await agent.plan(1, name="Assigned"))
    return {**taken, **await agent.review(taken)}


async def test_inbox_filter_has_assigned_reviews_and_mentions(
    browser: Browser, agent: AgentClient, review: Body
) -> None:
    other = await agent.plan(1, name="Mentioned")
    await agent.call("comment", subjectId=other["stepIds"][0], text="What now, @PAT?")
    await agent.call("comment", subjectId=other["planId"], text="pat@pat.org is no mention")
    mine = (await browser.get("/inbox?show=mine")).text
    assert "Assigned, step 1" not in mine
    assert visible_text(mine).count("ann commented") == 1
    assert f'action="/comments/{other["stepIds"][0]}"' in mine
    await send(browser, f"/comments/{review['stepId']}", assignee="pat", back="/inbox?show=mine")
    mine = (await browser.get("/inbox?show=mine")).text
    assert ("Assigned, step 1" in mine, "Mentioned" in mine) == (True, True)
