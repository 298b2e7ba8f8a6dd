"""Search page: hits of every kind, excerpts, size limits, and no hits of other orgs."""

import re
from dataclasses import replace

import pytest

from org_env import AgentClient, OrgEnv, make_step
from run_documents import render_all
from transport.page_client import Browser, visible_text
from waybook.background import index_all_orgs

SENTENCE = "The moraine dam of the upper lake failed twice before the spring flood."
LONG_TEXT = "Nothing of interest happened here. " * 1_500


async def search(browser: Browser, text: str, **more: str) -> str:
    reply = await browser.get("/search", params={"q": text, **more})
    assert reply.status_code == 200, reply.text
    return reply.text


def section(html: str, kind: str) -> str:
    """Return the section with the hits of this kind as HTML, or an empty text."""
    match = re.search(rf'<section aria-labelledby="g-{kind}">.*?</section>', html, re.DOTALL)
    return match[0] if match else ""


async def test_search_finds_sentence_inside_a_long_result(browser: Browser, world: OrgEnv) -> None:
    agent = world.agent
    plan = await agent.plan([make_step(title="Survey the lake"), make_step()], name="Floods")
    taken = await agent.take(plan)
    await agent.submit(taken, {"findings": [LONG_TEXT, f"Before. {SENTENCE} After."]})
    html = section(await search(browser, SENTENCE), "result")
    step = f"/plans/{plan['planId']}/steps/{taken['stepId']}#result"
    assert f'href="{step}"' in html
    assert "<mark>moraine</mark> <mark>dam</mark>" in html
    assert "spring flood . After." in visible_text(html)
    assert "Survey the lake Floods" in visible_text(html)
    assert (await browser.get(step)).status_code == 200


