"""Chart of read times by number of plans: docs/pictures/growth.svg.

`python -m tools.performance` draws it from the results of `benchmarks/lists.py`. Both axes are
logarithmic, and the line of a read that takes longer with more plans rises.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

#: Reads in the chart, with their colors on light and on dark background.
SERIES: Final[Mapping[str, tuple[str, str]]] = {
    "front page": ("#b4420a", "#f2975a"),
    "list_active_plans": ("#1f5fcc", "#7fb0ff"),
    "plan by rare name": ("#7a2fc4", "#c99bf5"),
    "stall sweep": ("#17794a", "#62c492"),
    "audit of one agent": ("#946000", "#dfb04d"),
    "one plan by its key": ("#5c6578", "#a9b2c4"),
}
WIDTH, HEIGHT = 720, 400
#: Margins of the chart in pixels.
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 48, 52
#: For the lower and for the upper end of the vertical axis: a function that rounds the value, and a
#: function that chooses it.
EDGES: Final = ((math.floor, min), (math.ceil, max))
HEADING: Final = "Milliseconds of a read, by number of plans in the org"
#: Minimum vertical distance between labels.
LABEL_DISTANCE: Final = 17.0


class Scale(NamedTuple):
    """Logarithmic scale, which gives the position of a value in the chart."""

    low: float
    high: float
    start: float
    end: float

    def position(self, value: float) -> float:
        span = math.log10(self.high) - math.log10(self.low) or 1.0
        share = (math.log10(value) - math.log10(self.low)) / span
        return round(self.start + share * (self.end - self.start), 1)


def draw_growth(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the chart as SVG, for results with the lowest number of plans first."""
    names = [name for name in SERIES if all(name in result["milliseconds"] for result in results)]
    sizes = [int(result["plans"]) for result in results]
    lines = {name: [float(result["milliseconds"][name]) for result in results] for name in names}
    values = [value for line in lines.values() for value in line]
    low, high = (10.0 ** edge(math.log10(pick(values))) for edge, pick in EDGES)
    across = Scale(sizes[0], sizes[-1], LEFT, WIDTH - RIGHT)
    up = Scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = [
        *_frame(across, up, sizes),
        *(
            _line(number, across, up, list(zip(sizes, lines[name], strict=True)))
            for number, name in enumerate(names)
        ),
        *_labels(names, [up.position(lines[name][-1]) for name in names]),
    ]
    title = f"Duration of reads from {sizes[0]:,} to {sizes[-1]:,} plans"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
        f"<style>{_style(names)}</style>"
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="6"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _style(names: Sequence[str]) -> str:
    colors = [SERIES[name] for name in names]
    light = "".join(f".s{n}{{color:{color}}}" for n, (color, _) in enumerate(colors))
    dark = "".join(f".s{n}{{color:{color}}}" for n, (_, color) in enumerate(colors))
    return (
        'svg{font:13px Inter,"Helvetica Neue",Arial,"Liberation Sans",sans-serif}'
        ".ground{fill:#fff}text{fill:#1b2130}.note{fill:#5c6578}.grid{stroke:#e2e5ec}"
        ".line{fill:none;stroke:currentColor;stroke-width:2}.dot{fill:currentColor}"
        f".name{{fill:currentColor}}{light}"
        "@media (prefers-color-scheme:dark){.ground{fill:#181a1f}text{fill:#dee0e4}"
        f".note{{fill:#a9b2c4}}.grid{{stroke:#343944}}.name{{fill:currentColor}}{dark}}}"
    )


def _frame(across: Scale, up: Scale, sizes: Sequence[int]) -> list[str]:
    """Return the title, the grid, and the numbers at the axes."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [f'<text x="{LEFT}" y="26">{HEADING}</text>']
    exponents = range(round(math.log10(up.low)), round(math.log10(up.high)) + 1)
    for value in (10.0**exponent for exponent in exponents):
        y = up.position(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y}H{right}"/>')
        parts.append(
            f'<text class="note" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:,g}</text>'
        )
    for size in sizes:
        x = across.position(size)
        parts.append(f'<path class="grid" d="M{x} {bottom}v5"/>')
        parts.append(
            f'<text class="note" x="{x}" y="{bottom + 20}" text-anchor="middle">{size:,}</text>'
        )
    middle = (LEFT + right) / 2
    parts.append(
        f'<text class="note" x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">plans</text>'
    )
    return parts


def _line(number: int, across: Scale, up: Scale, values: Sequence[tuple[int, float]]) -> str:
    points = [(across.position(size), up.position(value)) for size, value in values]
    path = "M" + "L".join(f"{x} {y}" for x, y in points)
    dots = "".join(f'<circle class="dot" cx="{x}" cy="{y}" r="3.5"/>' for x, y in points)
    return f'<g class="s{number}"><path class="line" d="{path}"/>{dots}</g>'


def _labels(names: Sequence[str], heights: Sequence[float]) -> list[str]:
    """Return the names at the ends of the lines, moved apart if they would overlap."""
    order = sorted(range(len(names)), key=heights.__getitem__)
    x = WIDTH - RIGHT + 12
    return [
        f'<text class="name s{number}" x="{x}" y="{y + 4:.1f}">{names[number]}</text>'
        for number, y in zip(order, _move_apart([heights[n] for n in order]), strict=True)
    ]


def _move_apart(heights: Sequence[float]) -> list[float]:
    """Return the heights, changed so that they have a minimum distance and stay in the chart."""
    moved, free = list[float](), -math.inf
    for height in heights:
        moved.append(max(height, free))
        free = moved[-1] + LABEL_DISTANCE
    free = HEIGHT - BOTTOM
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], free)
        free = moved[place] - LABEL_DISTANCE
    return moved
