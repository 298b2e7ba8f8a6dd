"""Map of a plan: its steps in order, as a workflow with a single stage."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from waybook.core.short_ids import usual_form
from waybook.dag.diagram.model import DiagramStep, Lane
from waybook.dag.graph import graph_of
from waybook.dag.model import Dag, JobType, Recipe, RecipeStep, Stage, Strategy
from waybook.dag.progress.report import Report, StageEvidence, report
from waybook.dag.progress.structure import Evidence, Structure, valid_structure
from waybook.dag.statuses import ProgressStatus
from waybook.json_values import Json, format_time
from waybook.plan.model import Plan, Step, StepStatus

STAGE = "plan"

PROGRESS_BY_STATUS = {
    StepStatus.PENDING: ProgressStatus.NOT_STARTED,
    StepStatus.IN_PROGRESS: ProgressStatus.IN_PROGRESS,
    StepStatus.AWAITING_INPUT: ProgressStatus.IN_PROGRESS,
    StepStatus.COMPLETED: ProgressStatus.COMPLETED,
    StepStatus.SKIPPED: ProgressStatus.COMPLETED,
    StepStatus.FAILED: ProgressStatus.FAILED,
}


def plan_structure(plan: Plan) -> Structure:
    """Return the plan's steps as a workflow stage. The step keys are short ids."""
    steps = tuple(
        RecipeStep(
            key=usual_form(step.id),
            number=step.order,
            name=step.title or f"Step {step.order}",
            job_type=JobType.EXECUTE,
            strategy=Strategy.ALL_TO_ONE,
            output_type=str(step.type),
        )
        for step in plan.steps
    )
    edges = tuple((usual_form(before), usual_form(after)) for before, after in edges_of(plan))
    stage = Stage(STAGE, plan.name, Recipe(steps, edges))
    dag = Dag(slug=STAGE, name=plan.name, stages=(stage,))
    graphs = {STAGE: graph_of(stage.recipe)} if steps else {}
    return valid_structure(dag, graphs)


def edges_of(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return the dependencies between the plan's steps. Without any, the steps form a chain."""
    steps = [(step.id, step.depends_on) for step in plan.steps]
    return chain_or_dependencies(steps, sequential=plan.sequential)


def chain_or_dependencies(
    steps: Sequence[tuple[str, Sequence[str]]], *, sequential: bool
) -> tuple[tuple[str, str], ...]:
    """Return the dependencies between steps. Without any, the steps form a chain.

    `steps` has the id of each step and the ids of its dependencies.
    """
    dependencies = [
        (before, step_id) for step_id, depends_on in steps for before in dict.fromkeys(depends_on)
    ]
    if not dependencies:
        return tuple(pairwise(step_id for step_id, _ in steps))
    return (*dependencies, *_turns(steps)) if sequential else tuple(dependencies)


def _turns(steps: Sequence[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, str]]:
    """Yield edges to steps without dependencies, from the steps before them."""
    ends: list[str] = []
    passed: set[str] = set()
    for step_id, depends_on in steps:
        if not depends_on:
            yield from ((before, step_id) for before in ends)
            ends.clear()
        # A step that waits for a later step has no place in the order.
        if passed.issuperset(depends_on):
            passed.add(step_id)
            ends = [*(end for end in ends if end not in depends_on), step_id]


def plan_evidence(plan: Plan) -> StageEvidence:
    standings: dict[str, ProgressStatus] = {
        usual_form(step.id): PROGRESS_BY_STATUS[step.status] for step in plan.steps
    }
    return StageEvidence(
        standings=standings,
        steps={
            usual_form(step.id): _evidence(step, standings[usual_form(step.id)])
            for step in plan.steps
        },
    )


class PlanReport(Report):
    """Progress report of a plan. It includes the plan's revision, because the steps may change."""

    revision: int
    usage: dict[str, Json]


def plan_report(plan: Plan) -> PlanReport:
    base_report = report(plan_structure(plan), {STAGE: plan_evidence(plan)})
    return {**base_report, "revision": plan.revision, "usage": plan.usage.as_reply()}


def _evidence(step: Step, standing: ProgressStatus) -> Evidence:
    return Evidence(
        closed=standing is ProgressStatus.COMPLETED,
        done=int(standing is ProgressStatus.COMPLETED),
        active=int(standing is ProgressStatus.IN_PROGRESS),
        failed=int(standing is ProgressStatus.FAILED),
        started_at=format_time(step.in_progress_since),
        completed_at=format_time(step.completed_at),
    )


def plan_lane(plan: Plan) -> Lane:
    """Return the boxes and edges of a plan's diagram."""
    steps = tuple(DiagramStep(step.id, "", str(step.type)) for step in plan.steps)
    return Lane(slug=STAGE, name="", steps=steps, edges=edges_of(plan))
