"""get_run_progress: the map and where a run, or a plan, stands on it."""

from collections.abc import Sequence
from typing import Any, cast

import orjson
from pydantic import Field

from waybook.dag.documents import AvailableDocument
from waybook.dag.report import Report, report
from waybook.dag.structure import valid_structure
from waybook.errors import InvalidInput
from waybook.record.moment import Json
from waybook.run.evidence import run_evidence
from waybook.run.model import CompiledDag, Run
from waybook.store import documents
from waybook.store.plans import PlanRequest
from waybook.usecases.arguments import Id, ReadArguments
from waybook.usecases.call import Body, RequestContext, id_or_nil
from waybook.usecases.plan_map import plan_report
from waybook.usecases.run_call import load_run
from waybook.usecases.run_views import next_job_call
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import (
    MAX_COMPACT_REPLY_BYTES,
    fit_reply,
    next_call,
    non_empty,
    reply_limit,
)


class GetRunProgress(ReadArguments):
    run_id: Id | None = None
    plan_id: Id | None = Field(None, description="instead of a run")
    detail: bool = False


class RunReport(Report):
    """What a run took stands beside where it stands."""

    usage: Body


async def get_run_progress(ctx: RequestContext, asked: GetRunProgress) -> Body:
    """The report, and the call that makes sense now."""
    if (asked.run_id is None) == (asked.plan_id is None):
        raise InvalidInput("name either a runId or a planId, one of the two")
    if asked.run_id is not None:
        following_call = next_job_call(asked.run_id)
    else:
        following_call = next_call("get_next_step", "take the next step", planId=asked.plan_id)
    found = cast("Body", await load_report(ctx, run_id=asked.run_id, plan_id=asked.plan_id))
    limit = reply_limit(ctx.caller.channel, detail=asked.detail)
    return fit_report({**found, "next": following_call}, asked, limit)


async def load_report(
    ctx: RequestContext, *, run_id: str | None, plan_id: str | None = None
) -> Report:
    """The report of a run or of a plan, from one snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    if run_id is None:
        loaded, _ = await ctx.load_plan(PlanRequest(plan_id=id_or_nil(plan_id or "")))
        return plan_report(loaded.plan)
    run_id = id_or_nil(run_id)
    seen = await load_run(ctx, run_id, documents.available_statement(run_id))
    run = seen.loaded.run
    found = run_report(run, seen.chart, seen.results[0])
    return RunReport(**found, usage=run.usage.as_reply())


def run_report(run: Run, compiled_dag: CompiledDag, rows: Sequence[Sequence[Any]]) -> Report:
    """The report of a run of ours, given the rows of what people can read of it."""
    available = [(slug, AvailableDocument(*found)) for slug, *found in rows]
    return report(
        valid_structure(compiled_dag.dag, compiled_dag.graphs), run_evidence(run, available)
    )


def fit_report(body: Body, asked: GetRunProgress, most: int = MAX_COMPACT_REPLY_BYTES) -> Body:
    """The report, without its documents if it is too long for a client, then without its steps."""
    if _fits(body, most):
        return body
    named: Body = {"runId": asked.run_id} if asked.run_id else {"planId": asked.plan_id}
    whole = next_call("get_run_progress", "the whole report", **named, detail=True)
    rest = None if asked.detail else whole
    short = _without(body, rest, documents=[])
    if not _fits(short, most):
        short = _without(body, rest, documents=[], steps=None)
    return fit_reply(short, ("stages",), rest, most)


def _fits(body: Body, most: int) -> bool:
    return len(orjson.dumps(body)) <= most


def _without(body: Body, whole: Json, **empty: Json) -> Body:
    stages = cast("list[Body]", body["stages"])
    short: list[Json] = [{**stage, **empty} for stage in stages]
    cut: Body = {"left": " and ".join(empty), **non_empty(get=whole)}
    return {**body, "stages": short, "cut": cut}


TOOL = Tool(
    name="get_run_progress",
    title="See where a run stands",
    description="Stages, steps and documents of a run (or a plan), and where it stands.",
    arguments=GetRunProgress,
    output_schema=output_schema(dagProgress="object", stages="array"),
    run=get_run_progress,
    reads_only=True,
    profiles=RUNS,
)
