"""Contexts of steps and plans: size within the token budget, and calls that return what was cut."""

from random import Random
from typing import Any

import orjson
import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from packet_checks import completed, hostile_texts, store_all
from waybook.app.request.search_backend import search_backend
from waybook.json_values import Json
from waybook.research.packet import as_text
from waybook.store.driver.connection import DbConnection
from waybook.store.research.search import SearchCapabilities

MAX_STEPS = 48_000
BUDGETS = (500, 700, 1_500, 6_000, 20_000, 200_000)


def fits(reply: Body, tokens: int) -> bool:
    encoded = orjson.dumps(reply)
    return len(encoded.decode()) <= 4 * tokens and len(encoded) <= MAX_STEPS


async def make_random_plan(agent: AgentClient, random: Random) -> tuple[Body, dict[str, Json]]:
    """Return a random plan with failures, late results and artifacts, and its step results."""
    steps = []
    for n in range(random.randint(2, 9)):
        waits = (
            random.sample(range(1, n + 1), random.randint(0, n)) if random.random() < 0.3 else []
        )
        more: Body = {"dependsOn": waits} if waits else {}
        if random.random() < 0.3:
            more["title"] = "t" + hostile_texts(random, 150)
        steps.append(make_step("i" + hostile_texts(random, 9_000), **more))
    plan = await agent.plan(
        steps,
        name="n" + hostile_texts(random, 150),
        researchQuestion="q" + hostile_texts(random, 5_000),
    )
    results: dict[str, Json] = {}
    while len(results) < len(steps) - 1:
        taken = await agent.take(plan)
        if random.random() < 0.4:
            await make_setback(agent, plan, taken, random)
            continue
        result: Json = hostile_texts(random, 9_000)
        if random.random() < 0.5:
            result = {"found": result, "n": 1.5}
        results[taken["stepId"]] = result
        await agent.submit(taken, result)
    await store_all(
        agent,
        plan,
        [
            (random.choice([*plan["stepIds"], None]), f"Note {n}", hostile_texts(random, 5_000))
            for n in range(random.randint(0, 30))
        ],
    )
    return plan, results


async def make_setback(agent: AgentClient, plan: Body, taken: Body, random: Random) -> None:
    """Let the step fail, with a retry, and submit a late result for the attempt that failed."""
    failing = {
        "action": "fail_step",
        "stepId": taken["stepId"],
        "reason": hostile_texts(random, 1_500),
    }
    failing["retry"] = True
    await agent.call("modify_plan", planId=plan["planId"], modifications=[failing])
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    await agent.refused("submit_step_result", **held, resultSummary=hostile_texts(random, 4_000))


@pytest.mark.parametrize("seed", range(3))
async def test_context_parts_cut_to_fit_the_budget_can_be_fetched(
    agent: AgentClient, seed: int
) -> None:
    random = Random(seed)  # noqa: S311 - not for secrets
    plan, results = await make_random_plan(agent, random)
    last = await agent.take(plan)
    for tokens in (*BUDGETS, random.randint(500, 12_000)):
        step_args = {"stepId": last["stepId"], "budgetTokens": tokens}
        plan_args = {"planId": plan["planId"], "budgetTokens": tokens}
        for tool, args in (("get_step_context", step_args), ("get_research_context", plan_args)):
            reply = await agent.call(tool, **args)
            assert fits(reply, tokens)
            assert orjson.dumps(await agent.call(tool, **args)) == orjson.dumps(reply)
            check_complete(plan, await completed(agent, reply), last, results)


def check_complete(plan: Body, packet: Body, last: Body, results: dict[str, Json]) -> None:
    """Check that the completed context has the results that belong in it, in full length."""
    if "earlierResults" in packet:
        assert packet["instructions"] == last["instructions"]
        summaries = {e["stepId"]: e.get("resultSummary") for e in packet["earlierResults"]}
        before = packet.get("dependsOn", plan["stepIds"][: last["stepOrder"] - 1])
        known = set(results)
        assert {i for i in summaries if i in results} == known & {*before}
    else:
        summaries = {e["stepId"]: e.get("resultSummary") for e in packet["steps"]}
        assert set(summaries) >= set(results)
    for step_id, result in summaries.items():
        assert as_text(result) == as_text(results.get(step_id))


