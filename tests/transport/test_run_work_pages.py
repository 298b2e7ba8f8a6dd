"""Dashboard pages for the steps and jobs of a run."""

import re

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv
from run_documents import available, make_run_of_three_steps, render_all
from sample_definitions import make_definition, make_recipe_step, make_stage
from transport.full_app import TOKEN
from transport.page_client import Browser, main_text, make_browser


def step_path(run: Body, job: Body) -> str:
    return f"/runs/{run['runId']}/steps/{job['stageSlug']}/{job['stepKey']}"


def job_path(run: Body, job: Body) -> str:
    return f"/runs/{run['runId']}/jobs/{job['jobId']}"


def form(**fields: str) -> dict[str, str]:
    return {"token": TOKEN, "key": "k1", **fields}


async def fail(agent: AgentClient, job: Body, error: str, *, retryable: bool = False) -> None:
    await agent.fail_job(job, error, retryable=retryable)


async def test_run_page_links_to_page_of_every_step(browser: Browser, agent: AgentClient) -> None:
    run = await make_run_of_three_steps(agent)
    grid = await browser.get(f"/runs/{run['runId']}")
    drawn = await browser.get(f"/runs/{run['runId']}?view=map")
    for step in ("plan", "text", "whole"):
        path = f"/runs/{run['runId']}/steps/work/{step}"
        assert f'href="{path}"' in grid.text
        assert f'href="{path}"' in drawn.text
        shown = await browser.get(path)
        assert shown.status_code == 200
        assert f">{step}</h1>" in shown.text


async def test_retry_form_on_a_step_page_retries_only_the_jobs_of_the_step(
    browser: Browser, agent: AgentClient
) -> None:
    steps = (make_recipe_step("left", "all_to_one"), make_recipe_step("right", "all_to_one"))
    await agent.call("add_dag", definition=make_definition("two", make_stage("work", *steps)))
    run = await agent.run("two")
    first, second = await agent.job(run), await agent.job(run, another=True)
    assert first["stepKey"] != second["stepKey"]
    await fail(agent, first, "The source is gone.")
    await fail(agent, second, "The quota is used up.")
    page = await browser.get(step_path(run, first))
    shown = main_text(page)
    assert "The source is gone." in shown
    assert "The quota is used up." not in shown
    assert f'href="{job_path(run, first)}"' in page.text
    (work,) = re.findall(r'name="work" value="([^"]+)"', page.text)
    sent = await browser.post("/rescue", data=form(work=work, back=step_path(run, first)))
    assert sent.headers["location"] == f"{step_path(run, first)}?done=retry"
    after = main_text(await browser.get(sent.headers["location"]))
    assert "can be claimed again" in after
    assert "The source is gone. Ready" in after
    assert "no reason given" not in after
    assert "Retry failed jobs" not in after
    assert "The quota is used up." in main_text(await browser.get(step_path(run, second)))


async def test_selected_jobs_are_retried_and_other_failed_jobs_are_not(
    browser: Browser, agent: AgentClient
) -> None:
    steps = [make_recipe_step(name, "all_to_one") for name in ("a", "b~c", "d")]
    await agent.call("add_dag", definition=make_definition("three", make_stage("work", *steps)))
    run = await agent.run("three")
    jobs = [await agent.job(run, another=True) for _ in steps]
    for job in jobs:
        await fail(agent, job, "The source is gone.")
    address = f"/runs/{run['runId']}/jobs"
    boxes = re.findall(r'name="work" value="(job:[^"]+)"', (await browser.get(address)).text)
    assert len(boxes) == 3
    chosen = [box for box in boxes if not box.endswith("/d")]
    sent = await browser.post("/rescue", data=form(key="k", back=address) | {"work": chosen})
    assert sent.headers["location"] == f"{address}?done=retry"
    shown = (await browser.get(sent.headers["location"])).text
    left = re.findall(r'name="work" value="(job:[^"]+)"', shown)
    assert left == [box for box in boxes if box.endswith("/d")]
    assert "The failed jobs can be claimed again." in shown


