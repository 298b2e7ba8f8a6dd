"""Replay of the audit that finds steps and jobs which a rule did not allow to start."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from faults.history import Body
from faults.rows import Entry

ENDED: Final = frozenset({"completed", "skipped", "failed"})
HELD: Final = frozenset({"in_progress", "processing"})
KINDS: Final = frozenset({"step", "job"})
WHOLE_ROW: Final = "*"


@dataclass(frozen=True, slots=True)
class Started:
    """Violation: a conversation got a step or job while it held one of the same plan or run."""

    message: str


@dataclass(frozen=True, slots=True)
class Opening:
    """Violation: a step was started before a step on which it depends had ended."""

    message: str


@dataclass(slots=True)
class Board:
    """Statuses of the steps and jobs in each plan and run, after the latest audit entry."""

    depends_on: Mapping[str, tuple[str, ...]]
    #: Fields of each step or job, by plan or run.
    work: dict[str, dict[str, Body]] = field(default_factory=dict)

    def take(self, entry: Entry) -> Iterator[Started | Opening]:
        """Apply an audit entry; yield the violations that it shows."""
        known = self.work.setdefault(entry.subject_id, {})
        before = {key: dict(value) for key, value in known.items()} if _starts(entry) else {}
        for change in entry.details.get("changes", ()):
            if change["entity"] in KINDS:
                _apply(known, change)
        if _starts(entry):
            yield from self._faults(entry, before)

    def _faults(self, entry: Entry, before: Mapping[str, Body]) -> Iterator[Started | Opening]:
        started = entry.details.get("stepId") or entry.details.get("jobId")
        who = (entry.actor, entry.session)
        for other, values in before.items():
            holder = (values.get("held_by"), values.get("held_session"))
            if other != started and values.get("status") in HELD and holder == who:
                yield Started(f"{who} was handed {started} while holding {other}")
        for needed in self.depends_on.get(str(started), ()):
            status = before.get(needed, {}).get("status")
            if status is not None and status not in ENDED:
                yield Opening(f"step {started} was started while {needed} was {status}")


def _starts(entry: Entry) -> bool:
    return entry.event == "step_started" and not entry.details.get("resumed")


def _apply(known: dict[str, Body], change: Mapping[str, Any]) -> None:
    row_id, name = change["id"], change["field"]
    if name != WHOLE_ROW:
        known.setdefault(row_id, {})[name] = change["to"]
    elif change["to"] is None:
        known.pop(row_id, None)
    else:
        known[row_id] = dict(change["to"])
