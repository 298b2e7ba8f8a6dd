"""Excerpt of a large map, with the steps near a given step, and with the edges between them."""

from hypothesis import given
from hypothesis import strategies as st

from waybook.dag.diagram.layers import stack_siblings
from waybook.dag.diagram.model import STACK_FROM, DiagramStep, Lane, exceeds, steps_around


@st.composite
def lanes(draw: st.DrawFn) -> Lane:
    """Generate a lane (drawing of a stage) whose edges all lead to later steps."""
    count = draw(st.integers(1, 40))
    kinds = draw(st.lists(st.sampled_from("ab"), min_size=count, max_size=count))
    steps = tuple(DiagramStep(f"s{n}", "", kind) for n, kind in enumerate(kinds))
    places = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(places, places), max_size=60))
    edges = tuple((f"s{a}", f"s{b}") for a, b in pairs if a < b)
    return Lane(slug="plan", name="", steps=steps, edges=edges)


@given(lanes(), st.integers(0, 39), st.integers(1, 40))
def test_map_excerpt_contains_connected_steps_up_to_the_limit(
    lane: Lane, place: int, most: int
) -> None:
    key = lane.steps[place % len(lane.steps)].key
    near = steps_around(lane, key, most)
    keys = [step.key for step in near.steps]
    assert key in keys
    assert len(keys) <= most
    assert keys == [step.key for step in lane.steps if step.key in keys]
    assert set(near.edges) == {(a, b) for a, b in lane.edges if a in keys and b in keys}
    # The edges must connect the given step with every step of the excerpt.
    reached, fresh = {key}, {key}
    while fresh:
        fresh = {b for a, b in near.edges if a in fresh} | {a for a, b in near.edges if b in fresh}
        fresh -= reached
        reached |= fresh
    assert reached == set(keys)


@given(lanes(), st.integers(1, 40))
def test_map_excerpt_contains_the_whole_chain_within_the_limit(lane: Lane, place: int) -> None:
    chain = Lane(
        slug="plan",
        name="",
        steps=lane.steps,
        edges=tuple((f"s{n}", f"s{n + 1}") for n in range(len(lane.steps) - 1)),
    )
    key = lane.steps[place % len(lane.steps)].key
    assert steps_around(chain, key, len(lane.steps)) == chain


@given(lanes(), st.integers(0, 40))
def test_map_size_limit_counts_drawn_boxes_not_steps(lane: Lane, boxes: int) -> None:
    drawn, _ = stack_siblings(lane, STACK_FROM)
    assert exceeds(lane, boxes) == (len(drawn) > boxes)
