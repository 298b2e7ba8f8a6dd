"""Stored texts in replies: their authors and times are in separate fields."""

from org_env import AgentClient, OrgEnv

NOON = "2030-01-01T12:00:00+00:00"


async def test_get_next_step_names_the_author_of_the_plan(world: OrgEnv) -> None:
    plan = await world.agent.plan()
    world.clock.advance(minutes=5)
    taken = await world.agent.acting_as("bob").elsewhere().take(plan)
    assert taken["createdBy"] == "ann"
    context = await world.agent.call("get_step_context", stepId=taken["stepId"])
    assert (context["createdBy"], context["createdAt"]) == ("ann", NOON)


async def test_list_active_plans_and_plan_status_return_plan_author(world: OrgEnv) -> None:
    plan = await world.agent.plan()
    bob = world.agent.acting_as("bob")
    (listed,) = (await bob.call("list_active_plans"))["plans"]
    for reply in (listed, await bob.status(plan)):
        assert (reply["createdBy"], reply["createdAt"]) == ("ann", NOON)


async def test_completed_by_field_names_the_user_that_submitted_the_result(world: OrgEnv) -> None:
    ann, bob = world.agent, world.agent.acting_as("bob")
    plan = await ann.plan(3)
    taken = await ann.take(plan)
    world.clock.advance(minutes=1)
    await bob.submit(taken)
    await bob.call("submit_step_result", stepId=plan["stepIds"][1], resultSummary="x")
    last = await ann.take(plan)
    context = await ann.call("get_step_context", stepId=last["stepId"])
    assert [result["completedBy"] for result in context["earlierResults"]] == ["bob", "bob"]
    research = await ann.call("get_research_context", planId=plan["planId"])
    step_users = [(s.get("completedBy"), s.get("heldBy")) for s in research["steps"]]
    assert step_users == [("bob", None), ("bob", None), (None, "ann")]
    done = (await ann.status(plan))["completedSteps"]
    assert [(result["completedBy"], result["completedAt"]) for result in done] == [
        ("bob", "2030-01-01T12:01:00+00:00")
    ] * 2


async def test_approved_step_is_shown_as_completed_by_the_review_requester(world: OrgEnv) -> None:
    ann, bob = world.agent, world.agent.acting_as("bob")
    plan = await ann.plan(2)
    taken = await ann.take(plan)
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    args = {**held, "summary": "Right?", "resultSummary": "It is."}
    await bob.call("request_user_review", **args)
    pat = world.agent.acting_as("pat")
    await pat.call("submit_user_decision", planId=plan["planId"], decision="approve")
    (done,) = (await ann.status(plan))["completedSteps"]
    assert (done["resultSummary"], done["completedBy"]) == ("It is.", "bob")


async def test_step_formatting_notes_contain_user_that_completed_the_step(world: OrgEnv) -> None:
    ann, bob = world.agent, world.agent.acting_as("bob")
    plan = await ann.plan(1)
    await bob.submit(await bob.take(plan), outputFormattingNotes="In bold.")
    (notes,) = (await ann.call("get_next_step", planId=plan["planId"]))["stepFormattingNotes"]
    assert notes["completedBy"] == "bob"


async def test_get_next_job_returns_author_and_time_of_each_input(world: OrgEnv) -> None:
    ann, bob, pat = (world.agent.acting_as(name) for name in ("ann", "bob", "pat"))
    run = await ann.run()
    await bob.work_off(run)
    world.clock.advance(minutes=2)
    await pat.feedback(run, "scope", "Look at lakes alone.")
    job = await ann.job(run)
    authors = {
        job_input["documentKey"]: (job_input["createdBy"], job_input["createdAt"])
        for job_input in job["inputs"]
    }
    assert authors["feedback"] == ("pat", "2030-01-01T12:02:00+00:00")
    assert authors["research_brief"] == ("bob", NOON)
    brief = next(job_input for job_input in job["inputs"] if "documentId" in job_input)
    piece = await read(ann, job["jobId"], brief["documentId"])
    assert piece == ("bob", NOON)


async def read(agent: AgentClient, job_id: str, document_id: str) -> tuple[object, object]:
    reply = await agent.call("get_job_input", jobId=job_id, documentId=document_id)
    return reply["createdBy"], reply["createdAt"]
