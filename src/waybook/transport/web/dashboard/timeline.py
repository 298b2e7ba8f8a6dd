"""Timelines as they are drawn: for each step its stretches of work and of waiting, to scale."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from waybook.record.spans import span
from waybook.store.sheets import StepMove
from waybook.usecases.timeline import Axis, Span, spans_of, time_spent, time_waited
from waybook.usecases.watch_plan import Move

#: How wide a timeline is, in its own measure.
WIDTH = 1000
NARROWEST = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """A rectangle on the timeline."""

    x: int
    width: int
    status: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The timeline of one step, and in words what it comes to."""

    stretches: tuple[Stretch, ...] = ()
    worked: timedelta | None = None
    waited: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    lines: dict[str, Line]
    #: How long was worked altogether.
    worked: timedelta
    #: Where time is left out.
    cuts: tuple[int, ...]

    def line(self, step_id: str) -> Line:
        """The line of a step; an empty one for a step nobody has begun."""
        return self.lines.get(step_id, EMPTY)


EMPTY = Line()


def timeline_of(moves: Iterable[StepMove], now: datetime) -> Timeline:
    """Draw what these steps went through, idle time cut."""
    found = spans_of((Move(move.step_id, move.at, move.status) for move in moves), now)
    axis = Axis([one for spans in found.values() for one in spans])
    return Timeline(
        lines={step_id: _line(spans, axis) for step_id, spans in found.items()},
        worked=axis.worked,
        cuts=tuple(dict.fromkeys(axis.cuts(WIDTH))),
    )


def _line(spans: Sequence[Span], axis: Axis) -> Line:
    waited = time_waited(spans)
    return Line(
        stretches=tuple(_stretch(one, axis) for one in spans),
        worked=time_spent(spans),
        waited=waited or None,
    )


def _stretch(one: Span, axis: Axis) -> Stretch:
    left, right = axis.column(one.start, WIDTH), axis.column(one.end, WIDTH)
    width = max(right - left, NARROWEST)
    said = f"{WORDS.get(one.status, 'worked on')} {span(one.length)}"
    return Stretch(min(left, WIDTH - width), width, str(one.status), said)


WORDS = {"awaiting_input": "waited for a person", "failed": "worked on in vain"}
