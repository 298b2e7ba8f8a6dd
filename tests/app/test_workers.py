"""Workers give work back without using an attempt, and report what they do."""

import pytest

from org_env import AgentClient, Body, OrgEnv
from waybook.app.tools.work.workers import last_output

SOON = {"reason": "usage limit", "agent": "codex"}


async def workers_of(world: OrgEnv, agent: AgentClient | None = None) -> list[Body]:
    view = await world.dispatcher.read_view((agent or world.agent).caller, "workers", {})
    return view["workers"]  # type: ignore[return-value]  # a list of objects


async def test_returned_step_goes_to_another_agent_at_once(world: OrgEnv) -> None:
    ann, bob = world.agent, world.agent.elsewhere()
    plan = await ann.plan([{"stepType": "custom", "instructions": "Do.", "maxAttempts": 1}])
    resumes = (world.clock.now.replace(microsecond=0)).isoformat().replace("+00:00", "Z")
    for _ in range(3):
        taken = await ann.take(plan)
        reply = await ann.call(
            "give_back", stepId=taken["stepId"], attempt=taken["attempt"], reason="usage limit"
        )
        assert reply["attempt"] == taken["attempt"] + 1
        held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
        again = await ann.refused("give_back", **held, **SOON)
        assert again["code"] == "STALE_ATTEMPT"
    taken = await bob.take(plan)
    assert (await bob.submit(taken))["stepStatus"] == "completed"
    late = await ann.refused("give_back", stepId=taken["stepId"], resumesAt=resumes, **SOON)
    assert late["code"] in {"STALE_ATTEMPT", "PLAN_TERMINAL"}
    entries = await world.entries(ann.org_id, plan["planId"])
    assert sum("give_back" in str(entry.details) for entry in entries) == 3


async def test_returned_job_uses_no_attempt(world: OrgEnv) -> None:
    agent = world.agent
    run = await agent.run()
    for _ in range(6):
        job = await agent.job(run)
        held = {"jobId": job["jobId"], "attempt": job["attempt"]}
        reply = await agent.call("give_back", **held, reason="usage limit")
        assert (reply["runId"], reply["attempt"]) == (run["runId"], job["attempt"] + 1)
    again = await agent.job(run)
    failed = await agent.fail_job(again, retryable=True)
    assert failed["attemptsLeft"] == 3


async def test_plan_shows_when_a_sleeping_agent_resumes(world: OrgEnv) -> None:
    agent = world.agent
    plan = await agent.plan()
    taken = await agent.take(plan)
    world.clock.advance(minutes=1)
    resumes = world.clock.now.replace(microsecond=0)
    later = resumes.replace(year=resumes.year + 1).isoformat()
    await agent.call("give_back", stepId=taken["stepId"], resumesAt=later, **SOON)
    status = await agent.status(plan)
    assert status["workers"] == [
        {"agent": "codex", "state": "sleeping", "resumesAt": later, "reason": "usage limit"}
    ]


async def test_report_shows_masked_output_until_the_worker_ends(world: OrgEnv) -> None:
    agent = world.agent
    plan = await agent.plan()
    secret = "wb_" + "k3" * 20
    report = {"sessionId": "w 1", "agent": "codex", "planId": plan["planId"], "host": "box"}
    lines = [*map(str, range(30)), f"token {secret}\x1b[31m"]
    await agent.call("report_worker", **report, state="working", lines=lines)
    (shown,) = [w for w in await workers_of(world) if w["session"] == "w 1"]
    assert (shown["state"], shown["host"], shown["planId"]) == ("working", "box", plan["planId"])
    assert shown["lines"][:1] == ["11"]
    assert len(shown["lines"]) == 20
    assert secret not in str(shown)
    assert [w for w in await workers_of(world, world.other_org) if w["session"] == "w 1"] == []
    await agent.call("report_worker", **report, state="ended")
    assert [w for w in await workers_of(world) if w["session"] == "w 1"] == []


async def test_report_without_a_session_is_refused(world: OrgEnv) -> None:
    refused = await world.agent.refused("report_worker", agent="codex", state="working")
    assert "sessionId" in refused["message"]


@pytest.mark.parametrize("lines", [["x" * 20_000], ["é" * 3_000] * 20, ["\n" * 9]])
def test_output_is_cut_to_the_last_four_kilobytes(lines: list[str]) -> None:
    text = last_output(lines) or ""
    assert len(text.encode()) <= 4_096
    assert len(text.split("\n")) <= 20
