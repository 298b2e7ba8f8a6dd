"""Data model of a diagram.

Each stage is a lane of steps with edges, and a plan is a single lane.
"""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, replace

from waybook.dag.graph import Graph
from waybook.dag.model import Stage
from waybook.dag.progress.structure import Structure, stage_order

#: Nine or more identical steps are drawn as one stack.
STACK_FROM = 9


@dataclass(frozen=True, slots=True)
class DiagramStep:
    key: str
    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    slug: str
    #: Name of the stage. Empty for a plan.
    name: str
    steps: tuple[DiagramStep, ...]
    edges: tuple[tuple[str, str], ...] = ()
    is_collapsed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    name: str
    lanes: tuple[Lane, ...]
    transitions: tuple[tuple[str, str], ...] = ()


def diagram_from_structure(structure: Structure) -> Diagram:
    dag = structure.dag
    stages = {stage.slug: stage for stage in dag.stages}
    return Diagram(
        name=dag.name or dag.slug,
        lanes=tuple(_lane(stages[slug], structure.graphs.get(slug)) for slug in stage_order(dag)),
        transitions=tuple(dict.fromkeys((way.source, way.target) for way in dag.transitions)),
    )


def diagram_of_stages(structure: Structure) -> Diagram:
    diagram = diagram_from_structure(structure)
    stages = tuple(
        DiagramStep(lane.slug, f"{lane.name} ({len(lane.steps):,} steps)") for lane in diagram.lanes
    )
    lane = Lane(slug="", name="", steps=stages, edges=diagram.transitions)
    return Diagram(name=diagram.name, lanes=(lane,))


def diagram_of_stage(structure: Structure, slug: str) -> Diagram:
    diagram = diagram_from_structure(structure)
    lanes = tuple(lane for lane in diagram.lanes if lane.slug == slug)
    return Diagram(name=diagram.name, lanes=lanes)


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


def exceeds(lane: Lane, boxes: int) -> bool:
    """Return whether a stage or plan has more than this many boxes."""
    if len(lane.steps) <= boxes:
        return False
    before, after = (dict.fromkeys((step.key for step in lane.steps), 0) for _ in range(2))
    for source, target in dict.fromkeys(lane.edges):
        after[source] += hash(target)
        before[target] += hash(source)
    families = Counter((before[step.key], after[step.key], step.kind) for step in lane.steps)
    return sum(1 if size >= STACK_FROM else size for size in families.values()) > boxes


def steps_around(lane: Lane, key: str, most: int) -> Lane:
    neighbors: dict[str, list[str]] = defaultdict(list)
    for source, target in lane.edges:
        neighbors[source].append(target)
        neighbors[target].append(source)
    near, waiting = {key}, deque([key])
    while waiting and len(near) < most:
        for other in neighbors[waiting.popleft()]:
            if other not in near and len(near) < most:
                near.add(other)
                waiting.append(other)
    return replace(
        lane,
        steps=tuple(step for step in lane.steps if step.key in near),
        edges=tuple((s, t) for s, t in lane.edges if s in near and t in near),
    )
