"""get_run_progress: the map and where a run, or a plan, stands on it."""

from collections.abc import Sequence
from typing import Any, cast

import orjson
from pydantic import Field

from waybook.dag.documents import Available
from waybook.dag.report import Report, report
from waybook.dag.structure import sound_structure
from waybook.errors import InvalidInput
from waybook.record.moment import Json
from waybook.run.evidence import run_evidence
from waybook.run.model import Chart, Run
from waybook.store import documents
from waybook.store.plans import Wanted
from waybook.usecases.arguments import Id, Reading
from waybook.usecases.call import Body, Call, known
from waybook.usecases.plan_map import plan_report
from waybook.usecases.run_call import look_at_run
from waybook.usecases.run_views import take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import (
    MOST_IN_A_REPLY,
    following,
    reply_limit,
    told,
    within_reply,
)


class GetRunProgress(Reading):
    run_id: Id | None = None
    plan_id: Id | None = Field(None, description="instead of a run")
    detail: bool = False


class RunReport(Report):
    """What a run took stands beside where it stands."""

    usage: Body


async def get_run_progress(call: Call, asked: GetRunProgress) -> Body:
    """The report, and the call that makes sense now."""
    if (asked.run_id is None) == (asked.plan_id is None):
        raise InvalidInput("name either a runId or a planId, one of the two")
    if asked.run_id is not None:
        following_call = take_job(asked.run_id)
    else:
        following_call = following("get_next_step", "take the next step", planId=asked.plan_id)
    found = cast("Body", await progress_of(call, run_id=asked.run_id, plan_id=asked.plan_id))
    limit = reply_limit(call.caller.channel, detail=asked.detail)
    return fitted_report({**found, "next": following_call}, asked, limit)


async def progress_of(call: Call, *, run_id: str | None, plan_id: str | None = None) -> Report:
    """The report of a run or of a plan, from one snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    if run_id is None:
        loaded, _ = await call.look(Wanted(plan_id=known(plan_id or "")))
        return plan_report(loaded.plan)
    run_id = known(run_id)
    seen = await look_at_run(call, run_id, documents.available_statement(run_id))
    run = seen.loaded.run
    found = report_on(run, seen.chart, seen.found[0])
    return RunReport(**found, usage=run.usage.as_told())


def report_on(run: Run, chart: Chart, rows: Sequence[Sequence[Any]]) -> Report:
    """The report of a run of ours, given the rows of what people can read of it."""
    available = [(slug, Available(*found)) for slug, *found in rows]
    return report(sound_structure(chart.dag, chart.graphs), run_evidence(run, available))


def fitted_report(body: Body, asked: GetRunProgress, most: int = MOST_IN_A_REPLY) -> Body:
    """The report, without its documents if it is too long for a client, then without its steps."""
    if _fits(body, most):
        return body
    named: Body = {"runId": asked.run_id} if asked.run_id else {"planId": asked.plan_id}
    whole = following("get_run_progress", "the whole report", **named, detail=True)
    rest = None if asked.detail else whole
    short = _without(body, rest, documents=[])
    if not _fits(short, most):
        short = _without(body, rest, documents=[], steps=None)
    return within_reply(short, ("stages",), rest, most)


def _fits(body: Body, most: int) -> bool:
    return len(orjson.dumps(body)) <= most


def _without(body: Body, whole: Json, **empty: Json) -> Body:
    stages = cast("list[Body]", body["stages"])
    short: list[Json] = [{**stage, **empty} for stage in stages]
    cut: Body = {"left": " and ".join(empty), **told(get=whole)}
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
