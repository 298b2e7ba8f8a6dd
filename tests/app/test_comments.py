"""Threads of comments on plans, steps, runs and jobs: writing, resolving, assigning, reading."""

import json
from dataclasses import replace

import pytest

from org_env import AgentClient, Body, OrgEnv, make_env
from postgres_servers import ServerDatabase
from waybook.app.operations.imports import import_export, read_export
from waybook.app.queries.inbox import list_reviews
from waybook.app.queries.work_export import (
    ExportedRows,
    export_json,
    plan_report_text,
    read_plan_rows,
    read_run_rows,
)
from waybook.app.request.request_context import RequestContext
from waybook.core.comments import MAX_OPEN_COMMENTS
from waybook.core.decision_context import Channel

TEXT = "Is it the Nile, @bob?"


def person(agent: AgentClient, name: str = "bob") -> AgentClient:
    return agent.acting_as(name, Channel.DASHBOARD)


def reading(agent: AgentClient) -> RequestContext:
    return RequestContext(services=agent.dispatcher.services, caller=agent.caller)


async def say(agent: AgentClient, subject: str, text: str = TEXT, **more: object) -> Body:
    return await agent.call("comment", subjectId=subject, text=text, **more)


async def test_agent_reads_and_answers_open_comments_of_a_step(agent: AgentClient) -> None:
    plan = await agent.plan(2)
    taken, bob = await agent.take(plan), person(agent)
    question = await say(bob, taken["stepId"])
    assert question["mentions"] == [{"user": "bob"}]
    general = await say(bob, plan["planId"], "Mind the budget.")
    await say(bob, plan["stepIds"][1], "Of another step.")
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    newest, oldest = context["comments"]
    assert (newest["commentId"], newest["on"]) == (general["commentId"], "plan")
    assert (oldest["commentId"], oldest["text"], oldest["by"]) == (
        question["commentId"],
        TEXT,
        "bob",
    )
    assert (oldest["author"], oldest["name"]) == ("person", "bob")
    done = await say(agent, taken["stepId"], "Yes.", resolveIds=[question["commentId"]])
    assert (done["openComments"], done["resolved"]) == (1, [question["commentId"]])
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    assert [(c["text"], c["author"]) for c in context["comments"]] == [
        ("Yes.", "agent"),
        ("Mind the budget.", "person"),
    ]
    again = await agent.call(
        "comment", subjectId=plan["planId"], resolveIds=[question["commentId"]]
    )
    assert "resolved" not in again


async def test_agent_reads_open_comments_of_a_job(agent: AgentClient) -> None:
    run = await agent.run()
    job = await agent.job(run)
    await say(person(agent), run["runId"], "Of the run.")
    await say(person(agent), job["jobId"])
    listed = await agent.call("get_job_input", jobId=job["jobId"])
    assert [comment["text"] for comment in listed["comments"]] == [TEXT]
    await agent.submit_documents(job)


async def exported(rows: ExportedRows, agent: AgentClient) -> Body:
    parts = [part async for part in export_json(reading(agent), rows)]
    body: Body = json.loads(b"".join(parts))
    return body


async def test_comments_are_exported_and_imported_with_plans_and_runs(
    agent: AgentClient, module_place: ServerDatabase
) -> None:
    plan, run = await agent.plan(1), await agent.run()
    first = await say(person(agent), plan["stepIds"][0], "First.", assignee="bob")
    await say(agent, plan["stepIds"][0], "Second.", resolveIds=[first["commentId"]])
    await say(agent, (await agent.job(run))["jobId"])
    rows = await read_plan_rows(reading(agent), plan["planId"])
    assert "Second." in plan_report_text(rows)
    plan_export = await exported(rows, agent)
    run_export = await exported(await read_run_rows(reading(agent), run["runId"]), agent)
    assert [comment["body"] for comment in plan_export["comments"]] == ["First.", "Second."]
    async with make_env(module_place) as other:
        there = reading(replace(other.agent))
        for export in (plan_export, run_export):
            await import_export(there, read_export(export))
        copied = await read_plan_rows(there, plan["planId"])
        assert copied.rows["comment"] == rows.rows["comment"]


async def test_review_is_assigned_until_the_assignment_is_resolved(agent: AgentClient) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    await agent.review(taken)
    assignment = await agent.call("comment", subjectId=taken["stepId"], assignee="ann")
    (review,) = await list_reviews(reading(agent), assignee="ann")
    assert (review.assignee, await list_reviews(reading(agent), assignee="bob")) == ("ann", [])
    await agent.call("comment", subjectId=taken["stepId"], resolveIds=[assignment["commentId"]])
    assert await list_reviews(reading(agent), assignee="ann") == []


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"text": "x" * 4_001},
        {"text": "Is this source reliable?", "assignee": "unknown-user"},
        {"text": "Done.", "resolveIds": ["222222222222"]},
        {"subjectId": "222222222222", "text": "Lost."},
    ],
)
async def test_refused_comment_changes_nothing(
    world: OrgEnv, agent: AgentClient, arguments: Body
) -> None:
    plan = await agent.plan(1)
    before = await world.entries(agent.org_id, plan["planId"])
    await agent.refused("comment", **{"subjectId": plan["planId"], **arguments})
    assert await world.entries(agent.org_id, plan["planId"]) == before


async def test_thread_takes_a_bounded_number_of_open_comments(agent: AgentClient) -> None:
    plan = await agent.plan(1)
    comments = [await say(agent, plan["planId"]) for _ in range(MAX_OPEN_COMMENTS)]
    assert (await agent.refused("comment", subjectId=plan["planId"], text="More."))[
        "code"
    ] == "TOO_LARGE"
    await say(agent, plan["planId"], "Instead.", resolveIds=[comments[0]["commentId"]])
