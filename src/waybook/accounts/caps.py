"""Decides whether work may start under the caps of its plan or run, of its agent and of the org.

What a worker may use is reserved before it starts, and replaced by what it used when it has ended.
So the sum of used and reserved amounts never exceeds a cap, however many workers there are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from waybook.core.changes import Entry, Event
from waybook.core.usage import to_dollars
from waybook.errors import InvalidInput, InvalidTransition
from waybook.json_values import Json


class Unit(StrEnum):
    TOKENS = "tokens"
    COST = "costUsd"
    SECONDS = "seconds"
    STEPS = "steps"
    #: Failures in a row. They cannot be reserved.
    FAILURES = "failures"


class CapScope(StrEnum):
    PLAN = "plan"
    RUN = "run"
    AGENT = "agent"
    ORG = "org"


class Period(StrEnum):
    TOTAL = "total"
    DAY = "day"


class Outcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    GIVEN_BACK = "given_back"


class Verdict(StrEnum):
    GRANTED = "granted"
    #: Others have reserved the room; it may become free again.
    WAITING = "waiting"
    #: Only a person can raise the limit.
    PAUSED = "paused"
    #: A person has ended the work.
    ENDED = "ended"


#: Amounts by unit. A cost is in millionths of a dollar.
Amounts = Mapping[Unit, int]


class Cap(NamedTuple):
    id: str
    scope: str
    #: The plan, run or agent; empty for the org.
    subject: str
    period: str
    unit: str
    most: int
    #: The limit that a caller last set. A person may have raised it since.
    asked: int
    #: Amount used since the cap was made or, if its period is a day, on this day in UTC.
    used: int
    #: What open reservations may use at most.
    reserved: int
    #: What reservations that expired in the last week might have used: they were never settled, as
    #: when a worker was killed.
    unknown: int
    paused_at: datetime | None
    ended_at: datetime | None

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.scope, self.subject, self.period, self.unit

    @property
    def spent(self) -> int:
        """Return what is used or might be."""
        return self.used + self.unknown

    def shown(self, amount: int) -> float:
        return to_dollars(amount) if self.unit == Unit.COST else amount


class WantedCap(NamedTuple):
    """A cap that a caller asks for."""

    scope: str
    subject: str
    period: str
    unit: str
    most: int


class Ruling(NamedTuple):
    verdict: Verdict
    #: The cap that decided, unless the work is granted.
    cap: Cap | None = None
    #: What is reserved, if the work is granted.
    amounts: Amounts = MappingProxyType({})


def rule(caps: Iterable[Cap], maximum: Amounts) -> Ruling:
    """Decide whether work that uses at most `maximum` may start.

    If the maximum of a capped unit is unknown, all that is left of the cap is reserved.
    """
    amounts = {**maximum, Unit.STEPS: 1, Unit.FAILURES: 1}
    refusals: dict[Verdict, Cap] = {}
    for cap in caps:
        unit, free = Unit(cap.unit), cap.most - cap.spent
        room = free - cap.reserved
        wanted = amounts.get(unit) if unit in maximum or unit not in _MEASURED else None
        if cap.ended_at is not None:
            refusals.setdefault(Verdict.ENDED, cap)
        elif free < (wanted or 1):
            refusals.setdefault(Verdict.PAUSED, cap)
        elif room < (wanted or 1):
            refusals.setdefault(Verdict.WAITING, cap)
        elif wanted is None:
            amounts[unit] = min(room, amounts.get(unit, room))
    for verdict in (Verdict.ENDED, Verdict.PAUSED, Verdict.WAITING):
        if verdict in refusals:
            return Ruling(verdict, refusals[verdict])
    return Ruling(Verdict.GRANTED, amounts={u: n for u, n in amounts.items() if u in _MEASURED})


#: Units of which a worker states the maximum.
_MEASURED = frozenset({Unit.TOKENS, Unit.COST, Unit.SECONDS})


def used_after(cap: Cap, used: Amounts, outcome: Outcome) -> int:
    """Return what is used of a cap after a piece of work has ended."""
    match Unit(cap.unit):
        case Unit.STEPS:
            return cap.used + (outcome is not Outcome.GIVEN_BACK)
        case Unit.FAILURES if outcome is Outcome.FAILED:
            return cap.used + 1
        case Unit.FAILURES:
            return 0 if outcome is Outcome.COMPLETED else cap.used
        case unit:
            return cap.used + used.get(unit, 0)


class CapChange(NamedTuple):
    wanted: WantedCap
    #: The existing cap, or None if the cap is new.
    cap: Cap | None
    entry: Entry


def changes(
    caps: Sequence[Cap], wanted: Iterable[WantedCap], *, may_raise: bool
) -> Iterator[CapChange]:
    """Yield the caps to create, to lower and, if the caller may do so, to raise.

    A caller that repeats a limit does not undo that a person raised it.
    """
    existing = {cap.key: cap for cap in caps}
    for new in wanted:
        cap = existing.get(new[:4])
        if cap is None:
            entry = _entry("cap_set", new, to=new.most)
            yield CapChange(new, None, entry)
        elif new.most != cap.asked and (new.most < cap.most or (may_raise and new.most > cap.most)):
            entry = _entry("cap_set", new, to=new.most, cap_from=cap.most)
            yield CapChange(new, cap, entry)


def raise_cap(cap: Cap, most: int) -> Entry:
    """Return the audit entry of a cap that a person raises. Ended work may go on then.

    Raises:
        InvalidInput: the limit is not above the current one.
    """
    if most <= cap.most:
        raise InvalidInput(
            f"the limit is {cap.shown(cap.most):,} now; a new limit must be above it",
            argument="limit",
            limit=cap.shown(cap.most),
        )
    return _entry("cap_raised", cap, to=most, cap_from=cap.most)


def end_work(cap: Cap) -> Entry:
    """Return the audit entry of a cap at which a person ends the work.

    Raises:
        InvalidTransition: the work has been ended already.
    """
    if cap.ended_at is not None:
        raise InvalidTransition("this work has been ended already", old="ended", new="ended")
    return _entry("cap_ended", cap, cap_from=cap.most)


def _entry(action: str, cap: Cap | WantedCap, *, cap_from: int | None = None, to: int = 0) -> Entry:
    """Return an audit entry of the org. Limits on cost are in millionths of a dollar."""
    details: dict[str, Json] = {
        "action": action,
        "scope": cap.scope,
        "of": cap.subject,
        "period": cap.period,
        "unit": cap.unit,
        "from": cap_from,
        "to": to or None,
    }
    return Entry(Event.PLAN_MODIFIED, {k: v for k, v in details.items() if v is not None}, ())
