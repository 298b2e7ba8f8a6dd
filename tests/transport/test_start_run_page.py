"""Page that starts a run: form, confirmation with jobs and forecast, and refusals."""

import re
from html import unescape

import httpx2
import pytest

from database_fixtures import ON_POSTGRES_18
from org_env import AgentClient, OrgEnv
from transport.page_client import send, visible_text
from waybook.app.request.definition_cache import builtin_dags
from waybook.run.model import MAX_MODELS

pytestmark = ON_POSTGRES_18

PATH = "/runs/new?dag=deep-research"
FORM = {"name": "Rivers of Asia", "models": "opus\ngpt\n", "input:question": "Which is longest?"}


async def finish_runs(world: OrgEnv, count: int) -> None:
    """Complete runs of the workflow, each with another duration."""
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


async def test_workflow_page_links_to_the_start_run_form(browser: httpx2.AsyncClient) -> None:
    page = (await browser.get("/dags/deep-research")).text
    assert f'href="{PATH}"' in page
    form = await browser.get(PATH)
    assert form.status_code == 200
    assert "A run takes at most 20 models" in visible_text(form.text)
    assert 'name="input:question"' in form.text


async def test_start_run_page_without_a_workflow_lists_the_workflows(
    browser: httpx2.AsyncClient,
) -> None:
    assert f'href="{PATH}"' in (await browser.get("/runs/new")).text
    assert (await browser.get("/runs/new?dag=nothing")).status_code == 404


async def test_start_run_form_sent_twice_starts_the_run_once(
    browser: httpx2.AsyncClient, agent: AgentClient
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


async def test_forecast_of_a_new_run_is_median_of_earlier_runs(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    await finish_runs(world, 3)
    text = visible_text((await send(browser, PATH, **{**FORM, "models": "a\nb"})).text)
    assert "median of the last 3 runs of this workflow, in proportion to the jobs" in text
    jobs = re.search(r"All stages (\d+)", text)
    assert jobs
    # The three earlier runs took 20, 40 and 60 minutes, and each of their jobs cost half a dollar.
    assert "40 min (5 to 95 %: 22 min to 58 min)" in text
    assert f", ${int(jobs[1]) / 2:.2f} median" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": " "}, "Enter a name for the run."),
        ({"models": "\n"}, "Choose or enter at least one model."),
        ({"models": "\n".join(f"m{n}" for n in range(MAX_MODELS + 1))}, "a run takes at most 20"),
        ({"input:question": ""}, "Enter the input"),
    ],
)
async def test_incomplete_form_to_start_a_run_is_refused_keeping_input(
    browser: httpx2.AsyncClient, changes: dict[str, str], message: str
) -> None:
    typed = {**FORM, "name": "Rivers <of> Asia", **changes}
    reply = await send(browser, PATH, **typed)
    assert reply.status_code == 400
    assert message in visible_text(reply.text)
    for text in typed.values():
        assert text.strip() in unescape(reply.text)
    assert "No runs yet" in (await browser.get("/runs")).text


async def test_start_run_form_keeps_input_when_the_run_is_refused(
    browser: httpx2.AsyncClient,
) -> None:
    reply = await send(browser, PATH, **{**FORM, "name": "x" * 201, "step": "start", "key": "k"})
    assert reply.status_code == 413
    assert "name" in visible_text(reply.text)
    assert "x" * 201 in reply.text
    assert "Which is longest?" in reply.text


async def test_edit_button_on_confirmation_returns_to_form_with_input(
    browser: httpx2.AsyncClient,
) -> None:
    reply = await send(browser, PATH, **FORM, step="edit")
    assert reply.status_code == 200
    assert "Continue</button>" in reply.text
    assert "opus\ngpt</textarea>" in reply.text


async def test_start_run_form_suggests_the_models_of_earlier_runs(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    await agent.run(models=["opus", "gemini"])
    page = (await browser.get(PATH)).text
    assert re.findall(r'name="model" value="(\w+)"', page) == ["gemini", "opus"]
    reply = await send(browser, PATH, **{**FORM, "models": "gpt", "model": "opus"})
    assert "Models opus, gpt" in visible_text(reply.text)


async def test_start_form_sends_each_input_under_the_right_key(browser: httpx2.AsyncClient) -> None:
    inputs = {"input:seed_prompt": "Seed.", "input:initial_user_prompt": "Prompt."}
    fields = {"name": "Towers", "models": "a", **inputs, "step": "start", "key": "k"}
    started = await send(browser, "/runs/new?dag=dialectic", **fields)
    assert started.status_code == 303, started.text
    page = unescape((await browser.get(started.headers["location"])).text)
    assert '"seed_prompt": "Seed."' in page
    assert '"initial_user_prompt": "Prompt."' in page


async def test_run_page_shows_the_forecast_of_an_open_run(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    await finish_runs(world, 3)
    run = await world.agent.run()
    page = visible_text((await browser.get(f"/runs/{run['runId']}")).text)
    assert re.search(r"About \d+ min .* left; median of the last 3 runs", page), page


async def test_forecast_without_earlier_runs_uses_pace_of_current_run(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    agent, run = world.agent, await world.agent.run(models="abcdef")
    usage = {"inputTokens": 1, "costUsd": 0.1, "model": "a"}
    done = 0
    for stage in ("scope", "gather"):
        while (job := await agent.call("get_next_job", runId=run["runId"]))[
            "status"
        ] == "job_ready":
            world.clock.advance(minutes=2)
            await agent.submit_documents(job, usage=usage)
            done += 1
            text = visible_text((await browser.get(f"/runs/{run['runId']}")).text)
            assert (f"left; {done} finished jobs of this run" in text) == (done >= 5), (done, text)
            if done == 6:
                # Every job took two minutes and cost ten cents, so the forecast has no range.
                assert re.search(r"About [\d hmin]+, \$\d+\.\d0 left; 6 finished", text), text
                return
        await agent.feedback(run, stage)
