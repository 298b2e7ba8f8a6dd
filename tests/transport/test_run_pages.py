"""Pages of runs and workflows, and the form that starts a run."""

import re
from html import unescape
from itertools import pairwise

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from sample_definitions import make_definition, make_recipe_step, make_stage
from transport.full_app import TOKEN
from transport.page_client import Browser, main_text, send, visible_text
from waybook.app.queries.work_list import ListOrder, RunFilter, list_runs
from waybook.app.request.definition_cache import builtin_dags
from waybook.app.request.request_context import RequestContext
from waybook.run.model import MAX_MODELS


async def make_worked_run(agent: AgentClient, name: str = "Rivers") -> Body:
    run = await agent.run(name=name)
    await agent.work_off(run)
    await render_all(agent)
    return run


def form(**fields: str) -> dict[str, str]:
    return {"token": TOKEN, "key": "k1", **fields}


async def test_runs_page_filters_and_paginates_by_query_parameters(
    world: OrgEnv, browser: Browser, agent: AgentClient
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
    named = re.compile(r"<b>(Run \d\d)</b>")
    assert named.findall(first.text) + named.findall(second.text) == names[::-1]
    assert "Not ours" not in first.text + second.text
    assert named.findall((await browser.get("/runs?q=run+07")).text) == ["Run 07"]
    assert "No matching runs" in (await browser.get("/runs?state=completed")).text
    assert "No matching runs" in (await browser.get("/runs?dag=other")).text


async def test_run_list_filtered_by_state_contains_only_runs_in_the_state(
    browser: Browser, agent: AgentClient
) -> None:
    await make_worked_run(agent, "waits")
    failing = await agent.run(name="fails")
    while (job := await agent.call("get_next_job", runId=failing["runId"]))[
        "status"
    ] == "job_ready":
        await agent.fail_job(job)
    await agent.run(name="goes on")
    call = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    every, _ = await list_runs(call, RunFilter())
    assert {run.shown for run in every} == {"awaiting_input", "failed", "in_progress"}
    for state in {run.shown for run in every}:
        runs, _ = await list_runs(call, RunFilter(state=state, order=ListOrder.CREATION))
        assert [item.id for item in runs] == [r.id for r in every if r.shown == state]
    for address in ("/runs?state=<script>x", "/calls?window=<script>x"):
        refused = await browser.get(address, headers={"accept": "text/html"})
        assert (refused.status_code, "<script>x" in refused.text) == (400, False)
    tabs = "Open 3 All 3 Running 1 Needs you 1 Failed 1"
    shown = (await browser.get("/runs")).text
    assert visible_text(shown[shown.index('<nav class="tabs') :]).startswith(tabs)


async def test_feedback_form_starts_next_stage_with_named_models(
    browser: Browser, agent: AgentClient
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
    assert "Models a, c" in main_text(await browser.get(address))
    earlier = await browser.get(address, params={"stage": fields["stageSlug"]})
    assert "Feedback by pat" in main_text(earlier)


async def first_stage(agent: AgentClient, run: Body) -> str:
    slug: str = (await agent.progress(run))["stages"][0]["stageSlug"]
    return slug


async def test_rejected_feedback_shows_an_error_and_keeps_input(
    browser: Browser, agent: AgentClient
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
    await agent.fail_job(job, "The source is gone.")
    return run, job


async def test_run_page_shows_the_error_of_a_failed_job_until_the_retry(
    browser: Browser, agent: AgentClient
) -> None:
    run, job = await make_failed_run(agent)
    address = f"/runs/{run['runId']}"
    page = main_text(await browser.get(address))
    assert "The source is gone." in page
    sent = await browser.post(
        "/rescue", data=form(work=f"run:{run['runId']}:{job['stageSlug']}", back=address)
    )
    assert sent.status_code == 303
    assert "The source is gone." not in main_text(await browser.get(address))
    assert (await agent.job(run))["jobId"] == job["jobId"]


async def test_regenerating_a_document_on_the_dashboard_creates_a_job(
    browser: Browser, agent: AgentClient
) -> None:
    run = await make_worked_run(agent)
    page = await browser.get(f"/runs/{run['runId']}/documents")
    (work,) = re.findall(r'name="work" value="([^"]+)"', page.text)
    sent = await browser.post("/rescue", data=form(work=work, back=f"/runs/{run['runId']}"))
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
    browser: Browser, agent: AgentClient, ending: str, kind: str, begins: str
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


async def test_workflow_page_shows_map_prompts_and_expected_numbers_of_jobs(
    browser: Browser, agent: AgentClient
) -> None:
    listed = await browser.get("/dags")
    assert 'href="/dags/dialectic"' in listed.text
    page = await browser.get("/dags/dialectic")
    assert "<svg" in page.text
    assert "No stored versions" in main_text(page)
    row = r'<tr><td><a [^>]+>([^<]+)</a></td>((?:<td class="n">\d+</td>){4})</tr>'
    rows = re.findall(row, page.text)
    assert len(rows) == 5
    await agent.run("dialectic", "ab")
    assert "Version 1" in main_text(await browser.get("/dags/dialectic"))
    assert (await browser.get("/dags/dialectic?version=1")).status_code == 200
    assert (await browser.get("/dags/dialectic?version=x")).status_code == 400
    assert (await browser.get("/dags/unknown")).status_code == 404


async def test_workflow_page_shows_the_last_runs_as_bars_and_table(
    browser: Browser, world: OrgEnv
) -> None:
    assert "Last" not in main_text(await browser.get("/dags/deep-research"))
    await finish_runs(world, 3)
    failed, _ = await make_failed_run(world.agent)
    await world.agent.run("dialectic", "ab")
    page = await browser.get("/dags/deep-research")
    assert "Last 4 runs" in main_text(page)
    assert re.findall(r'<rect data-s="(\w+)"', page.text) == ["fail", "done", "done", "done"]
    assert page.text.count(f'href="/runs/{failed["runId"]}"') == 2, "a bar and a row"
    assert "Completed 3 of 4 Failed 1 Median time 40 min" in main_text(page)


@pytest.mark.parametrize(
    ("path", "part", "holds"),
    [
        ("/runs", "list", "runs"),
        ("/runs/{}", "ask", "ask"),
        ("/runs/{}", "standing", "standing"),
        ("/audit", "list", "entries"),
    ],
)
async def test_page_url_with_part_parameter_returns_only_the_named_section(
    browser: Browser, agent: AgentClient, path: str, part: str, holds: str
) -> None:
    run = await make_worked_run(agent)
    page = await browser.get(path.format(run["runId"]), params={"part": part})
    assert page.text.strip().startswith(f'<section id="{holds}" data-live=')
    assert page.text.strip().endswith("</section>")
    assert "<html" not in page.text
    full_page = await browser.get(path.format(run["runId"]))
    assert len(page.text) < len(full_page.text)


# Tests of large workflows.


STAGES = 10
STEPS_PER_STAGE = 500
MAX_NODES = 3_000


def make_long_stage(number: int) -> Body:
    """Return the definition of a stage whose steps form a chain."""
    keys = [f"s{number}_{n:03}" for n in range(STEPS_PER_STAGE)]
    kind = {"jobType": "EXECUTE", "granularityStrategy": "all_to_one"}
    steps = [{"stepKey": key, **kind, "name": f"Part {key}"} for key in keys]
    return make_stage(f"stage-{number}", *steps, edges=list(pairwise(keys)))


def count_boxes(page: httpx2.Response) -> int:
    return len(re.findall(r'class="step"', page.text))


async def test_map_of_a_large_run_is_drawn_around_the_step_looked_for(
    browser: Browser, agent: AgentClient
) -> None:
    await agent.call("add_dag", definition=make_definition("long", make_long_stage(1)))
    run = await agent.run("long", "a", name="A long run")
    address = f"/runs/{run['runId']}?view=map"
    assert "s1_450" not in (await browser.get(address)).text
    assert 'data-centre="s1_450"' in (await browser.get(f"{address}&find=PART+s1_450")).text
    missed = await browser.get(f"{address}&find=nothing")
    assert "No step has this name." in main_text(missed)


async def test_page_of_workflow_with_5000_steps_draws_stages_only(
    browser: Browser, agent: AgentClient
) -> None:
    stages = [make_long_stage(number) for number in range(STAGES)]
    await agent.call("add_dag", definition=make_definition("long", *stages))
    page = await browser.get("/dags/long")
    assert page.status_code == 200
    assert count_boxes(page) == STAGES
    assert "too many steps to draw at once" in main_text(page)
    assert len(re.findall(r"<(?!/)", page.text)) <= MAX_NODES
    assert "Part s3_000" not in page.text
    stage = await browser.get("/dags/long?stage=stage-3")
    assert count_boxes(stage) <= STEPS_PER_STAGE
    assert re.findall(r"<summary><b>(Part \w+)", stage.text) == [
        f"Part s3_{n:03}" for n in range(100)
    ]
    last = await browser.get("/dags/long?stage=stage-3&page=9")
    assert re.findall(r"<summary><b>(Part \w+)", last.text)[-1] == "Part s3_499"
    assert 'rel="next"' not in last.text


@pytest.mark.parametrize(
    ("query", "status"), [("?stage=none", 404), ("?stage=one&page=x", 400), ("?stage=one", 200)]
)
async def test_workflow_page_refuses_invalid_stage_or_page_parameter(
    browser: Browser, agent: AgentClient, query: str, status: int
) -> None:
    await agent.call(
        "add_dag", definition=make_definition("small", make_stage("one", make_recipe_step("a")))
    )
    assert (await browser.get(f"/dags/small{query}")).status_code == status


# Tests of the form that starts a run.


PATH = "/runs/new?dag=deep-research"
FORM = {"name": "Rivers of Asia", "models": "opus\ngpt\n", "input:question": "Which is longest?"}


async def finish_runs(world: OrgEnv, count: int) -> None:
    """Complete `count` runs of `deep-research`, each of which takes longer than the one before."""
    agent = world.agent
    usage = {"inputTokens": 10, "outputTokens": 1, "costUsd": 0.5, "model": "a"}
    first, *_, last = stages = builtin_dags()["deep-research"].order
    assert first != last
    for number in range(1, count + 1):
        run = await agent.run()
        for stage in stages:
            while (job := await agent.call("get_next_job", runId=run["runId"]))[
                "status"
            ] == "job_ready":
                await agent.submit_documents(job, usage=usage)
            world.clock.advance(minutes=10 * number)
            if stage != last:
                await agent.feedback(run, stage)


def hidden_fields(page: str) -> dict[str, str]:
    match = re.search(r'name="key" value="([^"]+)"', page)
    assert match, page
    return {"key": match[1]}


async def test_workflow_page_links_to_the_start_run_form(browser: Browser) -> None:
    page = (await browser.get("/dags/deep-research")).text
    assert f'href="{PATH}"' in page
    form = await browser.get(PATH)
    assert form.status_code == 200
    assert "A run takes at most 20 models" in visible_text(form.text)
    assert 'name="input:question"' in form.text


async def test_start_run_page_without_a_workflow_lists_the_workflows(browser: Browser) -> None:
    assert f'href="{PATH}"' in (await browser.get("/runs/new")).text
    assert (await browser.get("/runs/new?dag=nothing")).status_code == 404


async def test_start_run_form_sent_twice_starts_the_run_once(
    browser: Browser, agent: AgentClient
) -> None:
    confirmation = await send(browser, PATH, **FORM)
    fields = {**FORM, "step": "start", **hidden_fields(confirmation.text)}
    first = await send(browser, PATH, **fields)
    assert first.status_code == 303
    again = await send(browser, PATH, **fields)
    assert again.headers["location"] == first.headers["location"]
    run_id = first.headers["location"].rpartition("/")[2]
    job = await agent.job({"runId": run_id})
    assert job["modelId"] in {"opus", "gpt"}
    page = await browser.get(first.headers["location"])
    assert "Rivers of Asia" in page.text
    assert "Which is longest?" in page.text


async def test_forecast_of_new_run_is_the_median_of_earlier_runs(
    browser: Browser, world: OrgEnv
) -> None:
    await finish_runs(world, 2)
    form = {**FORM, "models": "a\nb"}
    text = visible_text((await send(browser, PATH, **form)).text)
    assert "only 2 of the 3 earlier runs of this workflow that a forecast needs" in text
    world.database.is_simulated = True
    await finish_runs(world, 1)
    world.database.is_simulated = False
    assert "only 2 of the 3 earlier" in visible_text((await send(browser, PATH, **form)).text)
    await finish_runs(world, 1)
    text = visible_text((await send(browser, PATH, **form)).text)
    assert "from 3 earlier runs of this workflow" in text
    jobs = re.search(r"All stages (\d+)", text)
    assert jobs
    # The earlier runs took 20, 40 and 20 minutes, and each of their jobs cost half a dollar.
    assert "20 min (20 to 40)" in text
    assert f", ${int(jobs[1]) / 2:.0f}" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": " "}, "Enter a name for the run."),
        ({"models": "\n"}, "Choose or enter at least one model."),
        ({"models": "\n".join(f"m{n}" for n in range(MAX_MODELS + 1))}, "a run takes at most 20"),
        ({"input:question": ""}, "Enter the input"),
    ],
)
async def test_invalid_start_run_form_is_refused_and_keeps_the_input(
    browser: Browser, changes: dict[str, str], message: str
) -> None:
    typed = {**FORM, "name": "Rivers <of> Asia", **changes}
    reply = await send(browser, PATH, **typed)
    assert reply.status_code == 400
    assert message in visible_text(reply.text)
    for text in typed.values():
        assert text.strip() in unescape(reply.text)
    assert "No runs yet" in (await browser.get("/runs")).text


async def test_start_run_form_keeps_input_when_the_run_is_refused(browser: Browser) -> None:
    reply = await send(browser, PATH, **{**FORM, "name": "x" * 201, "step": "start", "key": "k"})
    assert reply.status_code == 413
    assert "name" in visible_text(reply.text)
    assert "x" * 201 in reply.text
    assert "Which is longest?" in reply.text


async def test_edit_button_on_confirmation_returns_to_form_with_input(browser: Browser) -> None:
    reply = await send(browser, PATH, **FORM, step="edit")
    assert reply.status_code == 200
    assert "Continue</button>" in reply.text
    assert "opus\ngpt</textarea>" in reply.text


async def test_start_run_form_suggests_the_models_of_earlier_runs(
    browser: Browser, agent: AgentClient
) -> None:
    await agent.run(models=["opus", "gemini"])
    page = (await browser.get(PATH)).text
    assert re.findall(r'name="model" value="(\w+)"', page) == ["gemini", "opus"]
    reply = await send(browser, PATH, **{**FORM, "models": "gpt", "model": "opus"})
    assert "Models opus, gpt" in visible_text(reply.text)


async def test_run_started_by_form_stores_each_input_by_name(browser: Browser) -> None:
    inputs = {"input:seed_prompt": "Seed.", "input:initial_user_prompt": "Prompt."}
    fields = {"name": "Towers", "models": "a", **inputs, "step": "start", "key": "k"}
    started = await send(browser, "/runs/new?dag=dialectic", **fields)
    assert started.status_code == 303, started.text
    page = unescape((await browser.get(started.headers["location"])).text)
    assert '"seed_prompt": "Seed."' in page
    assert '"initial_user_prompt": "Prompt."' in page


async def test_run_page_shows_the_forecast_of_an_open_run(browser: Browser, world: OrgEnv) -> None:
    run = await world.agent.run()
    path = f"/runs/{run['runId']}"
    page = visible_text((await browser.get(path)).text)
    assert "Too early for a forecast: none of the 3 earlier runs of this workflow" in page
    await finish_runs(world, 3)
    page = visible_text((await browser.get(path)).text)
    assert re.search(r"About \d+ min .* left from 3 earlier runs of this workflow", page), page


async def test_run_forecast_follows_the_cost_of_finished_jobs(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    await finish_runs(world, 3)
    run = await agent.run(models="abcdef")

    async def cost_left(pattern: str) -> list[float]:
        text = visible_text((await browser.get(f"/runs/{run['runId']}")).text)
        match = re.search(f", {pattern} left from 3 earlier runs", text)
        assert match, text
        return [float(number.replace(",", "")) for number in match.groups()]

    # A job cost half a dollar in the earlier runs, and costs fifty dollars in this one.
    (expected,) = await cost_left(r"\$([\d.,]+)")
    for number in range(6):
        if number == 1:
            await agent.feedback(run, "scope")
        job = await agent.job(run)
        await agent.submit_documents(job, usage={"inputTokens": 1, "costUsd": 50, "model": "a"})
    middle, low, high = await cost_left(r"\$([\d,]+) \(\$([\d,]+) to \$([\d,]+)\)")
    assert 4 * expected < middle
    assert low <= middle < high
