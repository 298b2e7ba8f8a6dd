"""Creates diagrams of plans and runs that show the progress of each step."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from waybook.app.queries.plans.plan import (
    STAGE,
    PlanDetail,
    PlanInclude,
    plan_lane,
    read_plan_detail,
)
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.work_list import resolve_plan, resolve_run
from waybook.app.request.request_context import RequestContext
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane, diagram_from_structure
from waybook.dag.diagram.status_marks import (
    BRANCH_MARK,
    Annotation,
    Annotations,
    Branch,
    annotations_from_report,
)
from waybook.dag.diagram.svg import Drawing
from waybook.dag.progress.structure import valid_structure
from waybook.plan.model import (
    BranchAction,
    BranchOutcome,
    Condition,
    OnExhausted,
    Plan,
    StepId,
)

#: Texts that say what a loop does after its last repetition.
AFTER_LOOP: Final = {
    None: "",
    OnExhausted.CONTINUE: "",
    OnExhausted.REVIEW: ", then ask a person",
    OnExhausted.FAIL: ", then fail the plan",
}


def plan_drawing(board: PlanDetail, lane: Lane | None = None) -> Drawing:
    """Return the diagram of a plan, or of its steps in `lane`."""
    plan, lane = board.plan, lane or plan_lane(board.plan)
    drawn = {step.key for step in lane.steps}
    steps = [step for step in plan.steps if step.id in drawn]
    named = tuple(DiagramStep(step.id, board.name_of(step), str(step.type)) for step in steps)
    branching = {condition.step_id for condition in plan.conditions}
    marks = {
        (STAGE, str(step.id)): Annotation(
            board.states[step.id],
            f"{BRANCH_MARK} step {step.order}" if step.id in branching else f"step {step.order}",
        )
        for step in steps
    }
    return Drawing(
        Diagram(name=plan.name, lanes=(replace(lane, steps=named),)),
        Annotations(steps=marks, branches=tuple(plan_branches(plan))),
    )


def plan_branches(plan: Plan) -> Iterator[Branch]:
    orders = {step.id: step.order for step in plan.steps}
    for condition in plan.conditions:
        if condition.step_id not in orders:
            continue
        outcome = f" ({condition.outcome.replace('_', ' ')})" if condition.outcome else ""
        effect = _effect(condition, orders)
        expression = " ".join(condition.expression.split())
        yield Branch(
            stage=STAGE,
            source=condition.step_id,
            target=_target(condition),
            text=f"step {orders[condition.step_id]}: {effect} if {expression}{outcome}",
            is_loop=condition.action is BranchAction.REPEAT,
        )


def _target(condition: Condition) -> StepId | None:
    """Return the step to which the line of a condition leads, or None if no line is drawn.

    A loop has a line only for its current repetition. Earlier repetitions are drawn as steps.
    """
    if condition.action is BranchAction.REPEAT:
        first = condition.from_step_id or condition.step_id
        return first if condition.outcome is None else None
    is_possible = condition.outcome in {None, BranchOutcome.FIRED}
    return condition.target_step_id if is_possible else None


def _effect(condition: Condition, orders: Mapping[StepId, int]) -> str:
    target = orders.get(condition.target_step_id or condition.step_id)
    first = orders.get(condition.from_step_id or condition.step_id)
    match condition.action:
        case BranchAction.SKIP_TO:
            return f"skip to step {target}"
        case BranchAction.ADD_STEPS:
            count = len(condition.steps)
            return "add a step" if count == 1 else f"add {count} steps"
        case BranchAction.REPEAT:
            round_, most = (condition.repeats or 0) + 1, (condition.max_repeats or 0) + 1
            after = AFTER_LOOP[condition.on_exhausted]
            return f"repeat from step {first} (round {round_} of {most}{after})"
        case BranchAction.FAIL:
            return "end the plan as failed"
        case BranchAction.CONTINUE:
            return "continue"


def run_drawing(board: RunDetail) -> Drawing:
    compiled_dag = board.compiled_dag
    feedback = {slug: stage.feedback for slug, stage in board.run.stages.items() if stage.feedback}
    return Drawing(
        diagram_from_structure(valid_structure(compiled_dag.dag, compiled_dag.graphs)),
        annotations_from_report(
            board.report,
            expected=board.expected,
            captions={slug: f"“{' '.join(text.split())}”" for slug, text in feedback.items()},
            is_over=board.run.canceled_at is not None,
            awaiting=board.awaiting,
        ),
    )


async def read_drawing(ctx: RequestContext, noun: str, text: str | None) -> Drawing:
    """Return the drawing of the map of a plan or run."""
    if noun == "plan":
        plan_id = (await resolve_plan(ctx, text)).id
        return plan_drawing(await read_plan_detail(ctx, plan_id, PlanInclude.BOARD))
    run_id = (await resolve_run(ctx, text)).id
    return run_drawing(await read_run_detail(ctx, run_id, RunInclude.NOTHING))
