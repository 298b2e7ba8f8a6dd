"""Tools that return the map and the progress of a run or plan, and the map of a workflow."""

from typing import cast

import orjson

from waybook.app.queries.plans.plan import plan_report, plan_structure
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.work_list import last_active_run
from waybook.app.request import arguments as arg
from waybook.app.request.access import current_definition, load_plan, load_run
from waybook.app.request.definition_cache import definition_body
from waybook.app.request.reply import (
    canceled_view,
    fit_reply,
    next_call,
    next_job_call,
    reply_limit,
    stalled_view,
    wait_for_feedback_call,
    wait_for_job_call,
)
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import RUNS, Tool
from waybook.dag.expansion.units import NO_LENGTHS, Lengths
from waybook.dag.model import RunState
from waybook.dag.progress.report import StageReport
from waybook.dag.progress.structure import Structure, map_json, valid_structure
from waybook.json_values import Body, Json, non_empty
from waybook.plan.progress import detect_stalled_steps, plan_progress
from waybook.run.stages import validate_models
from waybook.store.plans.load import PlanRequest


class _GetDagMap(arg.ReadArguments):
    run_id: arg.RunIdField | None = arg.optional("default: the run last active")
    plan_id: arg.PlanIdField | None = arg.optional("a plan, if there is no runId")
    dag_slug: arg.Id | None = arg.optional(
        "a workflow, from list_dags, if there is no runId or planId"
    )
    models: arg.LenientJson[arg.Models] | None = arg.optional(
        "model names, to count the jobs of a workflow with them"
    )
    detail: arg.DetailField = False


@Tool(
    title="See the map",
    description="Structure of a workflow (DAG), run or plan: stages, steps, edges, expected jobs.",
    reply={"stages": "array"},
    reads_only=True,
    profiles=RUNS,
)
async def get_dag_map(ctx: RequestContext, args: _GetDagMap) -> Body:
    """Return the stages, steps and edges of the map, and the expected number of jobs.

    With `detail`, the reply has the definition too, as `add_dag` accepts it.
    """
    body, most = await _load_map(ctx, args), reply_limit(ctx.caller.channel, detail=args.detail)
    if len(orjson.dumps(body)) <= most:
        return body
    named = non_empty(
        dagSlug=args.dag_slug,
        runId=args.run_id,
        planId=args.plan_id,
        models=[*args.models] if args.models else None,
    )
    detail_call = next_call("get_dag_map", "Get steps and edges too.", **named, detail=True)
    stages = cast("list[Body]", body["stages"])
    short: Body = {
        **body,
        "stages": [
            {
                "stageSlug": stage["stageSlug"],
                "name": stage["name"],
                "stepCount": len(cast("list[Json]", stage["steps"])),
                "expected": {"total": cast("Body", stage["expected"])["total"]},
            }
            for stage in stages
        ],
        "transitions": [],
        "cut": {"left": "steps, edges and transitions", "get": detail_call},
    }
    if args.detail:
        fits = len(orjson.dumps(short)) <= most
        left = "steps, edges and transitions" if fits else "definition, steps, edges, transitions"
        short["cut"] = {"left": left, "limit": most}
        if not fits:
            short.pop("definition", None)
    return fit_reply(short, ("stages",), detail_call, most)


async def _load_map(ctx: RequestContext, args: _GetDagMap) -> Body:
    models_of: dict[str, tuple[str, ...]] = {}
    if args.run_id is None and args.plan_id is not None:
        loaded, _ = await load_plan(ctx, PlanRequest(plan_id=args.plan_id))
        after = next_call("get_run_progress", "See the progress of the plan.", planId=args.plan_id)
        return _map(plan_structure(loaded.plan), models_of, after)
    lengths = NO_LENGTHS
    if args.run_id is not None or args.dag_slug is None:
        run_id = args.run_id or await last_active_run(ctx)
        loaded_run, compiled_dag, _ = await load_run(ctx, run_id)
        models_of = {slug: stage.models for slug, stage in loaded_run.run.stages.items()}
        after, lengths = next_job_call(run_id), loaded_run.run.lengths
    else:
        compiled_dag = await current_definition(ctx, args.dag_slug)
        if args.models:
            models_of = {compiled_dag.order[0]: validate_models(args.models)}
        slug = compiled_dag.dag.slug
        after = next_call("start_run", "Start a run of this workflow.", dagSlug=slug)
    dag = compiled_dag.dag
    return non_empty(
        dagSlug=dag.slug,
        version=compiled_dag.version,
        **_map(valid_structure(dag, compiled_dag.graphs), models_of, after, lengths),
        definition=definition_body(dag) if args.detail else None,
    )


