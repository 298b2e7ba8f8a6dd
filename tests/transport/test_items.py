"""Workflows whose steps have one job per item, over MCP: thirty contracts and one summary."""

import asyncio
from collections import Counter
from typing import cast

from mcp import Client

from org_env import AgentClient, Body, FakeClock
from sample_definitions import make_definition, make_recipe_step, make_stage
from transport.full_app import free_port

MODELS = ["alpha", "beta"]
CONTRACTS = [*(f"Contract {n}: deliver {n} boats." for n in range(1, 30)), {"file": "30.pdf"}]


def contracts() -> Body:
    """Return a workflow: every model reads every contract, and one job sums up."""
    read = make_recipe_step(
        "reading",
        "per_item_and_model",
        inputsRequired=[{"documentKey": "contracts"}],
        maxItems=40,
        prompt="Read contract {{ item.number }} of {{ item.count }}: {{ item.text }}",
    )
    summary = make_recipe_step("summary", "all_to_one", inputsRequired=[{"documentKey": "reading"}])
    return make_definition(
        "contracts", make_stage("only", read, summary, edges=[("reading", "summary")])
    )


async def called(client: Client, tool: str, **arguments: object) -> Body:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return cast("Body", result.structured_content)


async def expected(client: Client, **which: object) -> Body:
    (stage,) = (await called(client, "get_dag_map", **which))["stages"]
    return cast("Body", stage["expected"])


async def start(client: Client, run_input: object = None) -> str:
    await called(client, "add_dag", definition=contracts())
    contract_list = {"contracts": CONTRACTS} if run_input is None else run_input
    named = {"dagSlug": "contracts", "name": "Boats", "input": contract_list, "models": MODELS}
    return str((await called(client, "start_run", **named))["runId"])


class Worker:
    """An agent with its own connection. It works for one model until no job is ready."""

    def __init__(self, address: str, run_id: str, model: str, *, dies_after: int = 100) -> None:
        self.address = address
        self.asks = {"runId": run_id, "modelId": model, "sessionId": f"worker of {model}"}
        self.dies_after = dies_after
        self.done: list[Body] = []

    async def work(self) -> Body:
        async with Client(f"{self.address}/mcp") as client:
            while (job := await called(client, "get_next_job", **self.asks))["status"] == (
                "job_ready"
            ):
                if len(self.done) == self.dies_after:
                    return job
                self.done.append(job)
                held = {"jobId": job["jobId"], "attempt": job["attempt"]}
                text = job["inputs"][0]["content"] if job["stepKey"] == "reading" else "All boats."
                documents = [{"content": f"About {text}"}]
                await called(client, "submit_job_result", **held, documents=documents)
        return job


async def test_thirty_contracts_are_read_by_each_model_and_summed_up_once(
    agent: AgentClient, clock: FakeClock
) -> None:
    async with free_port(agent) as address, Client(f"{address}/mcp") as client:
        await called(client, "add_dag", definition=contracts())
        before = await expected(client, dagSlug="contracts", models=MODELS)
        assert before["steps"] == {"reading": None, "summary": 1}
        assert before["atMost"] == {"reading": 80}
        run_id = await start(client)
        assert (await expected(client, runId=run_id))["steps"] == {"reading": 60, "summary": 1}
        workers = [Worker(address, run_id, "alpha", dies_after=7), Worker(address, run_id, "beta")]
        lost, waiting = await asyncio.gather(*(worker.work() for worker in workers))
        assert (lost["status"], waiting["status"]) == ("job_ready", "nothing_ready")
        item = lost["inputs"][0]
        assert item["itemCount"] == 30
        assert lost["prompt"] == f"Read contract {item['item']} of 30: {item['content']}"
        report = await called(client, "get_run_progress", runId=run_id)
        assert report["stages"][0]["progress"]["completedSteps"] == 0
        clock.advance(minutes=16)
        heir = Worker(address, run_id, "alpha")
        heir.asks["sessionId"] = "heir"
        assert (await heir.work())["status"] == "run_complete"
        late = {"jobId": lost["jobId"], "attempt": lost["attempt"]}
        refused = await client.call_tool(
            "submit_job_result", {**late, "documents": [{"content": "Late."}]}
        )
        assert refused.is_error
        assert "STALE_ATTEMPT" in refused.model_dump_json()
        report = await called(client, "get_run_progress", runId=run_id)
    again = next(job for job in heir.done if job["jobId"] == lost["jobId"])
    assert (again["attempt"], again["inputs"]) == (lost["attempt"] + 1, lost["inputs"])
    done = [job for worker in (*workers, heir) for job in worker.done]
    readings = [job for job in done if job["stepKey"] == "reading"]
    pairs = Counter((job["inputs"][0]["item"], job["modelId"]) for job in readings)
    assert pairs == {(item, model): 1 for item in range(1, 31) for model in MODELS}
    texts = {job["inputs"][0]["item"]: job["inputs"][0]["content"] for job in readings}
    assert [texts[item] for item in range(1, 30)] == CONTRACTS[:29]
    assert texts[30] == '{\n "file": "30.pdf"\n}'
    (summary,) = [job for job in done if job["stepKey"] == "summary"]
    cut = summary["cut"]["inputs"]["left"] if "cut" in summary else 0
    assert len(summary["inputs"]) + cut == 60
    assert report["stages"][0]["progress"]["completedSteps"] == 2
