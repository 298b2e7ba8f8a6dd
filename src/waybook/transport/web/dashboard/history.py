"""What happened, as sentences on a page."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from waybook.store.sheets import Happening
from waybook.usecases.deeds import deed


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    seq: int
    at: datetime
    who: str
    channel: str
    what: str
    said: str | None


def deeds_of(happenings: Iterable[Happening]) -> list[Deed]:
    """Who did what, and what they said about it."""
    return [
        Deed(
            seq=one.seq,
            at=one.at,
            who=f"{one.actor} ({one.session})" if one.session else one.actor,
            channel=one.channel,
            what=_what(one),
            said=one.said,
        )
        for one in happenings
    ]


def _what(one: Happening) -> str:
    if one.decision is not None:
        return f"decided a review: {one.decision}"
    what = deed(one.event, one.action)
    return what if one.step_order is None else what.replace("a step", f"step {one.step_order}")