def _map(
    structure: Structure,
    models_of: dict[str, tuple[str, ...]],
    after: Json,
    lengths: Lengths = NO_LENGTHS,
) -> Body:
    dag, answer = structure.dag, map_json(structure, models_of, lengths)
    maps = {stage["stageSlug"]: stage for stage in answer["stages"]}
    stages: list[Json] = [
        {
            **cast("Body", maps[stage.slug]),
            "name": stage.name,
            "models": [*models_of.get(stage.slug, ())],
            "steps": [
                non_empty(
                    stepKey=step.key,
                    name=step.name,
                    jobType=str(step.job_type),
                    granularityStrategy=str(step.strategy),
                    parallelGroup=step.parallel_group,
                    skip=step.skip or None,
                    maxItems=step.max_items,
                )
                for step in stage.recipe.steps
            ],
            "edges": [[source, target] for source, target in stage.recipe.edges],
        }
        for stage in dag.stages
    ]
    transitions: list[Json] = [
        {"from": transition.source, "to": transition.target, "condition": transition.condition}
        for transition in dag.transitions
    ]
    return non_empty(name=dag.name, stages=stages, transitions=transitions, next=after)


class _GetRunProgress(arg.ReadArguments):
    run_id: arg.RunIdField | None = arg.optional("default: the run last active")
    plan_id: arg.PlanIdField | None = arg.optional("a plan, if there is no runId")
    detail: arg.DetailField = False


@Tool(
    title="Get the progress of a run",
    description="Progress of a run or plan: its stages, steps and documents by status.",
    reply={"dagProgress": "object", "stages": "array"},
    reads_only=True,
    profiles=RUNS,
)
async def get_run_progress(ctx: RequestContext, args: _GetRunProgress) -> Body:
    if args.plan_id is not None and args.run_id is None:
        loaded, _ = await load_plan(ctx, PlanRequest(plan_id=args.plan_id))
        plan = loaded.plan
        stalled = [
            *detect_stalled_steps(plan, now=loaded.now, patience=ctx.services.stall_threshold)
        ]
        report = {
            **cast("Body", plan_report(plan)),
            "status": str(plan.status),
            **canceled_view(plan),
            "progress": plan_progress(plan).as_reply(),
            "stalled": bool(stalled),
            "stalledSteps": stalled_view(stalled),
            # Do not suggest claiming a step: the profile `runs` has no tool for that.
            "next": next_call("list_dags", "List the workflows and open runs."),
        }
    else:
        run_id = args.run_id or await last_active_run(ctx)
        detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
        why = "Wait for a job: a person retries the failed ones, not you."
        following = {
            RunState.IN_PROGRESS: next_job_call(run_id),
            RunState.AWAITING_FEEDBACK: wait_for_feedback_call(run_id),
            RunState.FAILED: wait_for_job_call(run_id, why),
        }
        report = {**detail.full_report, "next": following.get(detail.state)}
    shown = report if args.detail else _compact(report)
    most = reply_limit(ctx.caller.channel, detail=args.detail)
    if len(orjson.dumps(shown)) <= most:
        return shown
    named = non_empty(runId=args.run_id, planId=args.plan_id)
    detail_call = next_call("get_run_progress", "Get the full report.", **named, detail=True)
    rest = None if args.detail else detail_call
    short = _without(shown, rest, documents=[])
    if len(orjson.dumps(short)) > most:
        short = _without(shown, rest, documents=[], steps=None)
    return fit_reply(short, ("stages",), rest, most)


def _compact(report: Body) -> Body:
    """Leave out fields that are empty, and fields whose values follow from other fields."""
    stages: list[Json] = []
    for stage in cast("list[StageReport]", report["stages"]):
        steps: list[Json] = []
        for step in stage["steps"] or ():
            jobs: Body = {
                name: count for name, count in cast("Body", step["jobs"]).items() if count
            }
            compact_step: Body = {"stepKey": step["stepKey"], "status": step["status"]}
            if "active" in jobs or "failed" in jobs:
                compact_step["jobs"] = jobs
            steps.append(compact_step)
        progress = stage["progress"] if steps else None
        compact = cast("Body", {**stage, "progress": progress, "steps": steps})
        stages.append({name: value for name, value in compact.items() if value})
    usage = cast("Body", report["usage"])
    shown: Body = {**report, "stages": stages, "usage": usage if usage["results"] else None}
    return {name: value for name, value in shown.items() if value or name in {"stages", "next"}}


def _without(body: Body, detail_call: Json, **empty: Json) -> Body:
    stages = cast("list[Body]", body["stages"])
    short: list[Json] = [
        {name: empty.get(name, value) for name, value in stage.items()} for stage in stages
    ]
    cut: Body = {"left": " and ".join(empty), **non_empty(get=detail_call)}
    return {**body, "stages": short, "cut": cut}
