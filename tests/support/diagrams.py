"""Builders for tests of drawn maps."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from hypothesis import strategies as st

from waybook.core.shown import NO_STATUS, Shown
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane
from waybook.dag.diagram.status_marks import Annotation, Annotations

Edges = Sequence[tuple[str, str]]


def make_lane(
    keys: Sequence[str], edges: Edges = (), *, slug: str = "plan", name: str = ""
) -> Lane:
    """Return a lane (the drawing of a stage) of steps whose titles equal their keys."""
    return Lane(
        slug=slug, name=name, steps=tuple(DiagramStep(key, key) for key in keys), edges=tuple(edges)
    )


def make_diagram(*lanes: Lane) -> Diagram:
    """Return a diagram with these lanes (drawings of stages) in sequence."""
    slugs = [lane.slug for lane in lanes]
    return Diagram(name="Rivers", lanes=lanes, transitions=tuple(pairwise(slugs)))


def make_chain_of(count: int) -> Diagram:
    keys = [f"step-{number}" for number in range(1, count + 1)]
    return make_diagram(make_lane(keys, list(pairwise(keys))))


def dense_diagram(count: int, *, per_step: float = 2.5, reach: int = 40) -> Diagram:
    """Return a random diagram with many short edges; equal arguments give equal diagrams."""
    chance = Random(count)  # noqa: S311 - not for secrets
    keys = [f"step-{number:04}" for number in range(count)]
    edges: set[tuple[str, str]] = set()
    while len(edges) < per_step * count:
        source = chance.randrange(count - 1)
        edges.add((keys[source], keys[min(count - 1, source + 1 + chance.randrange(reach))]))
    return make_diagram(make_lane(keys, sorted(edges)))


@st.composite
def lanes(draw: st.DrawFn, slug: str = "plan", most: int = 24) -> Lane:
    count = draw(st.integers(1, most))
    chance = draw(st.integers(0, 2**32).map(Random))
    density = draw(st.sampled_from([0, 0.05, 0.15, 0.5, 1]))
    edges = {(a, b) for b in range(count) for a in range(b) if chance.random() < density}
    if draw(st.booleans()):
        edges |= set(pairwise(range(count)))
    if draw(st.booleans()):
        edges |= {(0, b) for b in range(1, count - 1)} | {
            (b, count - 1) for b in range(1, count - 1)
        }
    named = list(range(count))
    if draw(st.booleans()):
        chance.shuffle(named)
    steps = [
        DiagramStep(f"s{n}", f"Step {n}", chance.choice(["", "", "other"])) for n in range(count)
    ]
    edge_keys = tuple((f"s{named[a]}", f"s{named[b]}") for a, b in sorted(edges))
    return Lane(
        slug=slug, name=draw(st.sampled_from(["", slug])), steps=tuple(steps), edges=edge_keys
    )


@st.composite
def sketches(draw: st.DrawFn) -> Diagram:
    count = draw(st.sampled_from([1, 1, 2, 4]))
    stage_lanes = [draw(lanes(f"stage-{number}")) for number in range(count)]
    ways = draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    return Diagram(
        name="Rivers",
        lanes=tuple(stage_lanes),
        transitions=tuple((f"stage-{a}", f"stage-{b}") for a, b in sorted(ways) if a < b),
    )


def annotations(sketch: Diagram) -> st.SearchStrategy[Annotations]:
    places = [(lane.slug, step.key) for lane in sketch.lanes for step in lane.steps]
    mark = st.builds(
        Annotation, st.sampled_from([*Shown, NO_STATUS, "strange"]), st.sampled_from(["", "3/9"])
    )
    return st.builds(
        lambda steps: Annotations(steps=steps), st.dictionaries(st.sampled_from(places), mark)
    )
