"""Ids of another org's records get the same answers as ids that do not exist."""

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext

import pytest

from database_rows import rows, without_row_level_security
from foreign_ids import PLACES, foreign_id_calls
from foreign_records import create_foreign_records
from org_env import AgentClient, OrgEnv
from rls_only_queries import stripping
from tool_arguments import names_within
from waybook.app.registry import TOOLS
from waybook.store.driver.queries import new_id

#: Run these tests on PostgreSQL 15 too: there, every transaction begins with `set local role`, and
#: the isolation of orgs must not depend on how the database role is chosen.
pytestmark = pytest.mark.every_server

#: Arguments that identify something by a name or a position, not by an id.
NAMES = {"sessionId", "idempotencyKey", "dagSlug", "cursor", "modelId", "models"}
NAMES |= {"stageSlug", "stepKey", "documentKey", "part", "fromStage"}
#: Arguments that identify nothing: texts to store or search for, numbers, and choices.
TEXTS = {
    *("name", "title", "instructions", "researchQuestion", "outputFormattingNotes", "reason"),
    *("summary", "questions", "feedback", "modificationRationale", "error", "outcome", "model"),
    *("content", "resultSummary", "resultSchema", "stepExecutionReport", "input", "metadata"),
    *("text", "schema", "candidate", "definition", "query", "kind", "kinds", "tags", "url"),
    *("assignee", "quote", "mediaType", "file", "seen", "conditionExpression", "touches"),
    *("agent", "host", "lines"),
}
#: Arguments that are looked up only among the parts of a plan or job of the caller's org, so that
#: no query contains an id of another org.
WITHIN_OURS = {
    "comment.resolveIds",
    "get_job_input.documentId",
    "get_research_context.part",
    "get_step_context.part",
    *(
        f"modify_plan.modifications.{action}.stepId"
        for action in (
            *("remove_step", "update_step_instructions", "fail_step", "retry_step"),
            *("set_conditions", "set_title", "set_dependencies", "set_touches"),
        )
    ),
    "modify_plan.modifications.reorder_steps.stepIds",
    "submit_user_decision.reviewId",
}
#: Arguments whose leak is hidden without row-level security: the lock of the org then finds two
#: orgs, and `settle_work` has already settled the reservation of the other org.
HIDDEN = {"decide_cap.capId", "report_worker.reservationId"}


@pytest.fixture(params=["with conditions", "without"])
def conditions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test twice: with the original SQL queries, and with their org filters removed."""
    with nullcontext() if request.param == "with conditions" else stripping():
        yield


@pytest.fixture
async def theirs(world: OrgEnv) -> Mapping[str, str]:
    """Return an id of the other org for each kind of record."""
    return await create_foreign_records(world)


def test_every_text_argument_is_listed_as_id_name_or_plain_text() -> None:
    known = {path[-1] for _, path in PLACES} | NAMES | TEXTS
    argument_names = {name for tool in TOOLS.values() for name in names_within(tool.arguments)}
    assert argument_names - known == set()
    assert known - argument_names == set()


@pytest.mark.usefixtures("conditions")
async def test_record_id_of_another_org_gets_same_answer_as_unknown_id(
    world: OrgEnv, theirs: Mapping[str, str]
) -> None:
    probes = await foreign_id_calls(world.agent)
    before = rows(world)
    betrayed = {probe.name: await probe.betrayed(world.agent, theirs) for probe in probes}
    assert {name: kinds for name, kinds in betrayed.items() if kinds} == {}
    # A report of a worker is valid even if its reservation has ended or never existed.
    report = {"sessionId": "worker-1", "agent": "codex", "state": "ended"}
    await world.agent.call("report_worker", **report)
    assert rows(world) == before


async def test_isolation_test_reports_leaks_if_row_level_security_is_off(own_world: OrgEnv) -> None:
    theirs = await create_foreign_records(own_world)
    probes = await foreign_id_calls(own_world.agent)
    own_world.is_sound = False
    without_row_level_security(own_world.place)
    with stripping():
        betrayed = {probe.name: await probe.betrayed(own_world.agent, theirs) for probe in probes}
    assert {name for name, kinds in betrayed.items() if not kinds} == WITHIN_OURS | HIDDEN


async def test_malformed_id_gets_same_answer_as_unknown_id(agent: AgentClient) -> None:
    for probe in await foreign_id_calls(agent):
        expected = await probe.answers(agent, new_id())
        for text in ("nope", "'; drop table plan; --", "☃", "%s", "{nope}"):
            # A malformed `part` gets an error about its format, unlike an unknown id.
            if probe.path != ("part",):
                escaped = json.dumps(text)[1:-1]
                assert await probe.answers(agent, text, escaped) == expected, probe.name


async def test_ids_are_case_insensitive(agent: AgentClient) -> None:
    plan = await agent.plan()
    shouted = await agent.call("get_next_step", planId=plan["planId"].upper())
    assert shouted["stepId"] == plan["stepIds"][0]
    assert await agent.call("get_step_context", stepId=shouted["stepId"].upper())
    await agent.call("submit_step_result", stepId=shouted["stepId"].upper(), resultSummary="x")
    added = {"action": "reorder_steps", "stepIds": [i.upper() for i in reversed(plan["stepIds"])]}
    await agent.call("modify_plan", planId=plan["planId"].upper(), modifications=[added])


async def test_lists_omit_records_of_other_orgs(
    agent: AgentClient, theirs: Mapping[str, str]
) -> None:
    lists = ("list_active_plans", "list_skills", "list_dags")
    text = json.dumps([await agent.call(tool) for tool in lists])
    assert not [kind for kind, row_id in theirs.items() if row_id in text]
    assert (await agent.call("list_active_plans"))["total"] == 0
