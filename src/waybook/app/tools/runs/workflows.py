"""Tools that list and add workflows, and return the map and progress of a run, plan or workflow."""

from collections.abc import Sequence
from typing import Final, cast

import orjson
from pydantic import Field

from waybook.app.queries.plans.plan import plan_report, plan_structure
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.runs.workflows import current_workflows, workflow_view
from waybook.app.queries.work_list import (
    OPEN,
    RunFilter,
    last_active_run,
    read_run_summaries,
    runs_statement,
)
from waybook.app.request import arguments as arg
from waybook.app.request import reply as replies
from waybook.app.request.access import current_definition, load_plan, load_run
from waybook.app.request.caller import WORKFLOW_SCHEMA_URI
from waybook.app.request.definition_cache import (
    compile_definition,
    definition_body,
    definition_statement,
    is_stored,
)
from waybook.app.request.layout_worker import LayoutWorker
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import ADMIN, RUNS, Tool
from waybook.core.decision_context import Scope
from waybook.core.events import RUN, ChangeEvent
from waybook.dag.expansion.units import NO_LENGTHS, Lengths
from waybook.dag.model import RunState
from waybook.dag.progress.report import StageReport
from waybook.dag.progress.structure import Structure, map_json, valid_structure
from waybook.errors import BadRecipe
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.progress import detect_stalled_steps, progress_reply
from waybook.run.model import CompiledDag
from waybook.run.stages import require_runnable, validate_models
from waybook.store.driver.queries import new_id
from waybook.store.plans.load import PlanRequest
from waybook.store.runs import load
from waybook.store.runs.load import DefinitionRow

_MAX_RUNS = 50


@Tool(
    title="List prepared workflows",
    description=(
        "List the prepared workflows (DAGs) and the open runs. Then start_run or get_next_job."
    ),
    reply={"dags": "array"},
    reads_only=True,
    profiles=RUNS,
)
async def list_dags(ctx: RequestContext, _: arg.ReadArguments) -> Body:
    open_runs = runs_statement(RunFilter(state=OPEN), _MAX_RUNS)
    stored, run_rows = await ctx.read(load.SQL["definitions"](), open_runs)
    body: Body = {
        "dags": [
            workflow_view(workflow.compiled_dag) for workflow in current_workflows(ctx, stored)
        ],
        "openRuns": [
            {
                "runId": run.id,
                "name": run.name,
                "dagSlug": run.compiled_dag.dag.slug,
                "version": run.compiled_dag.version,
                "currentStage": run.current.slug if run.current else None,
                "awaitingFeedback": run.awaiting.slug if run.awaiting else None,
                "completedSteps": run.steps_done,
                "totalSteps": run.steps_total,
                "failedSteps": run.steps_failed,
                "createdAt": format_time(run.created_at),
                "createdBy": run.created_by,
                "updatedAt": format_time(run.updated_at),
            }
            for run in await read_run_summaries(ctx, run_rows)
        ],
        "next": next_call("start_run", "Start a run of one of the workflows."),
    }
    detail_call = next_call("get_dag_map", "Get one complete definition.")
    return replies.fit_reply(body, ("openRuns", "dags"), detail_call)


#: Approximate bytes per step or edge in a definition, to estimate the cost of drawing its map.
_BYTES_PER_MAP_ITEM: Final = 20


class AddDag(arg.MutatingArguments):
    definition: arg.AnyJson = Field(description="JSON object: slug, name, stages, transitions")


