"""What is to be drawn: lanes of steps with edges between them, whatever they came from.

A stage of a DAG is a lane, and so is a plan. Steps stand in the order somebody declared them in.
"""

from dataclasses import dataclass

from waybook.dag.graph import Graph
from waybook.dag.model import Stage
from waybook.dag.progress.structure import Structure, stage_order


@dataclass(frozen=True, slots=True)
class DiagramStep:
    key: str
    name: str
    #: Only steps of one kind are ever stacked upon each other.
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    slug: str
    #: Empty for a lane that needs no frame: a plan.
    name: str
    steps: tuple[DiagramStep, ...]
    #: By keys; acyclic, and every end is a step of this lane.
    edges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    name: str
    #: In the order they are gone through.
    lanes: tuple[Lane, ...]
    #: From lane to lane, by slugs; each leads on.
    transitions: tuple[tuple[str, str], ...] = ()


def diagram_from_structure(structure: Structure) -> Diagram:
    """A DAG to be drawn; a stage whose recipe cannot be walked is a lane without edges."""
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
