"""Code that the contexts of steps and plans share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from waybook.app.request.caller import MAX_REPLY_BYTES
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.cutting import as_text
from waybook.research.packet import Entry, EntryList, FetchCall, TextField
from waybook.store.plans.contexts import (
    Page,
    ResultPrefixRow,
    StoredArtifact,
    TextPrefix,
    read_prefix,
)

BYTES_PER_TOKEN = 4
DEFAULT_TOKENS = 6_000
#: A larger token budget has no effect, unless the caller requests detail.
REPLY_TOKENS = 12_000
MAX_TOKENS = 200_000
MIN_TOKENS = 500
MAX_PACKET_BYTES = BYTES_PER_TOKEN * REPLY_TOKENS


def byte_budget(tokens: int | None, *, detail: bool = False) -> int:
    if detail:
        return min(BYTES_PER_TOKEN * (tokens or MAX_TOKENS), MAX_REPLY_BYTES)
    return min(BYTES_PER_TOKEN * (tokens or DEFAULT_TOKENS), MAX_PACKET_BYTES)


@dataclass(frozen=True, slots=True)
class PacketReader:
    """The tool and arguments with which an agent fetches more of a context."""

    tool: str
    args: Body

    def get(self, part: str) -> FetchCall:
        return FetchCall(self.tool, {**self.args, "part": part})

    def with_more_room(self, **more: Json) -> FetchCall:
        return FetchCall(self.tool, {**self.args, **more})

    def text(
        self, name: str, value: Json, *, part: str | None = None, counts: int = 1
    ) -> Iterable[TextField]:
        if value is not None:
            yield TextField(name=name, value=value, get=self.get(part or name), counts=counts)

    def beginning(
        self, name: str, read: TextPrefix | None, *, part: str, counts: int = 1
    ) -> Iterable[TextField]:
        """Yield a text field whose beginning is loaded."""
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
        return EntryList(
            name=name,
            entries=tuple(entries),
            get=self.get(name),
            beyond=max(0, total - page.offset - len(entries)),
            resume=lambda shown: {"offset": page.offset + shown},
            counts=counts,
        )

    def artifact(self, stored: StoredArtifact) -> Entry:
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
        entries = {stored.id: stored for stored in ranked}
        entries |= {stored.id: stored for stored in newest if stored.id not in entries}
        return EntryList(
            name="artifacts",
            entries=tuple(self.artifact(stored) for stored in entries.values()),
            get=self.get("artifacts"),
            beyond=max(0, total - len(entries)),
            counts=counts,
        )


def results_by_step(rows: Iterable[ResultPrefixRow]) -> dict[str, tuple[float | None, TextPrefix]]:
    return {
        row.step_id: (row.confidence, read_prefix(row.kind, row.length, row.text))
        for row in rows
        if row.text is not None
    }
