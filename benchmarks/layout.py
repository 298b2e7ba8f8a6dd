"""Time to lay out and draw a map of 13, 500 and 5,000 steps, and its growth with size.

The map is a plan of one stage with two and a half edges per step, each of limited length; a plain
chain is measured for comparison. The limit applies to a ratio within the run, so that it holds on
any machine: ten times the steps take at most twelve times as long.

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

from waybook.dag.diagram.layout import compute_layout
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane
from waybook.dag.diagram.svg import render_svg

SIZES = (13, 500, 5_000)
#: Maximum ratio of times for ten times the steps.
LIMIT_GROWTH = 12
#: Maximum bytes of a map of 13 steps, without the style.
LIMIT_BYTES = 12_000
EDGES_PER_STEP, REACH = 2.5, 40


def a_chain(steps: int) -> Diagram:
    """Return a plan whose steps form a chain."""
    keys = names(steps)
    return a_plan(keys, list(pairwise(keys)))


def a_thicket(steps: int) -> Diagram:
    """Return a plan with random forward edges of limited length."""
    chance, keys = Random(steps), names(steps)  # noqa: S311 - nothing secret about it
    edges: set[tuple[str, str]] = set()
    while len(edges) < EDGES_PER_STEP * steps:
        source = chance.randrange(steps - 1)
        edges.add((keys[source], keys[min(steps - 1, source + 1 + chance.randrange(REACH))]))
    return a_plan(keys, sorted(edges))


def names(steps: int) -> list[str]:
    return [f"step-{number:04}" for number in range(steps)]


def a_plan(keys: list[str], edges: list[tuple[str, str]]) -> Diagram:
    steps = tuple(DiagramStep(key, key) for key in keys)
    lane = Lane(slug="plan", name="", steps=steps, edges=tuple(edges))
    return Diagram(name="Large", lanes=(lane,))


@dataclass(frozen=True)
class Measured:
    #: CPU seconds of each round.
    laying: list[float]
    drawing: list[float]
    size: int


def seconds(act: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()  # garbage of earlier work would be collected at random times
    begin = time.process_time()
    act()
    taken = time.process_time() - begin
    gc.enable()
    return taken


def measured(sketch: Diagram, rounds: int) -> Measured:
    layout = compute_layout(sketch)
    return Measured(
        laying=[seconds(lambda: compute_layout(sketch)) for _ in range(rounds)],
        drawing=[seconds(lambda: render_svg(layout)) for _ in range(rounds)],
        size=len(render_svg(layout).encode()),
    )


def told(kind: str, make: Callable[[int], Diagram], rounds: int) -> None:
    """Print the results of one kind of map, and fail beyond the limits."""
    found = {size: measured(make(size), rounds) for size in SIZES}
    for size, one in found.items():
        laying, drawing = (1000 * statistics.median(t) for t in (one.laying, one.drawing))
        print(f"{f'{kind}, {size:,} steps':24}{laying:12.1f}{drawing:12.1f}{one.size:12,}")
    whole, part = (
        min(a + b for a, b in zip(found[size].laying, found[size].drawing, strict=True))
        for size in SIZES[:0:-1]
    )
    print(f"{'ten times the steps take, times':48}{whole / part:12.1f}   limit {LIMIT_GROWTH}")
    assert whole / part <= LIMIT_GROWTH, f"{whole / part:.1f} times as long is not linear"
    small = found[SIZES[0]].size
    assert small <= LIMIT_BYTES, f"{small} bytes for {SIZES[0]} steps"


def main(rounds: int) -> None:
    print(f"{'':24}{'layout ms':>12}{'SVG ms':>12}{'bytes':>12}")
    told("edges", a_thicket, rounds)
    told("chain", a_chain, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    main(parser.parse_args().rounds)