async def test_job_page_lists_attempts_with_errors_holders_and_cost(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    run = await agent.run()
    first = await agent.job(run, sessionId="morning")
    await fail(agent, first, "The source is gone.", retryable=True)
    world.clock.advance(minutes=5)
    second = await agent.job(run, sessionId="evening")
    assert (second["jobId"], second["attempt"]) == (first["jobId"], 2)
    used = {"inputTokens": 1_200, "outputTokens": 34, "costUsd": 0.25}
    await agent.submit_documents(second, "# Found", usage=used)
    await render_all(agent)
    page = await browser.get(job_path(run, second))
    shown = main_text(page)
    rows = re.findall(
        r'<tr><td class="n" data-l="attempt">(\d)</td>(.*?)</tr>', page.text, re.DOTALL
    )
    assert [number for number, _ in rows] == ["2", "1"]
    latest, earliest = rows[0][1], rows[1][1]
    assert "The source is gone." in earliest
    assert "morning" in earliest
    assert "evening" in latest
    assert "1,234 tokens, $0.25" in latest
    assert "1,234 tokens" not in earliest
    assert "completed" in latest
    assert second["prompt"].splitlines()[0] in shown
    assert re.search(r'name="work" value="document:[^"]+"', page.text)


async def test_job_page_of_expired_lease_shows_that_the_lease_expired(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    run = await agent.run()
    first = await agent.job(run, sessionId="gone")
    world.clock.advance(hours=2)
    second = await agent.job(run, sessionId="new")
    assert second["jobId"] == first["jobId"]
    shown = main_text(await browser.get(job_path(run, second)))
    assert "lease expired" in shown
    assert "held by new" in shown


async def test_job_or_step_of_another_run_or_org_returns_404(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    run, other = await agent.run(), await agent.run(name="Other")
    job = await agent.job(run)
    assert (await browser.get(f"/runs/{run['runId']}/jobs/{job['jobId']}")).status_code == 200
    theirs = await world.other_org.run()
    taken = await world.other_org.job(theirs)
    world.other_org_may_change = True
    for path in (
        job_path(other, job),
        job_path(theirs, taken),
        job_path(run, taken),
        f"/runs/{run['runId']}/jobs/x",
        f"/runs/{run['runId']}/steps/nowhere/{job['stepKey']}",
        f"/runs/{run['runId']}/steps/{job['stageSlug']}/nothing",
        step_path(theirs, taken),
    ):
        assert (await browser.get(path)).status_code == 404, path


async def test_step_with_unusual_characters_opens_from_run_page(
    browser: Browser, agent: AgentClient
) -> None:
    key = "a/b ~ ?#%<ü>"
    stage = make_stage("odd/stage", make_recipe_step(key, "all_to_one"))
    await agent.call("add_dag", definition=make_definition("odd", stage))
    run = await agent.run("odd")
    page = await browser.get(f"/runs/{run['runId']}")
    links = set(re.findall(r'href="(/runs/[^"#]+/steps/[^"#]+)"', page.text))
    assert len(links) == 1
    shown = await browser.get(links.pop())
    assert shown.status_code == 200
    assert key in main_text(shown)
    assert len(job_ids(shown)) == 1


def job_ids(page: httpx2.Response) -> list[str]:
    """Return the ids of the jobs in a page's table."""
    return re.findall(r'data-item class="t" href="/runs/[^"]+/jobs/([^"]+)"', page.text)


async def test_step_page_with_many_jobs_is_paginated(browser: Browser, agent: AgentClient) -> None:
    source = make_recipe_step("source", "per_model", outputs=[{"documentKey": "source"}])
    review = make_recipe_step(
        "review", "pairwise_by_origin", inputsRequired=[{"documentKey": "source"}]
    )
    stage = make_stage("work", source, review, edges=[("source", "review")])
    await agent.call("add_dag", definition=make_definition("many", stage))
    models = "abcd"
    run = await agent.run("many", models)
    for _ in models:
        await agent.submit_documents(await agent.job(run))
    path = f"/runs/{run['runId']}/steps/work/review"
    page = await browser.get(path)
    assert f'rel="next" href="{path}?page=2#jobs"' in page.text
    first, second = job_ids(page), job_ids(await browser.get(f"{path}?page=2"))
    assert len(first) == 50
    assert 0 < len(second) <= 50
    assert not {*first} & {*second}
    assert job_ids(await browser.get(f"{path}?page=9")) == []
    assert job_ids(await browser.get(f"{path}?page=x")) == first


async def make_versions(agent: AgentClient) -> Body:
    """Create a run with a document that model `a` wrote in two versions, and model `b` in one."""
    stage = make_stage("work", make_recipe_step("case"))
    await agent.call("add_dag", definition=make_definition("cases", stage))
    run = await agent.run("cases")
    for model in "ab":
        job = await agent.job(run, modelId=model)
        done = await agent.submit_documents(job, f"# Case\n\nBy {model}.\n\nThe end.")
        if model == "a":
            await agent.call("regenerate_document", documentId=done["documentIds"][0])
            await agent.submit_documents(await agent.job(run, modelId="a"), "# Case\n\nBetter.")
    await render_all(agent)
    return run


async def versions_on(browser: Browser, run: Body) -> dict[tuple[str, str], str]:
    """Return the URL of each document of the step `case`, by model and version."""
    page = await browser.get(f"/runs/{run['runId']}/steps/work/case")
    row = r'href="(/runs/[^"]+/documents/[^"]+)">case</a>.*?<td>(\w)</td><td[^>]*>(\d)</td>'
    return {(model, number): path for path, model, number in re.findall(row, page.text)}


async def test_document_page_marks_outdated_inputs_and_can_regenerate_dependents(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    run = await make_run_of_three_steps(agent)
    await agent.work_off(run)
    await render_all(agent)
    world.clock.advance(seconds=1)
    documents = await available(agent, run)
    text, combined = (
        f"/runs/{run['runId']}/documents/{documents[key, 'a']}" for key in ("text", "whole")
    )
    assert "Made from text by a, version 1; text by b, version 1" in main_text(
        await browser.get(combined)
    )
    await agent.call("regenerate_document", documentId=documents["text", "a"])
    await agent.submit_documents(await agent.job(run), "# Anew")
    assert "text by a, version 1 (version 2 is newer)" in main_text(await browser.get(combined))
    listed = main_text(await browser.get(f"/runs/{run['runId']}/documents"))
    assert listed.count("outdated") == 1
    page = await browser.get(text)
    assert "Regenerate with what follows" in main_text(page)
    (work,) = re.findall(r'name="work" value="([^"]+:following)"', page.text)
    sent = await browser.post("/rescue", data=form(work=work, back=text))
    assert sent.status_code == 303
    for step in ("text", "whole"):
        job = await agent.job(run)
        assert job["stepKey"] == step
        await agent.submit_documents(job, "# Anew")


async def test_document_page_shows_rendered_text_and_documents_to_compare(
    browser: Browser, agent: AgentClient
) -> None:
    run = await make_versions(agent)
    paths = await versions_on(browser, run)
    assert set(paths) == {("a", "1"), ("a", "2"), ("b", "1")}
    page = await browser.get(paths["a", "2"])
    assert page.status_code == 200
    assert "<h3>Case</h3>" in page.text
    shown = main_text(page)
    assert "version 2 of 2" in shown
    ids = {path.rpartition("/")[2] for path in paths.values()}
    assert 'name="with"' in page.text
    offered = {*re.findall(r'<option value="([^"]+)"', page.text)}
    assert offered == ids - {paths["a", "2"].rpartition("/")[2]}


@pytest.mark.parametrize(
    ("other", "removed"),
    [(("a", "1"), ["By a.", "", "The end."]), (("b", "1"), ["By b.", "", "The end."])],
)
async def test_document_page_marks_lines_that_differ_from_the_other_document(
    browser: Browser, agent: AgentClient, other: tuple[str, str], removed: list[str]
) -> None:
    run = await make_versions(agent)
    paths = await versions_on(browser, run)
    with_id = paths[other].rpartition("/")[2]
    page = await browser.get(paths["a", "2"], params={"with": with_id})
    assert re.findall(r"<del>.*?</span>(.*?)</del>", page.text) == removed
    assert re.findall(r"<ins>.*?</span>(.*?)</ins>", page.text) == ["Better."]
    sides = page.text.partition('class="sides"')[2]
    assert sides.index("The end.") < sides.index("Better.")


async def test_document_of_another_run_or_org_is_neither_shown_nor_compared(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    run = await make_versions(agent)
    path = (await versions_on(browser, run))["a", "1"]
    other_run = await make_run_of_three_steps(agent)
    await agent.work_off(other_run)
    await render_all(agent)
    listed = await browser.get(f"/runs/{other_run['runId']}/documents")
    unrelated = re.findall(r'href="/runs/[^"]+/documents/([^"]+)"', listed.text)[0]
    for query in (unrelated, "x", "01890000-0000-7000-8000-000000000000"):
        assert (await browser.get(path, params={"with": query})).status_code == 404, query
    foreign = path.replace(run["runId"], other_run["runId"])
    assert (await browser.get(foreign)).status_code == 404
    theirs = await make_versions(world.other_org)
    world.other_org_may_change = True
    async with make_browser(world.other_org) as client:
        their_path = (await versions_on(client, theirs))["a", "1"]
    assert (await browser.get(their_path)).status_code == 404


async def test_document_page_does_not_execute_scripts_in_text_or_comparison(
    browser: Browser, agent: AgentClient
) -> None:
    stage = make_stage("work", make_recipe_step("case"))
    await agent.call("add_dag", definition=make_definition("cases", stage))
    run = await agent.run("cases")
    for model in "ab":
        job = await agent.job(run, modelId=model)
        await agent.submit_documents(job, f"<script>alert('{model}')</script><img src=x onerror=y>")
    await render_all(agent)
    paths = await versions_on(browser, run)
    other = paths["b", "1"].rpartition("/")[2]
    page = await browser.get(paths["a", "1"], params={"with": other})
    assert page.status_code == 200
    main = page.text.partition("<main")[2]
    assert "<script" not in main
    assert not re.search(r"<img[^>]*onerror", main)
    assert "Removed: </span>&lt;script&gt;" in main


async def test_jobs_page_filters_by_stage_model_and_status(
    browser: Browser, agent: AgentClient
) -> None:
    stage = make_stage("work", make_recipe_step("case"))
    await agent.call("add_dag", definition=make_definition("cases", stage))
    run = await agent.run("cases", "abc")
    await agent.submit_documents(await agent.job(run, modelId="a"))
    await fail(agent, await agent.job(run, modelId="b"), "The source is gone.")
    await render_all(agent)
    path = f"/runs/{run['runId']}/jobs"

    async def listed(query: str) -> list[str]:
        page = await browser.get(f"{path}?{query}")
        return re.findall(r'data-item class="t" href="[^"]+">(\w)</a>', page.text)

    assert sorted(await listed("")) == ["a", "a", "b", "c"], "one job renders the document"
    assert await listed("model=b") == ["b"]
    assert await listed("state=failed") == ["b"]
    assert await listed("state=pending&stage=work") == ["c"]
    assert await listed("stage=nowhere") == []
    page = await browser.get(path)
    assert len(re.findall(r"<rect data-s=\"(?:done|fail)\" [^>]*rx=", page.text)) == 2
