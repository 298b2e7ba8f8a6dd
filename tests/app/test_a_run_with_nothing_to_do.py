"""A run in which every step is skipped completes as soon as it is started."""

from decision_proofs import decision
from org_env import AgentClient

SKIPPED = {
    "stepKey": "look",
    "jobType": "EXECUTE",
    "granularityStrategy": "per_model",
    "skip": True,
}
DAG = {"slug": "idle", "name": "Idle", "stages": [{"slug": "only", "recipe": {"steps": [SKIPPED]}}]}


@decision("B1")
async def test_run_with_only_skipped_steps_completes_immediately(agent: AgentClient) -> None:
    await agent.call("add_dag", definition=DAG)
    named = {"dagSlug": "idle", "name": "Rivers", "input": "Which river is longest?"}
    run = await agent.call("start_run", **named, models=["alpha"])
    reply = await agent.call("get_next_job", runId=run["runId"])
    assert reply["status"] == "run_complete"
    assert (await agent.call("list_dags"))["openRuns"] == []
