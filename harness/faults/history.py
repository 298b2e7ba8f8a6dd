"""Record of every tool call that agents made, with its answer."""

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
#: Matches an id in a reply. The JSON of the reply may be quoted inside a text.
WORK_ID: Final = re.compile(r'(?:plan|step|run|job|review)Id\\?":\s*\\?"([0-9a-z]{12})\b')
#: Fields of a reply that the history stores, because the checkers read them.
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
    """Outcome of a tool call, as far as its caller knows it."""

    #: The server answered that the call succeeded.
    ACKNOWLEDGED = "acknowledged"
    #: The server answered that a rule forbids the call.
    REFUSED = "refused"
    #: The call got no answer, or only answers that leave its outcome unknown.
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class Call:
    """Tool call with one idempotency key, whose request is sent once or several times."""

    org: str
    user: str
    session: str
    tool: str
    args: Body
    key: str | None = None
    #: Times at which the first request was sent and the last answer was received.
    sent: float = 0.0
    received: float = 0.0
    #: Time of sending the request that got the answer. It may be a repetition of the first request.
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
        """Return whether the answer is the stored answer to an earlier attempt of the same call."""
        return bool(self.reply.get("replayed"))


@dataclass(frozen=True, slots=True)
class Hung:
    """Request that got no answer before its deadline, although its connection stayed open."""

    tool: str
    server: str
    sent: float
    seconds: float


class History:
    """All tool calls of a test run in the order in which they ended, also written to a file."""

    def __init__(self, canaries: Mapping[str, str], file: Path | None = None) -> None:
        """Create an empty history.

        Each org has a canary: a text that only its own data contains.
        """
        self.calls: list[Call] = []
        self.hung: list[Hung] = []
        #: Texts or ids of one org that were found in replies to another org.
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
        """Search a reply to this org for data of other orgs, and record it.

        Ids in the arguments of the call (`sent`) are ignored, because error messages repeat them.
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
        """Yield the acknowledged calls of these tools."""
        return (call for call in self.calls if call.tool in tools and call.is_acknowledged)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