async def test_context_of_500_artifacts_needs_at_most_3_database_messages(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await agent.plan(2)
    notes = [(None, f"Lake {n}", f"Lake number {n} is {n} metres deep. " * 40) for n in range(500)]
    await store_all(agent, plan, notes)
    sent = counted(monkeypatch)
    for tool, args in (
        ("get_step_context", {"stepId": plan["stepIds"][0]}),
        ("get_research_context", {"planId": plan["planId"]}),
    ):
        sent.clear()
        reply = await agent.call(tool, **args)
        assert 1 <= len(sent) <= 3
        assert len(reply["artifacts"]) + reply["cut"]["artifacts"]["left"] == 500
        assert len((await completed(agent, reply))["artifacts"]) == 500


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets each message (SQL statements sent together) from now on."""
    sent: list[object] = []
    really = DbConnection.send

    async def send(line: DbConnection, *message: Any) -> Any:  # noqa: ANN401 - whatever is sent
        sent.append(message)
        return await really(line, *message)

    monkeypatch.setattr(DbConnection, "send", send)
    return sent


async def test_step_context_ranks_relevant_artifacts_before_newer_ones(agent: AgentClient) -> None:
    plan = await agent.plan([make_step("How deep is Lake Baikal?"), make_step("Bake bread.")])
    notes = [
        (None, "Baikal", "Lake Baikal is 1,642 metres deep, deeper than any other lake."),
        (None, "Bread", "Knead the dough of wheat flour, yeast and water, then bake it."),
        *((None, f"Tax {n}", f"Paragraph {n} of the law on value added tax.") for n in range(30)),
    ]
    await store_all(agent, plan, notes)
    for step_id, title in zip(plan["stepIds"], ("Baikal", "Bread"), strict=True):
        context = await agent.call("get_step_context", stepId=step_id)
        assert context["artifacts"][0]["title"] == title


async def test_step_context_ranks_artifacts_by_words_if_vectors_are_missing(
    agent: AgentClient,
) -> None:
    words_alone = SearchCapabilities(backend=None, indexed=False)
    search_backend(agent.dispatcher.services)._abilities = words_alone
    plan = await agent.plan([make_step("How deep is Lake Baikal?")])
    notes = [(None, "Baikal", "Lake Baikal is 1,642 metres deep.")]
    notes += [(None, f"Tax {n}", f"Paragraph {n} of a law.") for n in range(50)]
    await store_all(agent, plan, notes)
    context = await agent.call("get_step_context", stepId=plan["stepIds"][0])
    assert context["artifacts"][0]["title"] == "Baikal"
    assert words_alone.describe.startswith("full text alone")


async def test_step_context_shows_matching_passage_of_long_artifact(agent: AgentClient) -> None:
    plan = await agent.plan([make_step("How deep is Lake Baikal?")])
    long = (
        "Nothing about it here. " * 100 + "\n\nLake Baikal is 1,642 metres deep.\n\n" + "No. " * 500
    )
    (artifact,) = await store_all(agent, plan, [(None, "Lakes", long)])
    context = await agent.call("get_step_context", stepId=plan["stepIds"][0])
    (shown,) = context["artifacts"]
    assert "1,642 metres" in shown["content"]
    assert shown["cut"]["get"]["args"]["part"] == f"artifact:{artifact}"
    (full_artifact,) = (await completed(agent, context))["artifacts"]
    assert full_artifact["content"] == long


async def test_context_of_a_retried_step_shows_failures_and_earlier_work(
    agent: AgentClient,
) -> None:
    plan = await agent.plan([make_step("Look it up."), make_step("Sum up.")])
    taken = await agent.take(plan)
    await store_all(agent, plan, [(taken["stepId"], "Half of it", "Found so far: one lake.")])
    failing = {"action": "fail_step", "stepId": taken["stepId"], "reason": "The line is dead."}
    failing["retry"] = True
    await agent.call("modify_plan", planId=plan["planId"], modifications=[failing])
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    await agent.refused("submit_step_result", **held, resultSummary="Too late.")
    again = await agent.take(plan)
    context = await agent.call("get_step_context", stepId=again["stepId"])
    assert (again["stepId"], context["attempt"]) == (taken["stepId"], 2)
    assert [failure["reason"] for failure in context["failures"]] == ["The line is dead."]
    late, half = context["soFar"]
    assert (late["superseded"], late["content"]["result_summary"]) == (True, "Too late.")
    assert half["content"] == "Found so far: one lake."
    assert context["artifacts"] == []


async def test_step_context_does_not_repeat_feedback_of_the_instructions(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    args = {"decision": "modify", "feedback": "Add the sources."}
    await agent.call("submit_user_decision", planId=plan["planId"], **args)
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    (decided,) = context["feedback"]
    assert "Add the sources." in context["instructions"]
    assert (decided["decision"], "feedback" in decided) == ("modify", False)
    rewriting = {"action": "update_step_instructions", "stepId": taken["stepId"]}
    rewriting["instructions"] = "Start anew."
    await agent.call("modify_plan", planId=plan["planId"], modifications=[rewriting])
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    assert context["feedback"][0]["feedback"] == "Add the sources."


async def test_step_context_lists_only_results_of_dependencies(agent: AgentClient) -> None:
    plan = await agent.plan([make_step(), make_step(), make_step(), make_step(dependsOn=[1, 3])])
    for n in (1, 2):
        await agent.submit(await agent.take(plan), f"Result {n}")
    failing = {"action": "fail_step", "stepId": plan["stepIds"][2], "reason": "No sources."}
    await agent.call("modify_plan", planId=plan["planId"], modifications=[failing])
    context = await agent.call("get_step_context", stepId=plan["stepIds"][3])
    third, first = context["earlierResults"]
    assert (third["stepOrder"], third["failReason"]) == (3, "No sources.")
    assert (first["stepOrder"], first["resultSummary"]) == (1, "Result 1")
    assert context["dependsOn"] == [plan["stepIds"][0], plan["stepIds"][2]]


async def test_fetching_a_cut_text_counts_as_heartbeat(world: OrgEnv) -> None:
    agent = world.agent
    plan = await agent.plan([make_step(), make_step()])
    await agent.submit(await agent.take(plan), "r" * 9_000)
    taken = await agent.take(plan)
    args = {"stepId": taken["stepId"], "budgetTokens": 500}
    world.clock.advance(minutes=20)
    context = await agent.call("get_step_context", **args)
    world.clock.advance(minutes=20)
    await completed(agent, context)
    world.clock.advance(minutes=20)
    assert (await agent.status(plan))["stalled"] is False


@pytest.mark.parametrize(
    "part",
    ["nothing", "result:", "result:x", "event:-1", "event:" + "9" * 30, "artifact", "name:1"],
)
async def test_error_for_invalid_context_part_lists_valid_parts(
    agent: AgentClient, part: str
) -> None:
    plan = await agent.plan()
    for tool, named in (
        ("get_step_context", {"stepId": plan["stepIds"][0]}),
        ("get_research_context", {"planId": plan["planId"]}),
    ):
        error = await agent.refused(tool, **named, part=part)
        assert error["code"] == "NOT_FOUND"
        assert "instructions:ID" in error["details"]["parts"]


async def test_context_part_of_another_org_cannot_be_read(world: OrgEnv) -> None:
    theirs, mine = world.other_org_plan, await world.agent.plan()
    for part in (f"instructions:{theirs['stepIds'][0]}", "failure:1", "event:99"):
        error = await world.agent.refused("get_research_context", planId=mine["planId"], part=part)
        assert error["code"] == "NOT_FOUND"
    named = {"planId": theirs["planId"], "part": "researchQuestion"}
    assert (await world.agent.refused("get_research_context", **named))["code"] == "NOT_FOUND"


async def test_research_context_with_since_argument_lists_only_new_artifacts(
    agent: AgentClient,
) -> None:
    plan = await agent.plan()
    await store_all(agent, plan, [(None, "Old", "old")])
    seq = (await agent.call("get_research_context", planId=plan["planId"]))["seq"]
    await store_all(agent, plan, [(None, "New", "new")])
    news = await agent.call("get_research_context", planId=plan["planId"], since=seq)
    assert [artifact["title"] for artifact in news["artifacts"]] == ["New"]


async def test_context_of_large_plan_shows_steps_near_first_open_step(agent: AgentClient) -> None:
    plan = await agent.plan([make_step("z" * 2_000) for _ in range(120)])
    for _ in range(80):
        await agent.submit(await agent.take(plan), "x" * 500)
    context = await agent.call("get_research_context", planId=plan["planId"])
    orders = [step["stepOrder"] for step in context["steps"]]
    assert orders == [*range(orders[0], orders[-1] + 1)]
    assert orders[0] > 1
    assert 81 in orders
    packet = await completed(agent, context)
    assert {step["stepOrder"] for step in packet["steps"]} == {*range(1, 121)}


async def test_research_context_returns_long_event_list_in_pages(agent: AgentClient) -> None:
    plan = await agent.plan(30)
    await agent.work_through(plan)
    args = {"planId": plan["planId"], "since": 0, "budgetTokens": 1_500}
    news = await agent.call("get_research_context", **args)
    left = news["cut"]["recentEvents"]["left"]
    assert len(news["recentEvents"]) + left == news["seq"]
    packet = await completed(agent, news)
    assert [event["seq"] for event in packet["recentEvents"]] == [*range(1, news["seq"] + 1)]