async def test_search_finds_plans_steps_and_runs_by_word_prefixes(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    steps = [make_step(title="Running waters of Lapland")]
    plan = await agent.plan(steps, name="Glacial rivers", researchQuestion="Where is meltwater?")
    run = await agent.run(name="Glacial comparison", input="Compare the moraines.")
    html = await search(browser, "glac")
    assert f'href="/plans/{plan["planId"]}"' in section(html, "plan")
    assert "<mark>Glacial</mark> rivers" in section(html, "plan")
    assert f'href="/runs/{run["runId"]}"' in section(html, "run")
    assert "<mark>Running</mark> <mark>waters</mark>" in section(
        await search(browser, "runni wat"), "step"
    )
    assert "Glacial rivers" in section(await search(browser, "meltwater"), "plan")
    assert "Compare the <mark>moraines</mark>" in section(await search(browser, "moraine"), "run")


async def test_search_for_an_id_finds_the_plan(browser: Browser, world: OrgEnv) -> None:
    plan = await world.agent.plan(name="Ponds")
    assert f'href="/plans/{plan["planId"]}"' in section(
        await search(browser, plan["planId"]), "plan"
    )


async def test_search_finds_only_the_latest_version_of_a_document(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    run = await agent.run()
    job = await agent.job(run)
    first = await agent.submit_documents(job, f"# Brief\n\n{SENTENCE}")
    html = section(await search(browser, "moraine dam"), "document")
    assert "failed twice" in visible_text(html)
    assert f"/runs/{run['runId']}/jobs/{job['jobId']}" in html
    await render_all(agent)
    link = re.search(r'href="([^"]+/documents/[^"]+)"', await search(browser, "moraine dam"))
    assert link
    assert (await browser.get(link[1])).status_code == 200
    await agent.call("regenerate_document", documentId=first["documentIds"][0])
    again = await agent.job(run)
    await agent.submit_documents(again, "# Brief\n\nNo dams at all.")
    assert section(await search(browser, "moraine dam"), "document") == ""


async def test_search_hit_in_research_links_to_content_and_sources(
    browser: Browser, world: OrgEnv
) -> None:
    source = {"url": "https://example.org/lake", "title": "Atlas of lakes", "quote": "A dam."}
    note = {"kind": "finding", "title": "Dams", "content": SENTENCE, "sources": [source]}
    stored = await world.agent.call("store_research", **note)
    await index_all_orgs(world.agent.dispatcher.services)
    html = section(await search(browser, "moraine"), "research")
    path = f"/research/{stored['artifactId']}"
    assert f'href="{path}"' in html
    page = (await browser.get(path)).text
    assert SENTENCE in page
    link = re.search(r'href="(/research/[^"]+)">Atlas of lakes', page)
    assert link
    shown = visible_text((await browser.get(link[1])).text)
    assert "https://example.org/lake" in shown
    assert "Cited by Dams finding" in shown


async def test_search_finds_workflows_by_name_and_slug(browser: Browser) -> None:
    html = section(await search(browser, "deep res"), "workflow")
    assert 'href="/dags/deep-research"' in html


@pytest.mark.parametrize("text", ["", "  ", "!?", "the of", "\0", "'@x'", "a:* & (", "zzzz", "-"])
async def test_search_page_without_matches_shows_a_message(
    browser: Browser, world: OrgEnv, text: str
) -> None:
    await world.agent.plan(name="Rivers")
    html = await search(browser, text)
    assert "hits" not in html
    assert ("No results for" in html) == bool(text.replace("\0", "").strip())


async def test_too_long_search_text_returns_400_and_stays_visible(browser: Browser) -> None:
    assert (await browser.get("/search", params={"q": "x" * 500})).status_code == 200
    reply = await browser.get("/search", params={"q": "x" * 501}, headers={"accept": "text/html"})
    assert reply.status_code == 400
    assert "at most 500 characters; this one has 501" in reply.text
    assert f'value="{"x" * 501}"' in reply.text


async def test_search_page_limits_the_hits_of_each_kind(browser: Browser, world: OrgEnv) -> None:
    for n in range(12):
        await world.agent.plan(1, name=f"Lagoon {n}")
    assert section(await search(browser, "lagoon"), "plan").count("<li>") == 10
    assert "the best 10" in section(await search(browser, "lagoon"), "plan")
    options = await search(browser, "lagoon", part="options")
    assert options.partition('id="pg-actions"')[0].count('href="/plans/') == 4
    assert "Search everything for “lagoon”" in options


async def test_search_page_escapes_hostile_texts(browser: Browser, world: OrgEnv) -> None:
    attack = "<script>alert(1)</script> <img src=x onerror=alert(2)> moraine"
    taken = await world.agent.take(await world.agent.plan(1, name=attack))
    await world.agent.submit(taken, {"found": attack})
    for text in ("moraine", attack):
        for part in ("", "options"):
            html = await search(browser, text, part=part)
            assert "<script>alert" not in html
            assert "<img" not in html


async def test_search_page_shows_nothing_of_another_org(browser: Browser, world: OrgEnv) -> None:
    world.other_org_may_change = True
    other = world.other_org
    taken = await other.take(world.other_org_plan)
    await other.submit(taken, {"found": SENTENCE})
    await other.submit_documents(await other.job(await other.run(name="Moraines")), SENTENCE)
    stored = await other.call("store_research", kind="note", title="Moraine", content=SENTENCE)
    await index_all_orgs(world.agent.dispatcher.services)
    for text in (SENTENCE, "moraine", "Next door", world.other_org_plan["planId"]):
        html = await search(browser, text)
        assert "hits" not in html, html
    reply = await browser.get(f"/research/{stored['artifactId']}")
    assert reply.status_code == 404


@pytest.mark.parametrize(
    ("text", "expected"), [("", 15), ("inb", 1), ("new pl", 1), ("new run", 1), ("zzz", 0)]
)
async def test_command_palette_lists_commands_that_match_the_typed_text(
    browser: Browser, text: str, expected: int
) -> None:
    html = await search(browser, text, part="options")
    assert html.count('role="option"') == expected + bool(text)
    assert "<html" not in html


async def options(browser: Browser, text: str) -> str:
    return await search(browser, text, part="options")


async def test_palette_retries_the_failed_step_of_a_matching_plan(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(2, name="Danube")
    await agent.modify(plan, "fail_step", stepId=plan["stepIds"][0], reason="No access.")
    html = await options(browser, "retry danu")
    assert re.findall(r'data-act="(\w+)"', html) == ["retry"]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', html))
    reply = await browser.post("/rescue", data=fields)
    assert reply.headers["location"] == f"/plans/{plan['planId']}?done=retry"
    assert (await agent.take(plan))["stepId"] == plan["stepIds"][0]
    assert 'data-act="retry"' not in await options(browser, "danube")
    assert "Copy resume prompt" in await options(browser, "danube")


async def test_palette_finds_agents_by_name_and_every_kind_of_id(
    browser: Browser, agent: AgentClient
) -> None:
    plan, run = await agent.plan(1), await agent.run()
    client = AgentClient(agent.dispatcher, replace(agent.caller, client="cursor"))
    step = await client.take(plan, sessionId="night-watch")
    job = await agent.job(run)
    await agent.dispatcher.calls.flush()
    assert 'href="/agents/ann?session=night-watch"' in await options(browser, "NIGHT")
    places = {
        plan["planId"]: f"/plans/{plan['planId']}",
        step["stepId"]: f"/plans/{plan['planId']}/steps/{step['stepId']}",
        run["runId"]: f"/runs/{run['runId']}",
        job["jobId"]: f"/runs/{run['runId']}/jobs/{job['jobId']}",
    }
    for wanted, address in places.items():
        assert re.findall(r'href="([^"]+)"', await options(browser, wanted))[0] == address
