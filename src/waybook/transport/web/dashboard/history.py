"""What happened, as sentences on a page."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from waybook.store.sheets import HistoryEntry
from waybook.usecases.deeds import event_label


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    seq: int
    at: datetime
    who: str
    channel: str
    what: str
    comment: str | None


def history_rows(happenings: Iterable[HistoryEntry]) -> list[HistoryRow]:
    """Who did what, and what they said about it."""
    return [
        HistoryRow(
            seq=one.seq,
            at=one.at,
            who=f"{one.actor} ({one.session})" if one.session else one.actor,
            channel=one.channel,
            what=_what(one),
            comment=one.comment,
        )
        for one in happenings
    ]


def _what(one: HistoryEntry) -> str:
    if one.decision is not None:
        return f"decided a review: {one.decision}"
    what = event_label(one.event, one.action)
    return what if one.step_order is None else what.replace("a step", f"step {one.step_order}")
