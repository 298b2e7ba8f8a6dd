"""draw_map: draw a diagram of a plan, run or workflow for a chat app.

Agents do not need this tool, because other tools return the same as text.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from typing import Annotated

import orjson
from pydantic import Field

from waybook.app.queries.diagrams import plan_drawing, run_drawing
from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.work_list import last_active_run
from waybook.app.request import arguments as arg
from waybook.app.request.access import current_definition
from waybook.app.request.caller import review_url
from waybook.app.request.layout_worker import DrawingJob, LayoutWorker
from waybook.app.request.reply import MAX_COMPACT_REPLY_BYTES, MAX_DETAIL_REPLY_BYTES, next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import PLAN, RUNS, Tool
from waybook.core.shown import FINISHED, LOOKS, Shown, word_of
from waybook.dag.diagram.model import diagram_from_structure
from waybook.dag.diagram.svg import Drawing
from waybook.dag.progress.structure import valid_structure
from waybook.json_values import Body, Json, non_empty
from waybook.plan.progress import progress_json
from waybook.research.packet import as_text

_MAX_RESULT_LENGTH = 4_000
#: The rate limit counts a drawn step or edge as this number of operations.
_OPERATIONS_PER_LINE = 2


class _DrawMap(arg.ReadArguments):
    plan_id: arg.PlanIdField | None = arg.optional("the plan")
    run_id: arg.RunIdField | None = arg.optional("default: the run last active")
    dag_slug: arg.Id | None = arg.optional("a workflow")
    width: Annotated[int, Field(ge=200, le=8_000)] | None = arg.optional(
        "width of the drawing in pixels"
    )
    seen: arg.Key | None = arg.optional("version that the app shows")
    detail: arg.DetailField = False


@Tool(
    title="Draw the map",
    description="Drawing for the map app.",
    reply={"version": "string"},
    reads_only=True,
    profiles=PLAN | RUNS,
)
async def draw_map(ctx: RequestContext, args: _DrawMap) -> Body:
    """Return the current diagram, or only a note if the caller already has this diagram."""
    drawn = await _drawn(ctx, args)
    version = sha256(orjson.dumps(drawn)).hexdigest()[:16]
    if args.seen == version:
        return {"version": version, "unchanged": True, "next": drawn["next"]}
    body: Body = {"version": version, **drawn}
    most = MAX_DETAIL_REPLY_BYTES if args.detail else MAX_COMPACT_REPLY_BYTES
    if len(orjson.dumps(body)) <= most:
        return body
    if args.detail:
        return {**body, "svg": None, "cut": {"left": "svg", "limit": most}}
    named = non_empty(planId=args.plan_id, runId=args.run_id, dagSlug=args.dag_slug)
    detail_call = next_call("draw_map", "Get the map with its drawing.", **named, detail=True)
    return {**body, "svg": None, "cut": {"left": "svg", "get": detail_call}}


async def _drawn(ctx: RequestContext, args: _DrawMap) -> Body:
    if args.plan_id is not None:
        board = await read_plan_detail(ctx, args.plan_id, PlanInclude.NAMES)
        plan = board.plan
        drawing = await ctx.services.cpu.run(ctx.caller.org_id, partial(plan_drawing, board))
        steps = [
            (Shown.STALLED if state is Shown.STALLED else step.status, state)
            for step, state in zip(plan.steps, board.states.values(), strict=True)
        ]
        return {
            "name": plan.name,
            "status": str(plan.state),
            "over": board.is_closed,
            "progress": _progress(board.shown, "steps", steps),
            "svg": await _svg(ctx, drawing, args.width),
            **non_empty(asks=_review(ctx, board), reason=plan.fail_reason),
            "next": next_call("get_plan_status", "Get the same as text.", planId=plan.id),
        }
    if args.run_id is None and args.dag_slug is not None:
        compiled_dag = await current_definition(ctx, args.dag_slug)
        structure = valid_structure(compiled_dag.dag, compiled_dag.graphs)
        return {
            "name": compiled_dag.dag.name,
            "over": True,
            "svg": await _svg(ctx, Drawing(diagram_from_structure(structure)), args.width),
            "next": next_call("start_run", "Start a run of it.", dagSlug=compiled_dag.dag.slug),
        }
    run_id = args.run_id or await last_active_run(ctx)
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    stages = [
        (s["status"] or Shown.UNKNOWN, detail.state_of_stage(s)) for s in detail.report["stages"]
    ]
    return {
        "name": detail.run.name,
        "status": str(detail.state),
        "over": detail.is_closed,
        "progress": _progress(detail.shown, "stages", stages),
        "svg": await _svg(ctx, run_drawing(detail), args.width),
        **non_empty(asks=_feedback(detail)),
        "next": next_call("get_run_progress", "Get the same as text.", runId=detail.run.id),
    }


def _review(ctx: RequestContext, board: PlanDetail) -> Body | None:
    review = board.review
    if review is None:
        return None
    plan = board.plan
    step = plan.step(review.step_id)
    about = f"step {step.order}, {board.name_of(step)}"
    result = "" if review.result_summary is None else as_text(review.result_summary)
    return {
        "title": f"Decision needed: {about}",
        "summary": "\n".join([review.summary, *(f"? {question}" for question in review.questions)]),
        "result": result[:_MAX_RESULT_LENGTH],
        "about": about,
        "requestedBy": review.requested_by,
        "reviewUrl": review_url(plan.id, ctx.services.base_url),
        "tool": "submit_user_decision",
        "args": {"planId": plan.id, "reviewId": review.id, "place": "app"},
    }


def _feedback(board: RunDetail) -> Body | None:
    waiting = board.awaiting
    if waiting is None:
        return None
    name = next(stage.name for stage in board.compiled_dag.dag.stages if stage.slug == waiting)
    return {
        "title": f"Feedback needed: {name}",
        "summary": "Stage complete. Your feedback goes to the agents working on the next stage.",
        "result": "",
        "about": f"the stage {name}",
        "tool": "submit_stage_feedback",
        "args": {"runId": board.run.id, "stageSlug": waiting, "place": "app"},
    }


async def _svg(ctx: RequestContext, drawing: Drawing, width: int | None) -> str:
    job = DrawingJob(drawing, width)
    ctx.operations.append(_OPERATIONS_PER_LINE * job.weight)
    return await ctx.services.shared(LayoutWorker).picture(ctx.caller.org_id, job)


def _progress(state: Shown, unit: str, items: Iterable[tuple[str, Shown]]) -> Json:
    """Return the items by stored status, each with the word of the state that people see."""
    counts = Counter((str(status), shown) for status, shown in items)
    order = [*LOOKS]
    parts: list[Json] = [
        {"status": status, "word": word_of(shown), "count": count}
        for (status, shown), count in sorted(
            counts.items(), key=lambda item: order.index(item[0][1])
        )
    ]
    done = sum(count for (status, _), count in counts.items() if status in FINISHED)
    word, total = word_of(state), counts.total()
    return {**progress_json(done, total), "unit": unit, "word": word, "parts": parts}
