"""Data model of a diagram, independent of its source: lanes of steps with edges.

A stage of a DAG is a lane, and so is a plan. Steps are in declared order.
"""

from dataclasses import dataclass

from waybook.dag.graph import Graph
from waybook.dag.model import Stage
from waybook.dag.progress.structure import Structure, stage_order


@dataclass(frozen=True, slots=True)
class DiagramStep:
    key: str
    name: str
    #: Kind of the step; only steps of the same kind are stacked.
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    slug: str
    #: Name of the lane; empty for a plan, whose lane has no frame.
    name: str
    steps: tuple[DiagramStep, ...]
    #: Edges as pairs of step keys; they are acyclic, and both ends are steps of this lane.
    edges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    name: str
    #: Lanes of the diagram in topological order.
    lanes: tuple[Lane, ...]
    #: Transitions as pairs of lane slugs, always forward.
    transitions: tuple[tuple[str, str], ...] = ()


def diagram_from_structure(structure: Structure) -> Diagram:
    """Return the diagram of a DAG; the lane of a stage with an invalid recipe has no edges."""
    dag = structure.dag
    stages = {stage.slug: stage for stage in dag.stages}
    return Diagram(
        name=dag.name or dag.slug,
        lanes=tuple(_lane(stages[slug], structure.graphs.get(slug)) for slug in stage_order(dag)),
        transitions=tuple(dict.fromkeys((way.source, way.target) for way in dag.transitions)),
    )


def _lane(stage: Stage, graph: Graph | None) -> Lane:
    steps = {step.key: step for step in stage.recipe.steps}.values()
    return Lane(
        slug=stage.slug,
        name=stage.name or stage.slug,
        steps=tuple(
            DiagramStep(step.key, step.name or step.key, f"{step.job_type} {step.strategy}")
            for step in steps
        ),
        edges=stage.recipe.edges if graph else (),
    )
