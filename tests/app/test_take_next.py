"""Calls with `takeNext`, which complete a step or job and claim the next in one transaction."""

import psycopg

from org_env import AgentClient, FakeClock, OrgEnv, branch_condition, make_step
from waybook.core.decision_context import Channel, ReviewPolicy


async def test_submit_with_take_next_returns_the_next_step(agent: AgentClient) -> None:
    plan = await agent.plan(2)
    first = await agent.take(plan, sessionId="a")
    reply = await agent.submit(first, takeNext=True, sessionId="a")
    assert reply["status"] == "step_ready"
    assert reply["stepId"] == plan["stepIds"][1]
    assert reply["submitted"] == {
        "stepStatus": "completed",
        "progress": {"percent": 50, "done": 1, "total": 2},
    }
    again = await agent.take(plan, sessionId="a")
    assert {name: again[name] for name in again if name != "resumed"} == {
        name: reply[name] for name in reply if name not in {"submitted", "planStatus"}
    }


async def test_submitting_last_step_with_take_next_completes_the_plan(agent: AgentClient) -> None:
    plan = await agent.plan(1, outputFormattingNotes="As a table.")
    taken = await agent.take(plan)
    reply = await agent.submit(taken, takeNext=True, outputFormattingNotes="In bold.")
    assert (reply["status"], reply["planStatus"]) == ("plan_complete", "completed")
    assert [note["notes"] for note in reply["stepFormattingNotes"]] == ["In bold."]


async def test_repeated_submit_with_take_next_claims_only_one_step(agent: AgentClient) -> None:
    plan = await agent.plan(3)
    first = await agent.take(plan)
    replies = [await agent.submit(first, takeNext=True, idempotencyKey="k") for _ in range(2)]
    assert replies[1] == {**replies[0], "replayed": True}
    status = await agent.status(plan)
    assert [step["stepOrder"] for step in status["activeSteps"]] == [2]


async def test_submit_with_take_next_returns_a_step_added_by_condition(agent: AgentClient) -> None:
    condition = branch_condition(1, "true", "add_steps", steps=[make_step("Added.")])
    plan = await agent.plan(2, branchingConditions=[condition])
    reply = await agent.submit(await agent.take(plan), takeNext=True)
    assert (reply["instructions"], reply["stepOrder"]) == ("Added.", 2)


async def test_process_without_the_plan_in_cache_copies_the_repeated_steps(
    agent: AgentClient,
) -> None:
    condition = branch_condition(2, "result == 'again'", "repeat", fromStepOrder=1, max=2)
    plan = await agent.plan(3, branchingConditions=[condition])
    await agent.submit(await agent.take(plan))
    second = await agent.take(plan)
    far = agent.elsewhere()
    reply = await far.submit(second, "again", takeNext=True)
    assert (reply["instructions"], reply["stepOrder"]) == ("Look up 1.", 3)
    last = await far.submit(reply, takeNext=True)
    assert (last["instructions"], last["stepOrder"]) == ("Look up 2.", 4)


async def test_checkpoint_steps_require_approval_if_review_policy_is_human(world: OrgEnv) -> None:
    agent, person = world.agent, world.agent.acting_as("pat", Channel.DASHBOARD)
    plan = await agent.plan([make_step(stepType="checkpoint"), make_step()])
    taken = await agent.take(plan)
    assert taken["next"]["tool"] == "request_user_review"
    await world.set_policy(ReviewPolicy.HUMAN)
    held = {"stepId": taken["stepId"], "attempt": 1, "resultSummary": "fine"}
    error = await agent.refused("submit_step_result", **held)
    assert (error["code"], error["next"]["tool"]) == ("INVALID_TRANSITION", "request_user_review")
    review = await agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    assert review["next"]["tool"] == "get_next_step"
    reply = await person.call("submit_user_decision", planId=plan["planId"], decision="approve")
    assert reply["stepStatus"] == "completed"


async def test_reply_to_a_takeover_lists_artifacts_of_the_former_holder(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan, sessionId="dead")
    named = {"planId": plan["planId"], "stepId": taken["stepId"], "title": "Notes", "kind": "note"}
    stored = await agent.call("store_research", **named, content="Half done.")
    clock.advance(minutes=31)
    bob = agent.acting_as("bob")
    reply = await bob.take(plan, sessionId="alive")
    assert reply["attempt"] == 2
    assert reply["takenOver"]["heldBy"] == "ann"
    assert reply["takenOver"]["sessionId"] == "dead"
    (left,) = reply["takenOver"]["leftBehind"]
    assert (left["artifactId"], left["title"]) == (stored["artifactId"], "Notes")
    assert reply["next"]["tool"] == "get_step_context"
    late = {"stepId": taken["stepId"], "attempt": 1, "resultSummary": "late"}
    error = await agent.refused("submit_step_result", **late)
    assert error["code"] == "STALE_ATTEMPT"


async def test_heartbeat_in_another_process_prevents_takeover_of_a_step(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan, sessionId="a")
    clock.advance(minutes=20)
    await agent.elsewhere().call("get_step_context", stepId=taken["stepId"])
    clock.advance(minutes=20)
    reply = await agent.call("get_next_step", planId=plan["planId"], sessionId="b")
    assert reply["status"] == "no_pending_steps"


async def test_submit_with_take_next_returns_the_next_job(agent: AgentClient) -> None:
    run = await agent.run("dialectic", "a")
    first = await agent.job(run, sessionId="a")
    reply = await agent.submit_documents(first, takeNext=True, sessionId="a")
    assert (reply["status"], reply["jobStatus"]) == ("job_ready", "completed")
    assert reply["jobId"] != first["jobId"]
    assert reply["modelId"] == first["modelId"]
    assert reply["submitted"]["jobId"] == first["jobId"]
    again = await agent.job(run, sessionId="a")
    assert (again["jobId"], again["resumed"]) == (reply["jobId"], True)


async def test_submitting_null_with_take_next_stores_no_result(world: OrgEnv) -> None:
    plan = await world.agent.plan(2)
    first, second = plan["stepIds"]
    reply = await world.agent.submit(await world.agent.take(plan), None, takeNext=True)
    assert reply["stepId"] == second
    with psycopg.connect(world.place.admin_dsn) as admin:
        rows = admin.execute("select step_id from step_result where step_id = %s", [first])
        assert rows.fetchall() == []


async def test_submit_writes_nothing_if_the_cached_plan_is_outdated(world: OrgEnv) -> None:
    plan = await world.agent.plan(2)
    taken = await world.agent.take(plan)
    steps = plan["stepIds"]
    with psycopg.connect(world.place.admin_dsn, autocommit=True) as admin:
        change = "update plan_step set status = %s, fail_reason = %s where id = %s"
        admin.execute(change, ["failed", "changed by hand", steps[1]])
        held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
        await world.agent.refused("submit_step_result", **held, resultSummary="a", takeNext=True)
        query = "select status from plan_step where id = any(%s) order by step_order"
        assert admin.execute(query, [steps]).fetchall() == [("in_progress",), ("failed",)]
        admin.execute(change, ["pending", None, steps[1]])
