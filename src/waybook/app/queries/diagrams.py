"""Diagrams of plans and runs, which show the progress of each step."""

from collections.abc import Container, Mapping
from dataclasses import replace

from waybook.app.queries.plan import PlanDetail
from waybook.app.queries.plan_map import STAGE, plan_lane
from waybook.app.queries.run import RunDetail
from waybook.dag.diagram.export import Drawing
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane, diagram_from_structure
from waybook.dag.diagram.status_marks import Annotation, Annotations, annotations_from_report
from waybook.dag.progress.structure import valid_structure
from waybook.plan.model import Plan, StepId


def plan_drawing(board: PlanDetail) -> Drawing:
    """Return a plan's diagram, with steps in executable order and inactive steps as stalled."""
    lane = plan_lane(board.plan)
    return drawing_of_steps(board.plan, lane, board.stalled_ids, board.names_of(lane))


def drawing_of_steps(
    plan: Plan, lane: Lane, silent: Container[str], names: Mapping[StepId, str]
) -> Drawing:
    """Return the diagram of a plan with only the steps that this lane contains."""
    drawn = {step.key for step in lane.steps}
    steps = [step for step in plan.steps if step.id in drawn]
    named = tuple(DiagramStep(step.id, names[step.id], str(step.type)) for step in steps)
    marks = {
        (STAGE, str(step.id)): Annotation(
            "stalled" if step.id in silent else str(step.status), f"step {step.order}"
        )
        for step in steps
    }
    return Drawing(
        Diagram(name=plan.name, lanes=(replace(lane, steps=named),)), Annotations(steps=marks)
    )


def run_drawing(board: RunDetail) -> Drawing:
    """Return the diagram of a run, with the feedback given between its stages."""
    compiled_dag = board.compiled_dag
    feedback = {slug: stage.feedback for slug, stage in board.run.stages.items() if stage.feedback}
    return Drawing(
        diagram_from_structure(valid_structure(compiled_dag.dag, compiled_dag.graphs)),
        annotations_from_report(
            board.report,
            expected=board.expected,
            captions={slug: f"“{' '.join(text.split())}”" for slug, text in feedback.items()},
        ),
    )
