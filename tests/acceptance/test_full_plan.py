"""One complete plan: a branch, a stall, a review that rejects, and completion."""

import json

from org_env import AgentClient, FakeClock, OrgEnv, make_step
from waybook.core.decision_context import Channel


async def test_plan_completes_despite_a_stall_and_a_change_request(
    world: OrgEnv, agent: AgentClient, clock: FakeClock
) -> None:
    await agent.call("start_skill", name="survey", sessionId="monday")
    plan = await agent.call(
        "create_research_plan",
        name="Heat pumps",
        researchQuestion="Which heat pump suits a house of 1930?",
        steps=[
            make_step("Search the market."),
            {"stepType": "extract", "instructions": "Extract the prices."},
            {"stepType": "critique", "instructions": "Look for gaps."},
            {"stepType": "checkpoint", "instructions": "Show the table."},
            {"stepType": "synthesize", "instructions": "Write it up."},
        ],
        branchingConditions=[
            {
                "afterStepOrder": 1,
                "conditionExpression": "size(result.models) < 3",
                "ifTrueAction": "add_steps",
                "actionParams": {"steps": [make_step("Search abroad.")]},
            },
            {
                "afterStepOrder": 2,
                "conditionExpression": "confidence > 0.9",
                "ifTrueAction": "skip_to",
                "actionParams": {"targetStepOrder": 4},
            },
        ],
        sessionId="monday",
    )

    market = await agent.take(plan, sessionId="monday")
    result = await agent.submit(market, {"models": ["a", "b"]}, sessionId="monday")
    assert result["branches"][0]["action"] == "add_steps"
    assert result["progress"] == {"percent": 17, "done": 1, "total": 6}

    abroad = await agent.take(plan, sessionId="monday")
    assert abroad["instructions"] == "Search abroad."
    clock.advance(hours=14)
    bob = agent.acting_as("bob")
    (listed,) = (await bob.call("list_active_plans"))["plans"]
    context = await bob.call("get_research_context", planId=listed["planId"], sessionId="tuesday")
    assert [step["status"] for step in context["steps"]][:3] == [
        "completed",
        "in_progress",
        "pending",
    ]
    assert (await bob.status(plan))["status"] == "stalled"
    prices = await bob.take(plan, sessionId="tuesday")
    reclaimed = [{"action": "retry_step", "stepId": abroad["stepId"]}]
    await bob.call("modify_plan", planId=plan["planId"], modifications=reclaimed)

    skipped = await bob.submit(prices, {"prices": [1, 2]}, confidence=0.95, sessionId="tuesday")
    assert [branch["action"] for branch in skipped["branches"]] == ["skip_to"]

    abroad_again = await bob.take(plan, sessionId="tuesday")
    assert (abroad_again["stepId"], abroad_again["attempt"]) == (abroad["stepId"], 2)
    late = {"stepId": abroad["stepId"], "attempt": 1, "resultSummary": "from monday"}
    assert (await agent.refused("submit_step_result", **late))["code"] == "STALE_ATTEMPT"
    await bob.submit(abroad_again, {"models": ["c"]}, sessionId="tuesday")

    table = await bob.take(plan, sessionId="tuesday")
    assert table["stepType"] == "checkpoint"
    shown = {"stepId": table["stepId"], "summary": "Three models.", "resultSummary": {"n": 3}}
    await bob.call("request_user_review", **shown, sessionId="tuesday")
    pat = agent.acting_as("pat", Channel.DASHBOARD)
    args = {"planId": plan["planId"], "decision": "modify", "feedback": "Add the noise."}
    await pat.call("submit_user_decision", **args)

    again = await bob.take(plan)
    assert (again["stepId"], again["attempt"]) == (table["stepId"], 2)
    assert again["instructions"].endswith("User feedback: Add the noise.")
    await bob.call("request_user_review", **{**shown, "resultSummary": {"n": 3, "noise": 40}})
    approved = await pat.call("submit_user_decision", planId=plan["planId"], decision="approve")
    assert approved["stepStatus"] == "completed"

    last = await bob.take(plan)
    ended = await bob.submit(last, "Take b.", outputFormattingNotes="One page.")
    assert (ended["planStatus"], ended["progress"]["percent"]) == ("completed", 100)
    done = await bob.call("get_next_step", planId=plan["planId"])
    assert (done["status"], done["outputMediaType"]) == ("plan_complete", "text/markdown")
    assert [note["notes"] for note in done["stepFormattingNotes"]] == ["One page."]
    error = await bob.refused("get_next_step", planId=plan["planId"] + "x")
    assert error["code"] == "NOT_FOUND"

    entries = await world.entries(agent.org_id, plan["planId"])
    events = [(e.event, json.loads(e.details).get("action")) for e in entries]
    assert events.count(("session_resumed", None)) == 1
    assert [action for event, action in events if event == "user_reviewed"] == [
        "review_requested",
        "decision",
        "review_requested",
        "decision",
    ]
    assert {"stall_detected", "resumed", "late_result_kept"} <= {action for _, action in events}
