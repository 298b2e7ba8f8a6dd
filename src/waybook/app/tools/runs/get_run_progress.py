"""get_run_progress: progress report of a run or plan."""

from typing import cast

import orjson
from pydantic import Field

from waybook.app.queries.plans.plan_map import plan_report
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.runs.run_list import last_active_run
from waybook.app.request.arguments import DetailField, PlanIdField, ReadArguments, RunIdField
from waybook.app.request.plan_access import load_plan
from waybook.app.request.reply import (
    MAX_COMPACT_REPLY_BYTES,
    fit_reply,
    next_call,
    next_job_call,
    reply_limit,
    stalled_view,
)
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.dag.progress.report import StageReport
from waybook.dag.statuses import RunState
from waybook.json_values import Body, Json, non_empty
from waybook.plan.progress import detect_stalled_steps, plan_progress, progress_json
from waybook.store.plans.load import PlanRequest


class GetRunProgress(ReadArguments):
    run_id: RunIdField | None = Field(default=None, description="default: the run last active")
    plan_id: PlanIdField | None = Field(default=None, description="a plan, if there is no runId")
    detail: DetailField = False


async def get_run_progress(ctx: RequestContext, args: GetRunProgress) -> Body:
    """Return the progress report, and the suggested next tool call."""
    report: Body
    if args.plan_id is not None and args.run_id is None:
        report, following_call = await _plan_progress(ctx, args.plan_id)
    else:
        run_id = args.run_id or await last_active_run(ctx)
        detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
        report = detail.full_report
        following_call = next_job_call(run_id)
        if detail.state is RunState.CANCELED:
            following_call = next_call("list_dags", "The run has ended. List the workflows.")
    limit = reply_limit(ctx.caller.channel, detail=args.detail)
    return fit_report({**_in_one_shape(report), "next": following_call}, args, limit)


async def _plan_progress(ctx: RequestContext, plan_id: str) -> tuple[Body, Json]:
    """Return the report of a plan with its stalled steps, and the suggested next call."""
    loaded, _ = await load_plan(ctx, PlanRequest(plan_id=id_or_nil(plan_id)))
    plan = loaded.plan
    stalled = [*detect_stalled_steps(plan, now=loaded.now, patience=ctx.services.stall_threshold)]
    report: Body = {
        **cast("Body", plan_report(plan)),
        "status": str(plan.status),
        "progress": plan_progress(plan).as_reply(),
        "stalled": bool(stalled),
        "stalledSteps": stalled_view(stalled),
    }
    return report, next_call("get_next_step", "Claim the next step.", planId=plan_id)


def _in_one_shape(report: Body) -> Body:
    """Add `percent`, `done` and `total` to the progress of each stage, as in other replies."""
    stages = cast("list[StageReport]", report["stages"])
    shaped = [cast("Body", {**stage, "progress": _stage_progress(stage)}) for stage in stages]
    return {**report, "stages": [*shaped]}


def _stage_progress(stage: StageReport) -> Json:
    progress = stage["progress"]
    if progress is None:
        return None
    shape = progress_json(progress["completedSteps"], progress["totalSteps"])
    return {**shape, **cast("Body", progress)}


def fit_report(body: Body, args: GetRunProgress, most: int = MAX_COMPACT_REPLY_BYTES) -> Body:
    if _fits(body, most):
        return body
    named = non_empty(runId=args.run_id, planId=args.plan_id)
    detail_call = next_call("get_run_progress", "Get the full report.", **named, detail=True)
    rest = None if args.detail else detail_call
    short = _without(body, rest, documents=[])
    if not _fits(short, most):
        short = _without(body, rest, documents=[], steps=None)
    return fit_reply(short, ("stages",), rest, most)


def _fits(body: Body, most: int) -> bool:
    return len(orjson.dumps(body)) <= most


def _without(body: Body, detail_call: Json, **empty: Json) -> Body:
    stages = cast("list[Body]", body["stages"])
    short: list[Json] = [{**stage, **empty} for stage in stages]
    cut: Body = {"left": " and ".join(empty), **non_empty(get=detail_call)}
    return {**body, "stages": short, "cut": cut}


TOOL = Tool(
    name="get_run_progress",
    title="Get the progress of a run",
    description="Progress of a run or plan: its stages, steps and documents by status.",
    arguments=GetRunProgress,
    output_schema=output_schema(dagProgress="object", stages="array"),
    run=get_run_progress,
    reads_only=True,
    profiles=RUNS,
)