@Tool(
    title="Add a workflow definition",
    description=(
        "Add a workflow (DAG) definition or a new version of it. Open runs keep their version. Its "
        f"JSON schema: resource {WORKFLOW_SCHEMA_URI}."
    ),
    reply={"dagSlug": "string", "version": "integer"},
    idempotent=True,
    profiles=ADMIN,
    scopes=frozenset({Scope.ADMIN}),
)
async def add_dag(ctx: RequestContext, args: AddDag) -> ToolReply:
    """Check a workflow definition and store it. An identical definition changes nothing."""
    weight = len(orjson.dumps(args.definition)) // _BYTES_PER_MAP_ITEM

    def compile_runnable() -> CompiledDag:
        compiled_dag = compile_definition(args.definition, 1)
        require_runnable(compiled_dag)
        return compiled_dag

    org_id, worker = ctx.caller.org_id, ctx.services.shared(LayoutWorker)
    try:
        compiled_dag = await worker.run(org_id, weight, compile_runnable)
    except BadRecipe as error:
        error.details["schema"] = WORKFLOW_SCHEMA_URI
        raise
    dag, slug = compiled_dag.dag, compiled_dag.dag.slug
    lock, stored = load.SQL["lock_definition"], load.SQL["definition"]
    opened = OpenTransaction(ctx, lock(slug=slug), stored(slug=slug, version=None))

    async def decide() -> Proposal[Written]:
        rows: Sequence[DefinitionRow] = opened.results[-1]
        latest = rows[0].version if rows else 0
        if rows and is_stored(dag, rows[0]):
            return Proposal(Written([]), _reply(slug, latest, "unchanged"))
        made = definition_statement(dag, latest + 1, opened.now, ctx.caller.user)
        # The new id belongs to no run: the event only makes servers tell their clients that the
        # tools for runs are available now.
        event = ChangeEvent(RUN, new_id(), 0, list_changed=True)
        return Proposal(Written([made], event=event), _reply(slug, latest + 1, "added"))

    return await update(opened, decide)


def _reply(slug: str, version: int, status: str) -> Body:
    following = next_call("get_dag_map", "See the map of the workflow.", dagSlug=slug)
    return {"dagSlug": slug, "version": version, "status": status, "next": following}


class _GetDagMap(arg.ReadArguments):
    run_id: arg.RunIdField | None = arg.optional("default: the run last active")
    plan_id: arg.PlanIdField | None = arg.optional("a plan, if there is no runId")
    dag_slug: arg.Id | None = arg.optional(
        "a workflow, from list_dags, if there is no runId or planId"
    )
    models: arg.Models | None = arg.optional(
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
    body = await _load_map(ctx, args)
    most = replies.reply_limit(ctx.caller.channel, detail=args.detail)
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
    return replies.fit_reply(short, ("stages",), detail_call, most)


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
        after, lengths = replies.next_job_call(run_id), loaded_run.run.lengths
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
            **replies.canceled_view(plan),
            "progress": progress_reply(plan),
            "stalled": bool(stalled),
            "stalledSteps": replies.stalled_view(stalled),
            # Do not suggest claiming a step: the profile `runs` has no tool for that.
            "next": next_call("list_dags", "List the workflows and open runs."),
        }
    else:
        run_id = args.run_id or await last_active_run(ctx)
        detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
        why = "Wait for a job: a person retries the failed ones, not you."
        following = {
            RunState.IN_PROGRESS: replies.next_job_call(run_id),
            RunState.AWAITING_FEEDBACK: replies.wait_for_feedback_call(run_id),
            RunState.FAILED: replies.wait_for_job_call(run_id, why),
        }
        report = {**detail.full_report, "next": following.get(detail.state)}
    shown = report if args.detail else _compact(report)
    most = replies.reply_limit(ctx.caller.channel, detail=args.detail)
    if len(orjson.dumps(shown)) <= most:
        return shown
    named = non_empty(runId=args.run_id, planId=args.plan_id)
    detail_call = next_call("get_run_progress", "Get the full report.", **named, detail=True)
    rest = None if args.detail else detail_call
    short = _without(shown, rest, documents=[])
    if len(orjson.dumps(short)) > most:
        short = _without(shown, rest, documents=[], steps=None)
    return replies.fit_reply(short, ("stages",), rest, most)


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
