"""History of the tool calls that agents made, with the answers."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

#: JSON object: a reply, or a part of a reply.
Body: TypeAlias = dict[str, Any]

UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Pattern for an id in a reply, even in JSON that is quoted in a text.
WORK_ID: Final = re.compile(r'(?:plan|step|run|job|review)Id\\?":\s*\\?"([0-9a-z]{12})\b')
#: Fields of replies that the checkers read, so the history keeps them.
KEPT_FIELDS: Final = (
    "status",
    "planId",
    "stepId",
    "attempt",
    "stepStatus",
    "planStatus",
    "progress",
    "counts",
    "runId",
    "jobId",
    "stepKey",
    "stage",
    "jobStatus",
    "resumed",
    "replayed",
    "leaseSeconds",
    "runComplete",
    "decision",
    "applied",
    "retried",
)


class Outcome(StrEnum):
    """Outcome of a tool call, as far as the caller knows."""

    #: The server answered that the call was successful.
    ACKNOWLEDGED = "acknowledged"
    #: The server answered that it refused the call.
    REFUSED = "refused"
    #: The call was not answered, or the answer does not show whether the call took effect.
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class Call:
    """Tool call, which is sent in one or more requests until it is answered."""

    org: str
    user: str
    session: str
    tool: str
    args: Body
    key: str | None = None
    #: Time of the first request, and time of the last answer.
    sent: float = 0.0
    received: float = 0.0
    #: Time at which the answered request was sent. It may be a repetition of the first request.
    answered_sent: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN
    code: str = ""
    reply: Body = field(default_factory=dict)
    tries: int = 0
    server: str = ""

    @property
    def holder(self) -> tuple[str, str]:
        """Return the user and session that made this call."""
        return self.user, self.session

    @property
    def is_acknowledged(self) -> bool:
        return self.outcome is Outcome.ACKNOWLEDGED

    @property
    def is_replayed(self) -> bool:
        """Return whether the reply was stored for an earlier request of the same call."""
        return bool(self.reply.get("replayed"))


@dataclass(frozen=True, slots=True)
class Hung:
    """Request without an answer before its deadline, although its connection stayed open."""

    tool: str
    server: str
    sent: float
    seconds: float


class History:
    """All tool calls of a test run, in the order in which they ended, optionally also in a file."""

    def __init__(self, canaries: Mapping[str, str], file: Path | None = None) -> None:
        """Create an empty history.

        Each org has a canary, which is a text that only its own data contains.
        """
        self.calls: list[Call] = []
        self.hung: list[Hung] = []
        #: Texts or ids of an org that were in replies to another org.
        self.leaks: list[str] = []
        self.counts: Counter[Outcome] = Counter()
        self.tries = 0
        self.retried: Counter[str] = Counter()
        self._canaries = dict(canaries)
        self._owners: dict[str, str] = {}
        self._file: TextIO | None = file.open("w") if file else None

    def add(self, call: Call) -> None:
        call.reply = {name: call.reply[name] for name in KEPT_FIELDS if name in call.reply}
        self.calls.append(call)
        self.counts[call.outcome] += 1
        self.tries += call.tries
        if self._file is not None:
            record = {attribute.name: getattr(call, attribute.name) for attribute in fields(Call)}
            self._file.write(json.dumps(record) + "\n")

    @property
    def acknowledged(self) -> int:
        return self.counts[Outcome.ACKNOWLEDGED]

    def inspect(self, org: str, raw: str, sent: str = "") -> None:
        """Record all data of other orgs in a reply to this org.

        Ids in `sent`, the arguments of the call, are ignored, because errors repeat them.
        """
        for other, canary in self._canaries.items():
            if other != org and canary in raw:
                self.leaks.append(f"a reply to {org} contains the canary of {other}: {raw[:300]}")
        for row_id in [*UUID.findall(raw), *WORK_ID.findall(raw)]:
            if row_id in sent:
                continue
            owner = self._owners.setdefault(row_id, org)
            if owner != org:
                self.leaks.append(f"a reply to {org} contains the id {row_id} of {owner}")

    def of(self, *tools: str) -> Iterator[Call]:
        return (call for call in self.calls if call.tool in tools and call.is_acknowledged)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
