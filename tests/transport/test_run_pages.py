"""Dashboard pages for runs and workflows."""

import re

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from transport.full_app import TOKEN
from transport.page_client import main_text
from waybook.app.queries.work_list import ListOrder, RunFilter, list_runs
from waybook.app.request.request_context import RequestContext


async def make_worked_run(agent: AgentClient, name: str = "Rivers") -> Body:
    run = await agent.run(name=name)
    await agent.work_off(run)
    await render_all(agent)
    return run


def form(**fields: str) -> dict[str, str]:
    return {"token": TOKEN, "key": "k1", **fields}


async def test_runs_page_filters_and_paginates_by_query_parameters(
    world: OrgEnv, browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    names = [f"Run {number:02}" for number in range(27)]
    for name in names:
        await agent.run(name=name)
    await world.other_org.run(name="Not ours")
    world.other_org_may_change = True
    first = await browser.get("/runs")
    further = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert further is not None
    second = await browser.get(further[1].replace("&amp;", "&"))
    seen = re.findall(r"Run \d\d", first.text) + re.findall(r"Run \d\d", second.text)
    assert seen == names[::-1]
    assert "Not ours" not in first.text + second.text
    assert re.findall(r"Run \d\d", (await browser.get("/runs?q=run+07")).text) == ["Run 07"]
    assert "No matching runs" in (await browser.get("/runs?state=completed")).text
    assert "No matching runs" in (await browser.get("/runs?dag=other")).text


async def test_run_list_filtered_by_state_contains_only_that_state(agent: AgentClient) -> None:
    await make_worked_run(agent, "waits")
    failing = await agent.run(name="fails")
    job = await agent.job(failing)
    await agent.call(
        "fail_job", jobId=job["jobId"], attempt=job["attempt"], error="no", retryable=False
    )
    await agent.run(name="goes on")
    call = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    every = (await list_runs(call, RunFilter())).runs
    assert {run.state for run in every} == {"awaiting_feedback", "failed", "in_progress"}
    for state in {str(run.state) for run in every}:
        page = await list_runs(call, RunFilter(state=state, order=ListOrder.CREATION))
        assert [item.id for item in page.runs] == [r.id for r in every if r.state == state]


async def test_feedback_form_starts_next_stage_with_named_models(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    run = await make_worked_run(agent)
    address = f"/runs/{run['runId']}"
    fields = form(
        runId=run["runId"],
        stageSlug=await first_stage(agent, run),
        feedback="Go deeper.",
        models="a, c",
        back=address,
    )
    sent = await browser.post("/feedback", data=fields)
    assert (sent.status_code, sent.headers["location"]) == (303, address)
    page = main_text(await browser.get(address))
    assert "Feedback by pat" in page
    assert "models: a, c" in page


async def first_stage(agent: AgentClient, run: Body) -> str:
    slug: str = (await agent.progress(run))["stages"][0]["stageSlug"]
    return slug


async def test_rejected_feedback_shows_an_error_and_keeps_input(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    run = await make_worked_run(agent)
    fields = form(
        runId=run["runId"],
        stageSlug=await first_stage(agent, run),
        feedback="Go <deeper>.",
        models=", ".join(f"m{n}" for n in range(40)),
    )
    page = await browser.post("/feedback", data=fields)
    assert page.status_code == 400
    assert 'role="alert"' in page.text
    assert "Go &lt;deeper&gt;." in page.text
    assert "m39" in page.text
    assert (await agent.progress(run))["dagProgress"]["completedStages"] == 1


async def make_failed_run(agent: AgentClient) -> tuple[Body, Body]:
    run = await agent.run()
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await agent.call("fail_job", **held, error="The source is gone.", retryable=False)
    return run, job


async def test_run_page_shows_why_a_job_failed(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    run, job = await make_failed_run(agent)
    address = f"/runs/{run['runId']}"
    page = main_text(await browser.get(address))
    assert "The source is gone." in page
    sent = await browser.post(f"{address}/retry", data=form(stage=job["stageSlug"]))
    assert sent.status_code == 303
    assert "The source is gone." not in main_text(await browser.get(address))
    assert (await agent.job(run))["jobId"] == job["jobId"]


async def test_regenerating_on_the_run_page_creates_a_job(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    run = await make_worked_run(agent)
    page = await browser.get(f"/runs/{run['runId']}/documents")
    document = re.search(r'name="document" value="([^"]+)"', page.text)
    assert document is not None
    sent = await browser.post(f"/runs/{run['runId']}/regenerate", data=form(document=document[1]))
    assert sent.status_code == 303
    assert "Regeneration queued" in main_text(await browser.get(sent.headers["location"]))
    assert (await agent.job(run))["status"] == "job_ready"


@pytest.mark.parametrize(
    ("ending", "kind", "begins"),
    [
        ("json", "application/json", "{"),
        ("md", "text/markdown", "# "),
        ("svg", "image/svg+xml", "<svg"),
        ("mmd", "text/plain", "flowchart"),
    ],
)
async def test_run_export_is_sandboxed_attachment_of_requested_format(
    browser: httpx2.AsyncClient, agent: AgentClient, ending: str, kind: str, begins: str
) -> None:
    run = await agent.run(name='"; rm -rf / <b>')
    file = await browser.get(f"/runs/{run['runId']}/export.{ending}")
    assert file.status_code == 200
    assert file.headers["content-type"] == f"{kind}; charset=utf-8"
    assert re.fullmatch(
        r'attachment; filename="[A-Za-z0-9._-]+"', file.headers["content-disposition"]
    )
    assert "sandbox" in file.headers["content-security-policy"]
    assert begins in file.text
    assert (await browser.get(f"/runs/{run['runId']}/export.exe")).status_code == 404


async def test_workflow_page_shows_map_prompts_and_expected_counts(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    listed = await browser.get("/dags")
    assert 'href="/dags/dialectic"' in listed.text
    page = await browser.get("/dags/dialectic")
    assert "<svg" in page.text
    assert "No stored versions" in main_text(page)
    rows = re.findall(r"<tr><td><a [^>]+>([^<]+)</a></td>((?:<td>\d+</td>){4})</tr>", page.text)
    assert len(rows) == 5
    await agent.run("dialectic", "ab")
    assert "Version 1" in main_text(await browser.get("/dags/dialectic"))
    assert (await browser.get("/dags/dialectic?version=1")).status_code == 200
    assert (await browser.get("/dags/dialectic?version=x")).status_code == 400
    assert (await browser.get("/dags/nobody")).status_code == 404


@pytest.mark.parametrize(
    ("path", "part", "holds"),
    [
        ("/runs", "list", "runs"),
        ("/runs/{}", "ask", "ask"),
        ("/runs/{}", "standing", "standing"),
        ("/audit", "list", "entries"),
    ],
)
async def test_page_with_part_parameter_returns_only_that_section(
    browser: httpx2.AsyncClient, agent: AgentClient, path: str, part: str, holds: str
) -> None:
    run = await make_worked_run(agent)
    page = await browser.get(path.format(run["runId"]), params={"part": part})
    assert page.text.strip().startswith(f'<section id="{holds}" data-live=')
    assert page.text.strip().endswith("</section>")
    assert "<html" not in page.text
    full_page = await browser.get(path.format(run["runId"]))
    assert len(page.text) < len(full_page.text)
