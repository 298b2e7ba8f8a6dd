"""Workflow with a job for each item of a list: agents read and summarize thirty contracts."""

import asyncio
from collections import Counter

from org_env import AgentClient, Body, FakeClock
from sample_definitions import make_definition, make_recipe_step, make_stage

MODELS = ["alpha", "beta"]
CONTRACTS = [*(f"Contract {n}: deliver {n} boats." for n in range(1, 30)), {"file": "30.pdf"}]


async def add_contracts(agent: AgentClient) -> None:
    """Add a workflow in which each model reads each contract, and one job writes a summary."""
    read = make_recipe_step(
        "reading",
        "per_item_and_model",
        inputsRequired=[{"documentKey": "contracts"}],
        maxItems=40,
        prompt="Read contract {{ item.number }} of {{ item.count }}: {{ item.text }}",
    )
    summary = make_recipe_step("summary", "all_to_one", inputsRequired=[{"documentKey": "reading"}])
    stage = make_stage("only", read, summary, edges=[("reading", "summary")])
    await agent.call("add_dag", definition=make_definition("contracts", stage))


async def expected(agent: AgentClient, **which: object) -> Body:
    (stage,) = (await agent.call("get_dag_map", **which))["stages"]
    counts: Body = stage["expected"]
    return counts


async def work(
    agent: AgentClient, run: Body, session: str, done: list[Body], most: int = 100
) -> Body:
    """Complete up to `most` jobs of the model that `session` names; return the last reply."""
    model = session.partition(" ")[0]
    asked = {"runId": run["runId"], "modelId": model, "sessionId": session}
    while (job := await agent.call("get_next_job", **asked))["status"] == "job_ready":
        if most == 0:
            return job
        most -= 1
        done.append(job)
        text = job["inputs"][0]["content"] if job["stepKey"] == "reading" else "All boats."
        await agent.submit_documents(job, f"About {text}")
    return job


async def test_thirty_contracts_are_read_by_each_model_and_summarized_once(
    agent: AgentClient, clock: FakeClock
) -> None:
    await add_contracts(agent)
    before = await expected(agent, dagSlug="contracts", models=MODELS)
    assert before["steps"] == {"reading": None, "summary": 1}
    assert before["atMost"] == {"reading": 80}
    run = await agent.run("contracts", MODELS, name="Boats", input={"contracts": CONTRACTS})
    counts = await expected(agent, runId=run["runId"])
    assert counts["steps"] == {"reading": 60, "summary": 1}
    done: list[Body] = []
    lost, waiting = await asyncio.gather(
        work(agent, run, "alpha lost", done, most=7), work(agent, run, "beta", done)
    )
    assert (lost["status"], waiting["status"]) == ("job_ready", "nothing_ready")
    item = lost["inputs"][0]
    assert item["itemCount"] == 30
    assert lost["prompt"] == f"Read contract {item['item']} of 30: {item['content']}"
    assert (await agent.progress(run))["stages"][0]["progress"]["completedSteps"] == 0
    clock.advance(minutes=16)
    assert (await work(agent, run, "alpha heir", done))["status"] == "run_complete"
    late = {"jobId": lost["jobId"], "attempt": lost["attempt"]}
    refused = await agent.refused("submit_job_result", **late, documents=[{"content": "Late."}])
    assert refused["code"] == "STALE_ATTEMPT"
    again = next(job for job in done if job["jobId"] == lost["jobId"])
    assert (again["attempt"], again["inputs"]) == (lost["attempt"] + 1, lost["inputs"])
    readings = [job for job in done if job["stepKey"] == "reading"]
    pairs = Counter((job["inputs"][0]["item"], job["modelId"]) for job in readings)
    assert pairs == {(number, model): 1 for number in range(1, 31) for model in MODELS}
    texts = {job["inputs"][0]["item"]: job["inputs"][0]["content"] for job in readings}
    assert [texts[number] for number in range(1, 30)] == CONTRACTS[:29]
    assert texts[30] == '{\n "file": "30.pdf"\n}'
    (summary,) = [job for job in done if job["stepKey"] == "summary"]
    cut = summary["cut"]["inputs"]["left"] if "cut" in summary else 0
    assert len(summary["inputs"]) + cut == 60
    assert (await agent.progress(run))["stages"][0]["progress"]["completedSteps"] == 2
