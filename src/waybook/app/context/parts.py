"""What packets of steps and of plans have in common: how large they are, and how one reads on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from waybook.app.request.caller import MAX_REPLY_BYTES
from waybook.app.request.reply import format_time, non_empty
from waybook.json_values import Body, Json
from waybook.plan.model import Step
from waybook.research.cutting import as_text
from waybook.research.packet import Entry, EntryList, FetchCall, TextField
from waybook.store.plans.contexts import Page, StoredArtifact, TextPrefix, read_prefix

#: How many bytes a token is taken for; a character is a byte or more.
BYTES_PER_TOKEN = 4
DEFAULT_TOKENS = 6_000
#: With more, nothing more comes: no reply is longer unless detail is asked for.
REPLY_TOKENS = 12_000
MAX_TOKENS = 200_000
MIN_TOKENS = 500
#: How long a reply may be, in bytes.
MAX_PACKET_BYTES = BYTES_PER_TOKEN * REPLY_TOKENS


def byte_budget(tokens: int | None, *, detail: bool = False) -> int:
    """How many bytes a packet may take."""
    if detail:
        return min(BYTES_PER_TOKEN * (tokens or MAX_TOKENS), MAX_REPLY_BYTES)
    return min(BYTES_PER_TOKEN * (tokens or DEFAULT_TOKENS), MAX_PACKET_BYTES)


@dataclass(frozen=True, slots=True)
class PacketReader:
    """Whoever reads a packet, and the call it reads on with."""

    tool: str
    args: Body

    def get(self, part: str) -> FetchCall:
        """The call that brings this part."""
        return FetchCall(self.tool, {**self.args, "part": part})

    def with_more_room(self, **more: Json) -> FetchCall:
        """The call that brings the same with more room."""
        return FetchCall(self.tool, {**self.args, **more})

    def text(
        self, name: str, value: Json, *, part: str | None = None, counts: int = 1
    ) -> Iterable[TextField]:
        """A field that is at hand whole, if there is anything in it."""
        if value is not None:
            yield TextField(name=name, value=value, get=self.get(part or name), counts=counts)

    def beginning(
        self, name: str, read: TextPrefix | None, *, part: str, counts: int = 1
    ) -> Iterable[TextField]:
        """A field of which the beginning is at hand."""
        if read is not None:
            yield TextField(
                name=name,
                value=read.value,
                get=self.get(part),
                length=max(read.length, len(as_text(read.value))),
                counts=counts,
            )

    def page(
        self, name: str, entries: Sequence[Entry], page: Page, total: int, *, counts: int = 1
    ) -> EntryList:
        """A page of a list."""
        return EntryList(
            name=name,
            entries=tuple(entries),
            get=self.get(name),
            beyond=max(0, total - page.offset - len(entries)),
            resume=lambda shown: {"offset": page.offset + shown},
            counts=counts,
        )

    def artifact(self, stored: StoredArtifact) -> Entry:
        """An artifact with what is in it: the passage that was found, or its beginning."""
        return Entry(
            frame=non_empty(
                artifactId=stored.id,
                stepId=stored.step_id,
                kind=stored.kind,
                title=stored.title,
                superseded=stored.superseded or None,
                createdAt=format_time(stored.created_at),
                createdBy=stored.created_by,
            ),
            texts=(self._content(stored),),
        )

    def _content(self, stored: StoredArtifact) -> TextField:
        get, (value, length) = self.get(f"artifact:{stored.id}"), stored.content
        if stored.passage is None or len(as_text(value)) >= length:
            return TextField(name="content", value=value, get=get, length=length)
        length = max(length, len(stored.passage) + 1)
        return TextField(
            name="content", value=stored.passage, get=get, length=length, resumes=False
        )

    def artifacts(
        self,
        ranked: Sequence[StoredArtifact],
        newest: Sequence[StoredArtifact],
        total: int,
        *,
        counts: int = 1,
    ) -> EntryList:
        """What matters most first, then what is newest; the call brings all, newest first."""
        entries = {stored.id: stored for stored in ranked}
        entries |= {stored.id: stored for stored in newest if stored.id not in entries}
        return EntryList(
            name="artifacts",
            entries=tuple(self.artifact(stored) for stored in entries.values()),
            get=self.get("artifacts"),
            beyond=max(0, total - len(entries)),
            counts=counts,
        )


def step_header(step: Step, **more: Json) -> Body:
    """A step in a list, without what could be long."""
    return non_empty(
        stepId=step.id,
        stepOrder=step.order,
        stepType=str(step.type),
        title=step.title,
        status=str(step.status),
        **more,
    )


def results_by_step(rows: Iterable[tuple[Any, ...]]) -> dict[str, tuple[float | None, TextPrefix]]:
    """The results that were read, each with its confidence."""
    return {
        step_id: (confidence, read_prefix(kind, length, text))
        for step_id, confidence, kind, length, text in rows
        if text is not None
    }


def total_count(rows: Sequence[tuple[Any, ...]]) -> int:
    """How many there are in all, as the last column of a page says."""
    return rows[0][-1] if rows else 0
