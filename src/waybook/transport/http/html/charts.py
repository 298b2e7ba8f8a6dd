"""Charts as inline SVG: pure functions of numbers, times and labels.

Positions are in percent of the width, so that a chart fits any width without a script and its text
is not distorted. Colors come from the style sheet, through a tone (`data-s`, see `tone_of`) or a
class. Marks show their text on hover, and on focus if there are not too many. The size of a chart
has a limit: neighbors are merged, or the first columns omitted.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from math import ceil, floor, isfinite, log10
from typing import Final, NamedTuple, TypeVar

from markupsafe import Markup

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
_LIMIT_X: Final = 64
#: Width of the shortest span in percent, and height and number of the rows of a lane.
_MIN_SPAN: Final = 0.6
_ROW: Final = 24
_MAX_ROWS: Final = 12
#: Tones, most urgent first.
_TONES: Final = ("fail", "ask", "warn", "run", "todo", "done", "skip")
_QUIET: Final = frozenset({"done", "skip", "todo"})


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


def columns(
    items: Sequence[Column],
    label: str,
    *,
    height: int = 96,
    show: Callable[[int], str] = str,
    line: tuple[float, str] | None = None,
) -> Markup:
    """Return columns over an axis, such as the cost by day.

    `show` formats the values of the axis, and `line` is a limit with its name.
    """
    items = items[-MAX_COLUMNS:]
    limit, limit_name = line or (0.0, "")
    totals = [sum(_size(value) for _, value in item.parts) for item in items]
    top, base = round_up(max([_size(limit), *totals])), height - _FOOT
    rise, each = (base - _HEAD) / top, 96 / (len(items) or 1)
    every = ceil(len(items) / _TICKS) or 1
    out = [_level(base, 0, rise, ""), _level(base, top, rise, show(round(top)))]
    if height >= 2 * (_HEAD + _FOOT + _FOOT) and top / 2 == round(top / 2):
        out.append(_level(base, top / 2, rise, show(round(top / 2))))
    hit = Markup('<rect class="hit" x="{}%" width="{}%" y="{}" height="{}"/>')
    rect = Markup('<rect {} x="{}%" width="{}%" y="{}" height="{}"/>')
    text = Markup('<text x="{}%" y="{}" text-anchor="middle">{}</text>')
    for number, item in enumerate(items):
        left = _EDGE + each * number
        x, wide, y = _n(left + 0.14 * each), _n(0.72 * each), float(base)
        drawn = [hit.format(x, wide, _HEAD, base - _HEAD)]
        for kind, value in item.parts:
            if (tall := _size(value) * rise) > 0:
                y -= tall
                drawn.append(rect.format(_paint(kind), x, wide, _n(y), _n(max(tall - 1, 0.5))))
        mark = Markup("").join(drawn)
        out.append(_point(mark, item.text, item.url, is_stop=len(items) <= MAX_TAB_STOPS))
        if number % every == 0:
            out.append(text.format(_n(left + each / 2), height - 4, item.label))
    if _size(limit):
        out.append(_level(base, limit, rise, limit_name, "limit"))
    return _svg("chart", height, label, out)


def _level(base: int, value: float, rise: float, name: str, look: str = "rule") -> Markup:
    """Return a horizontal line at a value, with its name."""
    y = base - value * rise
    line = Markup('<line class="{0}" x1="0" x2="100%" y1="{1}" y2="{1}"/>').format(
        look, _n(y + 0.5)
    )
    # The name of a limit is to the right of the values of the axis.
    text = Markup('<text class="of-{}" x="{}" y="{}">{}</text>')
    x = 0 if look == "rule" else _LIMIT_X
    return line + text.format(look, x, _n(y - 4), name.removesuffix(".00")) if name else line


def lane(spans: Sequence[Span], period: Period, label: str) -> Markup:
    """Return the work of an agent or model; `time_axis` draws its axis.

    Spans at the same time are below each other.
    """
    rect = Markup('<rect {} x="{}%" width="{}%" y="{}" height="20" rx="4">{}</rect>')
    link = Markup('<a href="{}" aria-label="{}" tabindex="{}">{}</a>')
    bars, ends = list[Markup](), [0.0]
    for span in _joined(spans, period):
        end = period.place(span.end)
        width = max(end - period.place(span.start), _MIN_SPAN)
        x = max(end - width, 0)
        free = (row for row, right in enumerate(ends) if right <= x + _MIN_SPAN)
        row = min(next(free, len(ends)), _MAX_ROWS - 1)
        ends[row : row + 1] = [x + width]
        title, y = _title(span.text), _ROW * row + 8
        bar = rect.format(_paint(span.kind), _n(x), _n(width), y, title)
        # Finished work is in the table, so it is not a tab stop.
        stop = -1 if span.kind in _QUIET else 0
        bars.append(link.format(span.url, span.text, stop, bar) if span.url else bar)
    height = _ROW * len(ends) + 12
    rule = Markup('<line class="rule" x1="{0}%" x2="{0}%" y1="-8" y2="{1}"/>')
    out = [rule.format(_n(x), height + 8) for x, _ in period.ticks()]
    out += [_now_line(period, -10, height + 10), *bars]
    role = "group" if any(span.url for span in spans) else "img"
    return _svg("chart lane", height, label, out, role=role)


def time_axis(period: Period) -> Markup:
    """Return the labels of the time axis of lanes."""
    labels = Markup("").join(_time_labels(period, 11))
    return Markup('<svg class="chart" height="16" aria-hidden="true">{}</svg>').format(labels)


def burnup(
    done: Sequence[tuple[datetime, float]],
    scope: Sequence[tuple[datetime, float]],
    period: Period,
    label: str,
    *,
    forecast: tuple[datetime, datetime] | None = None,
    what: str = "steps",
    height: int = 132,
) -> Markup:
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
        turns = [(_n(place(at)), _n(100 - 100 * _size(value) / top)) for at, value in points]
        moves = "".join(f"H{x}V{y}" for x, y in turns[1:])
        return f"M{turns[0][0]} {turns[0][1]}{moves}H{_n(max(end, place(points[-1][0])))}"

    shape, shapes = Markup('<path class="{}" d="{}"/>'), []
    if forecast:
        early, late = sorted(map(place, forecast))
        low, high = (_n(100 - 100 * value / top) for value in (last, goal))
        shapes.append(shape.format("fan", f"M{_n(now)} {low}L{_n(early)} {high}H{_n(late)}Z"))
    if done:
        line = path(done, now)
        shapes.append(shape.format("area", f"{line}V100H{_n(place(done[0][0]))}Z"))
        shapes.append(shape.format("line done", line))
    if scope:
        shapes.append(shape.format("scope", path(scope, 100.0)))
    frame = Markup(
        '<line class="rule" x1="0" x2="100%" y1="{0}.5" y2="{0}.5"/><svg viewBox="0 0 100 100" '
        'preserveAspectRatio="none" width="100%" height="{0}">{1}</svg>'
        '<text x="0" y="{2}">{3}</text>'
    )
    name, dot = f"{_n(goal)} {what}", Markup('<circle cx="{}%" cy="{}" r="4"/>')
    out = [frame.format(base, Markup("").join(shapes), _n(base - base * goal / top - 5), name)]
    out.append(_now_line(period, 0, base))
    for at, value in done if len(done) <= MAX_TAB_STOPS else ():
        mark = dot.format(_n(place(at)), _n(base - base * _size(value) / top))
        words = f"{at:%b} {at.day}, {at:%H:%M}: {_n(_size(value))} of {name}"
        out.append(_point(mark, words, "", is_stop=True))
    return _svg("chart", height, label, [*out, *_time_labels(period, height - 3)])


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
    kind = min((span.kind for span in spans), key=lambda kind: (*_TONES, kind).index(kind))
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


def _svg(
    look: str, height: int, label: str, drawn: Iterable[Markup], *, role: str = "group"
) -> Markup:
    # An image has no parts for screen readers, so a chart with links or tab stops is a group.
    return Markup('<svg class="{}" height="{}" role="{}" aria-label="{}">{}</svg>').format(
        look, height, role, label, Markup("").join(drawn)
    )


def _point(drawn: Markup, text: str, url: str, *, is_stop: bool) -> Markup:
    """Return a mark that shows its text on hover and on focus."""
    if not text:
        return drawn
    tip = Markup('<text class="tip" x="100%" y="11" text-anchor="end">{}</text>').format(text)
    stop = 0 if is_stop else -1
    if url:
        link = Markup('<a class="pt" href="{}" aria-label="{}" tabindex="{}">{}{}</a>')
        return link.format(url, text, stop, drawn, tip)
    group = Markup('<g class="pt" role="img" aria-label="{}" tabindex="{}">{}{}</g>')
    return group.format(text, stop, drawn, tip)


def _time_labels(period: Period, y: int) -> list[Markup]:
    now, label = period.now_place, Markup('<text x="{}%" y="{}" text-anchor="{}"{}>{}</text>')
    shown = [
        (x, name, "") for x, name in period.ticks() if now is None or abs(x - now) > _AROUND_NOW
    ]
    if now is not None:
        shown.append((now, "now", Markup(' class="nowtext"')))
    ends = 100 - _EDGE
    return [
        label.format(
            _n(x), y, "start" if x < _EDGE else "end" if x > ends else "middle", look, name
        )
        for x, name, look in shown
    ]


def _now_line(period: Period, top: int, bottom: int) -> Markup:
    if period.now_place is None:
        return Markup("")
    line = Markup('<line class="now" x1="{0}%" x2="{0}%" y1="{1}" y2="{2}"/>')
    return line.format(_n(period.now_place), top, bottom)


def _title(text: str) -> Markup:
    return Markup("<title>{}</title>").format(text) if text else Markup("")


def _paint(kind: str) -> Markup:
    is_tone = kind in _TONES
    return (Markup('data-s="{}"') if is_tone else Markup('class="{}"')).format(kind)


def _size(value: float) -> float:
    """Return a value that can be drawn: finite and not negative."""
    return min(value, _MAX_VALUE) if isfinite(value) and value > 0 else 0.0


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
