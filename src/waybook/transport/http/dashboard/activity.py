"""Shows history entries as sentences, and timelines of steps drawn to scale."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from waybook.app.queries.audit import event_label
from waybook.app.queries.plans.plan import HistoryEntry, StepStatusChange
from waybook.app.queries.timeline import Axis, Span, spans_of, time_spent, time_waited
from waybook.core.durations import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    seq: int
    at: datetime
    who: str
    channel: str
    what: str
    comment: str | None


def history_rows(happenings: Iterable[HistoryEntry]) -> list[HistoryRow]:
    return [
        HistoryRow(
            seq=entry.seq,
            at=entry.at,
            who=f"{entry.actor} ({entry.session})" if entry.session else entry.actor,
            channel=entry.channel,
            what=_what(entry),
            comment=entry.comment,
        )
        for entry in happenings
    ]


def _what(entry: HistoryEntry) -> str:
    if entry.decision is not None:
        return f"decided a review: {entry.decision}"
    what = event_label(entry.event, entry.action)
    return what if entry.step_order is None else what.replace("a step", f"step {entry.step_order}")


WIDTH = 1000
MIN_SEGMENT_WIDTH = 4


@dataclass(frozen=True, slots=True)
class TimelineSegment:
    x: int
    width: int
    status: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimeline:
    """Timeline of one step, with its total working and waiting time."""

    segments: tuple[TimelineSegment, ...] = ()
    worked: timedelta | None = None
    waited: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    lines: dict[str, StepTimeline]
    worked: timedelta
    cuts: tuple[int, ...]

    def line(self, step_id: str) -> StepTimeline:
        return self.lines.get(step_id, EMPTY)


EMPTY = StepTimeline()


def build_timeline(moves: Iterable[StepStatusChange], now: datetime) -> Timeline:
    spans_by_step = spans_of(moves, now)
    axis = Axis([span for spans in spans_by_step.values() for span in spans])
    return Timeline(
        lines={step_id: _line(spans, axis) for step_id, spans in spans_by_step.items()},
        worked=axis.worked,
        cuts=tuple(dict.fromkeys(axis.cuts(WIDTH))),
    )


def _line(spans: Sequence[Span], axis: Axis) -> StepTimeline:
    waited = time_waited(spans)
    return StepTimeline(
        segments=tuple(_stretch(span, axis) for span in spans),
        worked=time_spent(spans),
        waited=waited or None,
    )


def _stretch(span: Span, axis: Axis) -> TimelineSegment:
    left, right = axis.column(span.start, WIDTH), axis.column(span.end, WIDTH)
    width = max(right - left, MIN_SEGMENT_WIDTH)
    label = f"{STATUS_WORDS.get(span.status, 'worked on')} {format_duration(span.length)}"
    return TimelineSegment(min(left, WIDTH - width), width, str(span.status), label)


STATUS_WORDS = {"awaiting_input": "waited for a person", "failed": "worked on, without a result"}
