"""Edges on maps: redundant edges are left out, and the number of drawn edges is limited."""

from hypothesis import given
from hypothesis import strategies as st

from waybook.dag.diagram.layers import LINES_PER_BOX, MIN_LINES, _without_implied, thin_edges
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane
from waybook.dag.diagram.routing import compute_layout
from waybook.dag.diagram.svg import render_svg

Edges = list[tuple[int, int]]


def dense(count: int) -> Edges:
    return [(a, b) for b in range(count) for a in range(b)]


def reachable(edges: Edges, count: int) -> set[tuple[int, int]]:
    after = [{b for a, b in edges if a == box} for box in range(count)]
    for box in reversed(range(count)):
        for target in [*after[box]]:
            after[box] |= after[target]
    return {(box, target) for box in range(count) for target in after[box]}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    count = draw(st.integers(2, 9))
    return count, draw(st.lists(st.sampled_from(dense(count)), unique=True))


@given(graphs())
def test_transitive_reduction_removes_exactly_redundant_edges(graph: tuple[int, Edges]) -> None:
    count, edges = graph
    reduced_edges = _without_implied(count, edges)
    assert reachable(reduced_edges, count) == reachable(edges, count)
    for edge in reduced_edges:
        others = [other for other in reduced_edges if other != edge]
        assert edge not in reachable(others, count)


def test_map_with_few_edges_draws_all_of_the_edges() -> None:
    edges = dense(45)
    assert len(edges) <= MIN_LINES
    assert thin_edges(45, edges) == (edges, 0)


def test_drawn_edges_are_limited_even_without_redundant_edges() -> None:
    # No edge follows from others: each of the first hundred boxes is connected to each of the
    # second hundred.
    edges = [(a, b) for b in range(100, 200) for a in range(100)]
    drawn_edges, undrawn = thin_edges(200, edges)
    assert len(drawn_edges) == LINES_PER_BOX * 200
    assert undrawn == len(edges) - len(drawn_edges)
    assert {b for _, b in drawn_edges} == set(range(100, 200))
    assert drawn_edges == sorted(drawn_edges, key=edges.index)


def test_svg_of_dense_map_shows_number_of_undrawn_dependencies() -> None:
    steps = tuple(DiagramStep(f"s{n}", f"Step {n}") for n in range(200))
    edges = tuple((f"s{a}", f"s{b}") for a, b in dense(200))
    lane = Lane(slug="plan", name="", steps=steps, edges=edges)
    layout = compute_layout(Diagram(name="Dense", lanes=(lane,)))
    assert (len(layout.lines), layout.undrawn) == (199, 19_701)
    svg = render_svg(layout)
    assert svg.count("19,701 dependencies are not drawn") == 3, "title, label and the note itself"
    assert len(svg) < 100_000
