"""get_run_progress: progress report of a run or plan."""

from typing import cast

import orjson
from pydantic import Field

from waybook.app.queries.plans.plan_map import plan_report
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
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
    wait_for_feedback_call,
)
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.dag.progress.report import StageReport, StepReport
from waybook.json_values import Body, Json, non_empty
from waybook.plan.progress import detect_stalled_steps, plan_progress
from waybook.store.plans.load import PlanRequest


class GetRunProgress(ReadArguments):
    run_id: RunIdField | None = Field(default=None, description="default: the run last active")
    plan_id: PlanIdField | None = Field(default=None, description="a plan, if there is no runId")
    detail: DetailField = False


async def get_run_progress(ctx: RequestContext, args: GetRunProgress) -> Body:
    """Return the progress report, and the suggested next tool call."""
    if args.plan_id is not None and args.run_id is None:
        report = await _plan_progress(ctx, args.plan_id)
    else:
        run_id = args.run_id or await last_active_run(ctx)
        detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
        report = {**detail.full_report, "next": _next(detail, run_id)}
    shown = report if args.detail else _compact(report)
    return fit_report(shown, args, reply_limit(ctx.caller.channel, detail=args.detail))


def _next(detail: RunDetail, run_id: str) -> Json:
    """Return the suggested call. None if the run has ended, since then nothing is left to do."""
    if detail.is_closed:
        return None
    return wait_for_feedback_call(run_id) if detail.awaiting else next_job_call(run_id)


async def _plan_progress(ctx: RequestContext, plan_id: str) -> Body:
    """Return the report of a plan with its stalled steps, and the suggested next call."""
    loaded, _ = await load_plan(ctx, PlanRequest(plan_id=id_or_nil(plan_id)))
    plan = loaded.plan
    stalled = [*detect_stalled_steps(plan, now=loaded.now, patience=ctx.services.stall_threshold)]
    return {
        **cast("Body", plan_report(plan)),
        "status": str(plan.status),
        "progress": plan_progress(plan).as_reply(),
        "stalled": bool(stalled),
        "stalledSteps": stalled_view(stalled),
        # The profile `runs` has no tool that claims a step.
        "next": next_call("list_dags", "List the workflows and open runs."),
    }


def _compact(report: Body) -> Body:
    """Leave out what is empty, and what other fields of the report imply."""
    stages = cast("list[StageReport]", report["stages"])
    usage = cast("Body", report["usage"])
    shown: Body = {
        **report,
        "stages": [_compact_stage(stage) for stage in stages],
        "usage": usage if usage["results"] else None,
    }
    return {name: value for name, value in shown.items() if value or name in {"stages", "next"}}


def _compact_stage(stage: StageReport) -> Json:
    steps = [_compact_step(step) for step in stage["steps"] or ()]
    progress = stage["progress"] if steps else None
    shown = cast("Body", {**stage, "progress": progress, "steps": steps})
    return {name: value for name, value in shown.items() if value}


def _compact_step(step: StepReport) -> Json:
    jobs: Body = {name: count for name, count in cast("Body", step["jobs"]).items() if count}
    shown: Body = {"stepKey": step["stepKey"], "status": step["status"]}
    return {**shown, "jobs": jobs} if "active" in jobs or "failed" in jobs else shown


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
    short: list[Json] = [
        {name: empty.get(name, value) for name, value in stage.items()} for stage in stages
    ]
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
