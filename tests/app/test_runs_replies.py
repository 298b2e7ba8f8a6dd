"""Replies about jobs: complete prompts, and inputs in pages that every MCP client accepts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import AgentClient, Body
from report_invariants import check
from run_documents import render_all
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.request.caller import MAX_REPLY_BYTES
from waybook.research.packet import escaped_size, truncate

MAX_TOKENS = 48_000

#: Long model names, of characters that take three bytes each.
LONG = [f"模型{'名' * 140}{n}" for n in range(12)]


def size(body: Body) -> int:
    return len(json.dumps(body, ensure_ascii=False).encode())


async def small(agent: AgentClient, tool: str, **arguments: object) -> Body:
    """Return the reply to a call; check that it is small enough for every MCP client."""
    reply = await agent.call(tool, **arguments)
    assert size(reply) < MAX_TOKENS
    return reply


async def followed(agent: AgentClient, cut: Body) -> str:
    """Return the rest of a cut text, by making the calls that the replies suggest."""
    text, following = "", cut["get"]
    while following["tool"] == "get_job_input":
        piece = await small(agent, "get_job_input", **following["args"])
        text += piece["content"]
        following = piece["next"]
    assert len(text) == cut["left"]
    return text


async def complete_text(agent: AgentClient, job_input: Body) -> str:
    """Return the complete text of an input, even if the reply contains only its beginning."""
    rest = await followed(agent, job_input["cut"]) if "cut" in job_input else ""
    return str(job_input["content"]) + rest


@given(st.text(), st.integers(-5, 200))
def test_truncated_text_is_the_longest_prefix_within_limit(text: str, most: int) -> None:
    begun = truncate(text, most)
    assert text.startswith(begun)
    assert escaped_size(begun) <= max(0, most)
    assert begun == text or escaped_size(text[: len(begun) + 1]) > most


@pytest.mark.parametrize("dag", ["dialectic", "deep-research"])
async def test_prompts_of_builtin_workflows_have_no_unfilled_placeholders(
    agent: AgentClient, dag: str
) -> None:
    shape = (await agent.call("get_dag_map", dagSlug=dag))["stages"]
    run = await agent.run(dag, models=["opus", "gpt"], input="Build a lighthouse.")
    seen: dict[tuple[str, str], Body] = {}
    while True:
        reply = await small(agent, "get_next_job", runId=run["runId"])
        if reply["status"] == "awaiting_feedback":
            await agent.feedback(run, reply["stageSlug"], f"Shorter than {reply['stageSlug']}.")
            continue
        if reply["status"] == "run_complete":
            break
        seen[reply["stageSlug"], reply["stepKey"]] = reply
        await agent.submit_documents(reply, f"# {reply['stepKey']} of {reply['modelId']}")
    steps = {(stage["stageSlug"], step["stepKey"]) for stage in shape for step in stage["steps"]}
    assert set(seen) == steps
    for place, job in seen.items():
        check_prompt(place, job)


def check_prompt(place: tuple[str, str], job: Body) -> None:
    prompt = job["prompt"]
    assert "cut" not in job
    assert len(prompt) > 300, place
    for mark in ("{{", "}}", "{%", "%}", "{#", "Undefined", "None,", "[]"):
        assert mark not in prompt, (place, mark)
    for document in job["documents"]:
        assert document["documentKey"] in prompt, place
    for job_input in job["inputs"]:
        assert job_input["content"], place
    earlier = [
        feedback_input
        for feedback_input in job["inputs"]
        if feedback_input["documentKey"] == "feedback"
    ]
    assert all(
        feedback_input["content"] == f"Shorter than {feedback_input['stageSlug']}."
        for feedback_input in earlier
    )


async def test_job_of_step_without_prompt_gets_default_prompt(agent: AgentClient) -> None:
    step = make_recipe_step("view", name="Have a view")
    stages = [make_stage("first", step), make_stage("second", {**step, "stepKey": "again"})]
    await agent.call("add_dag", definition=make_definition("views", *stages))
    run = await agent.run("views", "a")
    job = await agent.job(run)
    plain = (
        'Have a view, in the stage first of the run "Rivers".\n'
        "Use the inputs that come with this prompt, and write:\n- view\n"
    )
    assert job["prompt"] == plain
    await agent.submit_documents(job)
    await agent.feedback(run, "first", "Louder.")
    prompt = (await agent.job(run))["prompt"]
    assert prompt.endswith("A person's feedback on the previous stage: Louder.\n")


TEXTS = {
    "a": "plain words " * 20_000,
    "b": "雪だるま☃" * 15_000,
    "c": 'a "quoted"\n\\line\t' * 12_000,
    "d": "short",
}


async def reading(agent: AgentClient, prompt: str = "Read.", **more: object) -> Body:
    """Create a run whose second step has a job with four texts as inputs, most of them long."""
    wanted = [{"documentKey": "text"}, {"documentKey": "brief"}]
    read = make_recipe_step("read", "all_to_one", inputsRequired=wanted, prompt=prompt)
    stage = make_stage("work", make_recipe_step("text"), read, edges=[("text", "read")])
    await agent.call("add_dag", definition=make_definition("reading", stage))
    run = await agent.run("reading", "abcd", **more)
    for _ in TEXTS:
        job = await agent.job(run)
        await agent.submit_documents(job, TEXTS[job["modelId"]])
    return run


async def test_job_reply_cuts_long_inputs_and_names_the_call_for_the_rest(
    agent: AgentClient,
) -> None:
    run = await reading(agent, input={"brief": "B" * 100_000})
    job = await small(agent, "get_next_job", runId=run["runId"])
    by_author = {job_input.get("modelId", "brief"): job_input for job_input in job["inputs"]}
    assert set(by_author) == {*TEXTS, "brief"}
    texts = {**TEXTS, "brief": "B" * 100_000}
    shares = {}
    for name, job_input in by_author.items():
        assert texts[name].startswith(job_input["content"])
        assert await complete_text(agent, job_input) == texts[name]
        shares[name] = escaped_size(job_input["content"])
    assert "cut" not in by_author["d"]
    cut = [share for name, share in shares.items() if name != "d"]
    assert max(cut) - min(cut) < 10
    assert sum(shares.values()) > 40_000


async def test_job_reply_cuts_a_long_prompt_and_names_the_call_for_the_rest(
    agent: AgentClient,
) -> None:
    text = "☃" * 60_000
    run = await reading(agent, prompt="Read {{ run.input }}!", input=text)
    job = await small(agent, "get_next_job", runId=run["runId"])
    assert job["prompt"] + await followed(agent, job["cut"]["prompt"]) == f"Read {text}!"
    assert {job_input["documentKey"] for job_input in job["inputs"]} == {"text", "brief"}
    brief = next(job_input for job_input in job["inputs"] if job_input["documentKey"] == "brief")
    assert await complete_text(agent, brief) == text


async def test_get_next_job_returns_only_the_end_of_long_partial_results(
    agent: AgentClient,
) -> None:
    run = await reading(agent)
    parts = ["é" * 50_000, "ß" * 50_000]
    for part in parts:
        await agent.submit_documents(await agent.job(run), part, continues=True)
    job = await small(agent, "get_next_job", runId=run["runId"])
    so_far = "".join(parts)
    assert so_far.endswith(job["soFar"])
    cut = job["cut"]["soFar"]
    assert cut["left"] + len(job["soFar"]) == len(so_far)
    piece = await small(agent, "get_job_input", **cut["get"]["args"])
    read = piece["content"]
    while piece["left"]:
        piece = await small(agent, "get_job_input", **piece["next"]["args"])
        read += piece["content"]
    assert read == so_far


async def test_get_job_input_refuses_unknown_document_key(agent: AgentClient) -> None:
    job = await agent.job(await agent.run())
    error = await agent.refused("get_job_input", jobId=job["jobId"], documentKey="secret")
    assert error["code"] == "NOT_FOUND"
    assert error["details"]["inputs"] == [{"documentKey": "question", "stageSlug": None}]
    past = await agent.call(
        "get_job_input", jobId=job["jobId"], documentKey="question", offset=1_000_000
    )
    assert (past["content"], past["left"]) == ("", 0)


async def test_get_next_job_lists_many_inputs_in_pages(agent: AgentClient) -> None:
    each = make_recipe_step("each", "per_source_document_by_lineage")
    wanted = [{"documentKey": "each", "stage": "two"}]
    last = make_recipe_step("last", "all_to_one", inputsRequired=wanted)
    stages = [
        make_stage("one", make_recipe_step("begin")),
        make_stage("two", each),
        make_stage("three", last),
    ]
    await agent.call("add_dag", definition=make_definition("many", *stages))
    run = await agent.run("many", LONG)
    for slug in ("one", "two"):
        await agent.work_off(run)
        await agent.feedback(run, slug)
    job = await small(agent, "get_next_job", runId=run["runId"])
    shown = [job_input["documentId"] for job_input in job["inputs"]]
    assert all(job_input["content"] for job_input in job["inputs"])
    cut_inputs = job["cut"]["inputs"]
    assert cut_inputs["left"] + len(shown) == 144
    following = cut_inputs["get"]
    while following["tool"] == "get_job_input":
        page = await small(agent, "get_job_input", **following["args"])
        shown += [job_input["documentId"] for job_input in page["inputs"]]
        following = page["next"]
    assert len(shown) == len(set(shown)) == 144
    await render_all(agent)
    cut: Any = await small(agent, "get_run_progress", runId=run["runId"])
    report: Any = await agent.call("get_run_progress", **cut["cut"]["get"]["args"])
    assert check(report) == []
    assert [len(stage["documents"]) for stage in report["stages"]] == [12, 144, 0]
    assert [stage.get("documentsAvailable") for stage in cut["stages"]] == [12, 144, None]


async def test_get_next_job_lists_many_required_documents_in_pages(agent: AgentClient) -> None:
    outputs = [{"documentKey": f"{'文' * 100}{n}"} for n in range(40)]
    plan = make_recipe_step("plan", "all_to_one", jobType="PLAN", outputs=outputs)
    wanted = [{"documentKey": outputs[0]["documentKey"]}]
    each = make_recipe_step("each", "per_source_document", inputsRequired=wanted)
    stage = make_stage("work", plan, each, edges=[("plan", "each")])
    await agent.call("add_dag", definition=make_definition("much", stage))
    run = await agent.run("much", LONG)
    job = await small(agent, "get_next_job", runId=run["runId"])
    made = [*job["documents"]]
    following = job["cut"]["documents"]["get"]
    while following["tool"] == "get_job_input":
        page = await small(agent, "get_job_input", **following["args"])
        made += page["documents"]
        following = page["next"]
    assert (
        len({(document["documentKey"], document["modelId"]) for document in made})
        == len(made)
        == 480
    )
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    done = await small(
        agent, "submit_job_result", **held, documents=[{"content": "Get the full list."}]
    )
    assert len(done["documentIds"]) == 480


async def test_reply_about_large_workflow_is_short_unless_detail_is_set(agent: AgentClient) -> None:
    steps = [make_recipe_step(f"{'步' * 190}{n}", "all_to_one") for n in range(80)]
    ways = [(steps[0]["stepKey"], step["stepKey"]) for step in steps[1:]]
    slugs = [f"{'段' * 190}{n}" for n in range(4)]
    stages = [make_stage(slug, *steps, edges=ways) for slug in slugs]
    definition = make_definition("large", *stages, description="☃" * 10_000)
    await small(agent, "add_dag", definition=definition)
    listed = (await small(agent, "list_dags"))["dags"]
    assert {dag["dagSlug"] for dag in listed} == {"large", "dialectic", "deep-research"}
    started = await small(
        agent, "start_run", dagSlug="large", name="名" * 200, input="x", models=LONG
    )
    named = {"runId": started["runId"]}
    for tool in ("get_dag_map", "get_run_progress"):
        short = await small(agent, tool, **named)
        assert short["cut"]["get"]["args"] == {**named, "detail": True}
        reply: Any = await agent.call(tool, **short["cut"]["get"]["args"])
        # Even a reply in full detail has a maximum size.
        assert len(json.dumps(reply, ensure_ascii=False).encode()) <= MAX_REPLY_BYTES
        assert len(reply["stages"]) == 4
        assert "cut" in reply or sum(len(stage["steps"]) for stage in reply["stages"]) >= 80
        assert len(short["stages"]) == 4
    await small(agent, "get_next_job", **named)
    assert (await small(agent, "get_next_job", **named))["status"] == "nothing_ready"
    await small(agent, "start_stage", **named, stageSlug=slugs[0])
    wrong: list[tuple[str, Body]] = [
        ("submit_stage_feedback", {"stageSlug": "x", "feedback": "x"}),
        ("retry_failed", {"stageSlug": "x"}),
        ("retry_failed", {"stageSlug": slugs[0], "stepKey": "x"}),
    ]
    for tool, args in wrong:
        answer = await agent.ask(tool, {**named, **args})
        assert answer.is_error
        assert size(answer.body) < MAX_TOKENS


async def test_get_next_job_without_free_job_shortens_long_list_of_open_jobs(
    agent: AgentClient,
) -> None:
    steps = [make_recipe_step(f"{'步' * 190}{n}") for n in range(4)]
    await agent.call("add_dag", definition=make_definition("wide", make_stage("段" * 200, *steps)))
    run = await agent.run("wide", LONG)
    for _ in range(48):
        await agent.job(run)
    reply = await small(agent, "get_next_job", runId=run["runId"])
    assert (reply["status"], reply["cut"]["get"]["tool"]) == ("nothing_ready", "get_run_progress")
    assert reply["open"]


STEP = make_recipe_step("look")


async def test_get_run_progress_without_detail_returns_only_the_expected_fields(
    agent: AgentClient,
) -> None:
    run = await agent.run()
    job = await agent.job(run)
    progress = {"completedSteps": 0, "totalSteps": 1, "failedSteps": 0}
    scope = {"stageSlug": "scope", "status": "in_progress", "modelCount": 2, "progress": progress}
    scope["steps"] = [{"stepKey": "scope", "status": "in_progress", "jobs": {"active": 1}}]
    others = [{"stageSlug": slug, "status": "not_started"} for slug in ("gather", "synthesis")]
    next_job = {"tool": "get_next_job", "args": {"runId": run["runId"]}}
    assert await agent.progress(run, detail=False) == {
        "dagProgress": {"completedStages": 0, "totalStages": 3},
        "stages": [{**scope, "documentsExpected": 1}, *others],
        "status": "in_progress",
        "state": "Running",
        "progress": {"percent": 0, "done": 0, "total": 4},
        "next": {**next_job, "why": "Claim a job of this run."},
    }
    await agent.submit_documents(job)
    await render_all(agent)
    full: Any = await agent.progress(run)
    short = await agent.progress(run, detail=False)
    assert check(full) == []
    assert short["stages"][0]["documents"] == full["stages"][0]["documents"] != []
    assert short["stages"][0]["documentsAvailable"] == 1
    assert short["stages"][0]["steps"] == [{"stepKey": "scope", "status": "completed"}]


async def test_get_run_progress_returns_the_stage_that_awaits_feedback(agent: AgentClient) -> None:
    run = await agent.run()
    waits = await agent.work_off(run)
    for detail in (True, False):
        progress = await agent.progress(run, detail=detail)
        assert (progress["status"], progress["awaitingFeedback"]) == ("awaiting_feedback", "scope")
        assert progress["next"] == waits["next"]
    await agent.feedback(run, "scope")
    assert "awaitingFeedback" not in await agent.progress(run)


@pytest.mark.parametrize("canceled", [True, False])
async def test_get_run_progress_of_a_closed_run_suggests_no_call(
    agent: AgentClient, *, canceled: bool
) -> None:
    await agent.call("add_dag", definition=make_definition("a", make_stage("b", STEP)))
    run = await agent.run("a")
    if canceled:
        await agent.call("cancel_run", runId=run["runId"], reason="No use.")
    last = await agent.work_off(run)
    assert last["status"] == ("run_canceled" if canceled else "run_complete")
    assert last["next"]["tool"] == "get_run_progress"
    assert (await agent.call("get_run_progress", **last["next"]["args"]))["next"] is None
