"""Steps that a condition repeats, tested by tool calls."""

from org_env import AgentClient, Body, branch_condition, make_step

LOOP = branch_condition(
    2, "result.score < 5", "repeat", fromStepOrder=1, max=1, onExhausted="review", reason="weak"
)


async def make_loop(agent: AgentClient, **more: object) -> Body:
    """Create a plan with a draft, a critique and a report; the first two can be repeated once."""
    steps = [make_step("Draft."), make_step("Criticize.", dependsOn=[1]), make_step("Report.")]
    conditions = [{**LOOP, **more}]
    return await agent.plan(steps, sequential=True, branchingConditions=conditions)


async def submit_next(agent: AgentClient, step: Body, result: object) -> Body:
    return await agent.call(
        "submit_step_result",
        stepId=step["stepId"],
        attempt=step["attempt"],
        resultSummary=result,
        takeNext=True,
        sessionId="s",
    )


async def test_repeated_step_shows_earlier_results_and_reason_for_repetition(
    agent: AgentClient,
) -> None:
    plan = await make_loop(agent)
    critique = await submit_next(agent, await agent.take(plan, sessionId="s"), "draft 1")
    assert "round" not in critique
    draft = await submit_next(agent, critique, {"score": 3})
    again = draft["round"]
    assert (again["number"], again["of"], again["reason"]) == (2, 2, "weak")
    assert (again["condition"], again["values"]) == ("result.score < 5", {"result.score": 3})
    assert [step["resultSummary"] for step in again["latest"]] == ["draft 1", {"score": 3}]
    held = await agent.take(plan, sessionId="s")
    assert held["round"] == again
    second = await submit_next(agent, draft, "draft 2")
    assert [step["resultSummary"] for step in second["round"]["latest"]] == [
        "draft 2",
        {"score": 3},
    ]
    context = await agent.call("get_step_context", stepId=second["stepId"])
    assert context["round"]["values"] == {"result.score": 3}
    assert [step["resultSummary"] for step in context["earlierResults"]] == [
        "draft 2",
        {"score": 3},
    ]


async def test_claim_of_a_repeated_step_cuts_long_earlier_results(agent: AgentClient) -> None:
    plan = await make_loop(agent)
    critique = await submit_next(agent, await agent.take(plan, sessionId="s"), "d" * 50_000)
    draft = await submit_next(agent, critique, {"score": 3, "text": "c" * 20_000})
    for step in draft["round"]["latest"]:
        assert step["cut"]["get"]["tool"] == "get_step_context"
        assert len(step["resultSummary"]) <= 8_000
    held = await agent.take(plan, sessionId="s")
    rest = held["round"]["latest"][0]["cut"]["get"]
    piece = await agent.call(rest["tool"], **rest["args"])
    assert piece["content"].startswith("d")


async def test_step_after_the_last_repetition_asks_for_a_review(agent: AgentClient) -> None:
    plan = await make_loop(agent)
    step, before = await agent.take(plan, sessionId="s"), plan
    for result in ("draft 1", {"score": 3}, "draft 2", {"score": 4}):
        before = await agent.call("get_plan_status", planId=plan["planId"])
        step = await submit_next(agent, step, result)
    (loop,) = before["loops"]
    assert (loop["round"], loop["of"], loop["onExhausted"]) == (2, 2, "review")
    assert "exhausted" not in loop
    (branch,) = step["submitted"]["branches"]
    assert (branch["onExhausted"], branch["values"]) == ("review", {"result.score": 4})
    assert (step["stepType"], step["next"]["tool"]) == ("checkpoint", "request_user_review")
    assert "result.score < 5 is still true (result.score = 4)" in step["instructions"]
    status = await agent.call("get_plan_status", planId=plan["planId"])
    assert [loop["exhausted"] for loop in status["loops"]] == [True]
    assert status["totalSteps"] == 6
