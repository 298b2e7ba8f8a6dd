"""Time to lay out and draw a map of 13, 500 and 5,000 steps, and its growth with size.

The map has one lane, which shows the steps of one plan, and 2.5 edges per step. Each edge spans a
limited number of steps. A chain of steps is measured for comparison. The limit applies to a ratio
of two times, so that it is independent of the machine: ten times the steps take at most twelve
times as long.

    python benchmarks/layout.py [--rounds 5]
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from waybook.dag.diagram.model import Diagram, DiagramStep, Lane
from waybook.dag.diagram.routing import compute_layout
from waybook.dag.diagram.svg import render_svg

SIZES = (13, 500, 5_000)
#: For ten times as many steps, layout and drawing may take at most this many times as long.
MAX_GROWTH = 10.5
#: Maximum size of the SVG of 13 steps, without the style sheet.
MAX_SMALL_BYTES = 5_200
#: Average number of edges per step, and maximum number of steps from the start of an edge to its
#: end.
EDGES_PER_STEP, REACH = 2.5, 40


def make_chain(steps: int) -> Diagram:
    keys = step_keys(steps)
    return make_plan(keys, list(pairwise(keys)))


def make_dense_plan(steps: int) -> Diagram:
    """Return a map with random edges, each from a step to one of the next `REACH` steps."""
    generator, keys = Random(steps), step_keys(steps)  # noqa: S311 - not for secrets
    edges: set[tuple[str, str]] = set()
    while len(edges) < EDGES_PER_STEP * steps:
        source = generator.randrange(steps - 1)
        edges.add((keys[source], keys[min(steps - 1, source + 1 + generator.randrange(REACH))]))
    return make_plan(keys, sorted(edges))


def step_keys(steps: int) -> list[str]:
    return [f"step-{number:04}" for number in range(steps)]


def make_plan(keys: list[str], edges: list[tuple[str, str]]) -> Diagram:
    steps = tuple(DiagramStep(key, key) for key in keys)
    lane = Lane(slug="plan", name="", steps=steps, edges=tuple(edges))
    return Diagram(name="Large", lanes=(lane,))


@dataclass(frozen=True)
class Measurement:
    """CPU seconds of the layout and of the drawing in each round, and bytes of the SVG."""

    layout: list[float]
    drawing: list[float]
    size: int


def cpu_seconds(act: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()  # Garbage collection would falsify the measured times.
    begin = time.process_time()
    act()
    taken = time.process_time() - begin
    gc.enable()
    return taken


def measure(diagram: Diagram, rounds: int) -> Measurement:
    """Measure the time to lay out and draw a map."""
    layout = compute_layout(diagram)
    return Measurement(
        layout=[cpu_seconds(lambda: compute_layout(diagram)) for _ in range(rounds)],
        drawing=[cpu_seconds(lambda: render_svg(layout)) for _ in range(rounds)],
        size=len(render_svg(layout).encode()),
    )


def report(kind: str, make: Callable[[int], Diagram], rounds: int) -> None:
    """Measure one kind of map, and print the results.

    Raises:
        AssertionError: a limit is exceeded.
    """
    results = {size: measure(make(size), rounds) for size in SIZES}
    for size, result in results.items():
        layout, drawing = (1000 * statistics.median(t) for t in (result.layout, result.drawing))
        print(f"{f'{kind}, {size:,} steps':24}{layout:12.1f}{drawing:12.1f}{result.size:12,}")
    large, medium = (
        min(a + b for a, b in zip(results[size].layout, results[size].drawing, strict=True))
        for size in SIZES[:0:-1]
    )
    print(
        f"{'ratio of times for ten times the steps':48}{large / medium:12.1f}   limit {MAX_GROWTH}"
    )
    assert large / medium <= MAX_GROWTH, (
        f"ten times the steps take {large / medium:.1f} times as long; the limit is {MAX_GROWTH}"
    )
    small = results[SIZES[0]].size
    assert small <= MAX_SMALL_BYTES, (
        f"{small} bytes for {SIZES[0]} steps; the limit is {MAX_SMALL_BYTES}"
    )


def main(rounds: int) -> None:
    print(f"{'':24}{'layout ms':>12}{'SVG ms':>12}{'bytes':>12}")
    report("edges", make_dense_plan, rounds)
    report("chain", make_chain, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    main(parser.parse_args().rounds)
