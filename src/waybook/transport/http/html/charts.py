"""Places of charts, which `charts.html` draws as inline SVG: functions of numbers and times.

Positions are in percent of the width, so that a chart fits any width without a script and its text
is not distorted. Colors come from the style sheet, through a tone (`data-s`, see `tone_of`) or a
class. Marks show their text on hover, and on focus if there are not too many. The size of a chart
has a limit: neighbors are merged, or the first columns omitted.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import ceil, floor, isfinite, log10
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

#: The most columns, points and spans of one chart. More points and spans are merged.
MAX_COLUMNS: Final = 160
MAX_POINTS: Final = 200
MAX_SPANS: Final = 120
#: Charts with more marks are for the pointer only; the table beside them has the numbers.
MAX_TAB_STOPS: Final = 31
_MAX_TEXT: Final = 120
_MAX_VALUE: Final = 1e15
_DAY: Final = 86_400
_MINUTE: Final = 60
_TICKS: Final = 6
_TICK_GAPS: Final = (
    *(5, 15, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(_DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY, 90 * _DAY, 365 * _DAY),
)
#: Percent of the width at the edges in which labels do not stand above their place.
_EDGE: Final = 4
#: Percent of the width around the label `now` that has no other label.
_AROUND_NOW: Final = 7
#: Height of the text over and under columns.
_HEAD: Final = 16
_FOOT: Final = 18
#: Width of the shortest span in percent, and number of the rows of a lane.
_MIN_SPAN: Final = 0.6
_MAX_ROWS: Final = 12
#: Tones, most urgent first.
TONES: Final = ("fail", "ask", "warn", "run", "todo", "done", "skip")
QUIET: Final = frozenset({"done", "skip", "todo"})


class Period(NamedTuple):
    """Time axis of a chart. `now` is drawn as a line if it lies in the period."""

    start: datetime
    end: datetime
    now: datetime | None = None

    def place(self, at: datetime) -> float:
        """Return the position of a time in percent of the width."""
        total = (self.end - self.start).total_seconds()
        part = (at - self.start).total_seconds()
        return 100 * min(max(part / total, 0.0), 1.0) if total > 0 else 0.0

    @property
    def now_place(self) -> float | None:
        inside = self.now and self.start <= self.now <= self.end
        return self.place(self.now) if self.now and inside else None

    def ticks(self) -> list[tuple[float, str]]:
        """Return the positions and labels of at most seven round times, in UTC."""
        total = (self.end - self.start).total_seconds()
        if total <= 0:
            return []
        gap = next((gap for gap in _TICK_GAPS if total / gap <= _TICKS), total / _TICKS)
        first, end = ceil(self.start.timestamp() / gap) * gap, self.end.timestamp()
        marks = (first + number * gap for number in range(_TICKS + 1))
        times = [datetime.fromtimestamp(mark, UTC) for mark in marks if mark <= end]
        return [(self.place(at), _time_label(at, gap)) for at in times]

    def labels(self) -> list[tuple[float, str, str]]:
        """Return the positions, anchors and texts of the labels, with the one of now."""
        now = self.now_place
        shown = [(x, name) for x, name in self.ticks() if now is None or abs(x - now) > _AROUND_NOW]
        shown += [] if now is None else [(now, "now")]
        ends = 100 - _EDGE
        return [
            (x, "start" if x < _EDGE else "end" if x > ends else "middle", name)
            for x, name in shown
        ]


def _time_label(at: datetime, gap: float) -> str:
    if gap >= _DAY:
        return f"{at:%b} {at.day}"
    return f"{at:%H:%M}" if gap >= _MINUTE else f"{at:%H:%M:%S}"


class Span(NamedTuple):
    """A stretch of time. `kind` is a tone, `wait` (for a person) or `guess` (the forecast)."""

    start: datetime
    end: datetime
    kind: str
    text: str = ""
    url: str = ""


class Column(NamedTuple):
    """A column of stacked parts, bottom first. A part is a tone or a class, with its value."""

    label: str
    parts: Sequence[tuple[str, float]]
    text: str = ""
    url: str = ""


def place_columns(
    items: Sequence[Column],
    height: int,
    show: Callable[[int], str],
    line: tuple[float, str] | None = None,
) -> dict[str, Any]:
    """Return columns over an axis, such as the cost by day.

    `show` formats the values of the axis, and `line` is a limit with its name.
    """
    items = items[-MAX_COLUMNS:]
    limit, limit_name = line or (0.0, "")
    totals = [sum(_size(value) for _, value in item.parts) for item in items]
    top, base = round_up(max([_size(limit), *totals])), height - _FOOT
    rise, each = (base - _HEAD) / top, 96 / (len(items) or 1)
    every = ceil(len(items) / _TICKS) or 1
    levels = [(0.0, "", "rule"), (top, show(round(top)), "rule")]
    if height >= 2 * (_HEAD + _FOOT + _FOOT) and top / 2 == round(top / 2):
        levels.append((top / 2, show(round(top / 2)), "rule"))
    if _size(limit):
        levels.append((limit, limit_name, "limit"))
    columns = []
    for number, item in enumerate(items):
        y, parts = float(base), []
        for kind, value in item.parts:
            if (tall := _size(value) * rise) > 0:
                y -= tall
                parts.append((kind, y, max(tall - 1, 0.5)))
        name = item.label if number % every == 0 else ""
        columns.append((_EDGE + each * number, parts, name, item))
    placed = [(base - value * rise, name.removesuffix(".00"), look) for value, name, look in levels]
    stop = 0 if len(items) <= MAX_TAB_STOPS else -1
    return {"base": base, "each": each, "levels": placed, "columns": columns, "stop": stop}


def place_spans(
    spans: Sequence[Span], period: Period
) -> tuple[int, list[tuple[float, float, int, Span]]]:
    """Return the number of rows of a lane, and the left edge, width and row of each span.

    Spans at the same time are in different rows.
    """
    bars, ends = [], [0.0]
    for span in _joined(spans, period):
        end = period.place(span.end)
        width = max(end - period.place(span.start), _MIN_SPAN)
        x = max(end - width, 0.0)
        free = (row for row, right in enumerate(ends) if right <= x + _MIN_SPAN)
        row = min(next(free, len(ends)), _MAX_ROWS - 1)
        ends[row : row + 1] = [x + width]
        bars.append((x, width, row, span))
    return len(ends), bars


def place_burnup(
    done: Sequence[tuple[datetime, float]],
    scope: Sequence[tuple[datetime, float]],
    period: Period,
    *,
    forecast: tuple[datetime, datetime] | None = None,
    height: int = 132,
) -> dict[str, Any]:
    """Return the finished work and the scope over time, with the cone of the forecast.

    `done` and `scope` are running totals, oldest first. `forecast` has the earliest and the latest
    expected end.
    """
    done, scope = _thin(done), _thin(scope)
    goal, last = (_size(points[-1][1]) if points else 0.0 for points in (scope, done))
    top = max([1.0, last, *(_size(value) for _, value in scope)]) * 1.12
    base, place = height - _FOOT, period.place
    now = 100.0 if period.now_place is None else period.now_place

    def path(points: Sequence[tuple[datetime, float]], end: float) -> str:
        turns = [(number(place(at)), number(100 - 100 * _size(v) / top)) for at, v in points]
        moves = "".join(f"H{x}V{y}" for x, y in turns[1:])
        return f"M{turns[0][0]} {turns[0][1]}{moves}H{number(max(end, place(points[-1][0])))}"

    shapes = []
    if forecast:
        early, late = sorted(map(place, forecast))
        low, high = (number(100 - 100 * value / top) for value in (last, goal))
        shapes.append(("fan", f"M{number(now)} {low}L{number(early)} {high}H{number(late)}Z"))
    if done:
        line = path(done, now)
        shapes += [("area", f"{line}V100H{number(place(done[0][0]))}Z"), ("line done", line)]
    if scope:
        shapes.append(("scope", path(scope, 100.0)))
    dots = [
        (place(at), base - base * _size(value) / top, at, _size(value))
        for at, value in (done if len(done) <= MAX_TAB_STOPS else ())
    ]
    shown = {"height": height, "base": base, "goal": goal, "goal_y": base - base * goal / top - 5}
    return {**shown, "shapes": shapes, "dots": dots, "period": period}


def _joined(spans: Sequence[Span], period: Period) -> Sequence[Span]:
    """Return the spans in the period. If there are too many, neighbors are merged."""
    inside = [s for s in spans if period.start <= s.end >= s.start <= period.end]
    size = ceil(len(inside) / MAX_SPANS)
    if size <= 1:
        return inside
    return [_join(inside[start : start + size]) for start in range(0, len(inside), size)]


def _join(spans: Sequence[Span]) -> Span:
    text = "; ".join(dict.fromkeys(span.text for span in spans if span.text))
    short = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
    # Kinds without a tone are the least urgent.
    kind = min((span.kind for span in spans), key=lambda kind: (*TONES, kind).index(kind))
    return Span(min(s.start for s in spans), max(s.end for s in spans), kind, short)


def _thin(values: Sequence[T]) -> Sequence[T]:
    """Return about `MAX_POINTS` of the values, with the first and the last."""
    every = ceil(len(values) / MAX_POINTS)
    return values if every <= 1 else [*values[:-1:every], values[-1]]


def round_up(value: float) -> float:
    """Return a round number that is at least as large, for the top of an axis.

    >>> round_up(0.4), round_up(21), round_up(26), round_up(900), round_up(0)
    (0.4, 25.0, 30.0, 1000.0, 1.0)
    """
    if _size(value) < 1 / _MAX_VALUE:
        return 1.0
    unit = 10.0 ** floor(log10(_size(value)))
    steps = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 20)
    return float(next(unit * step for step in steps if unit * step >= _size(value)))


def _size(value: float) -> float:
    """Return a value that can be drawn: finite and not negative."""
    return min(value, _MAX_VALUE) if isfinite(value) and value > 0 else 0.0


def number(value: float) -> str:
    """Return a coordinate as text."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
