"""A run in which every step is skipped: complete as soon as it is started."""

from decisions import decision
from worlds import Agent

SKIPPED = {
    "stepKey": "look",
    "jobType": "EXECUTE",
    "granularityStrategy": "per_model",
    "skip": True,
}
DAG = {"slug": "idle", "name": "Idle", "stages": [{"slug": "only", "recipe": {"steps": [SKIPPED]}}]}


@decision("B1")
async def test_it_is_complete_at_once_and_stored_so(agent: Agent) -> None:
    await agent.call("add_dag", definition=DAG)
    named = {"dagSlug": "idle", "name": "Rivers", "input": "Which river is longest?"}
    run = await agent.call("start_run", **named, models=["alpha"])
    asked = await agent.call("get_next_job", runId=run["runId"])
    assert asked["status"] == "run_complete"
    assert (await agent.call("list_dags"))["openRuns"] == []
