"""What packets of steps and of plans have in common: how large they are, and how one reads on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from waybook.plan.model import Step
from waybook.record.moment import Json
from waybook.research.cutting import as_text
from waybook.research.packet import Entry, Get, Listed, Text
from waybook.store.contexts import Beginning, Page, Stored, read_beginning
from waybook.usecases.call import Body
from waybook.usecases.exchange import MAX_REPLY_BYTES
from waybook.usecases.views import moment, told

#: How many bytes a token is taken for; a character is a byte or more.
TOKEN = 4
DEFAULT_TOKENS = 6_000
#: With more, nothing more comes: no reply is longer unless detail is asked for.
ENOUGH_TOKENS = 12_000
MOST_TOKENS = 200_000
LEAST_TOKENS = 500
#: How long a reply may be, in bytes.
LONGEST = TOKEN * ENOUGH_TOKENS


def room(tokens: int | None, *, detail: bool = False) -> int:
    """How many bytes a packet may take."""
    if detail:
        return min(TOKEN * (tokens or MOST_TOKENS), MAX_REPLY_BYTES)
    return min(TOKEN * (tokens or DEFAULT_TOKENS), LONGEST)


@dataclass(frozen=True, slots=True)
class Reader:
    """Whoever reads a packet, and the call it reads on with."""

    tool: str
    args: Body

    def get(self, part: str) -> Get:
        """The call that brings this part."""
        return Get(self.tool, {**self.args, "part": part})

    def again(self, **more: Json) -> Get:
        """The call that brings the same with more room."""
        return Get(self.tool, {**self.args, **more})

    def text(
        self, name: str, value: Json, *, part: str | None = None, counts: int = 1
    ) -> Iterable[Text]:
        """A field that is at hand whole, if there is anything in it."""
        if value is not None:
            yield Text(name=name, value=value, get=self.get(part or name), counts=counts)

    def beginning(
        self, name: str, read: Beginning | None, *, part: str, counts: int = 1
    ) -> Iterable[Text]:
        """A field of which the beginning is at hand."""
        if read is not None:
            yield Text(
                name=name,
                value=read.value,
                get=self.get(part),
                length=max(read.length, len(as_text(read.value))),
                counts=counts,
            )

    def page(
        self, name: str, entries: Sequence[Entry], page: Page, total: int, *, counts: int = 1
    ) -> Listed:
        """A page of a list."""
        return Listed(
            name=name,
            entries=tuple(entries),
            get=self.get(name),
            beyond=max(0, total - page.offset - len(entries)),
            resume=lambda shown: {"offset": page.offset + shown},
            counts=counts,
        )

    def artifact(self, stored: Stored) -> Entry:
        """An artifact with what is in it: the passage that was found, or its beginning."""
        return Entry(
            frame=told(
                artifactId=stored.id,
                stepId=stored.step_id,
                kind=stored.kind,
                title=stored.title,
                superseded=stored.superseded or None,
                createdAt=moment(stored.created_at),
                createdBy=stored.created_by,
            ),
            texts=(self._content(stored),),
        )

    def _content(self, stored: Stored) -> Text:
        get, (value, length) = self.get(f"artifact:{stored.id}"), stored.content
        if stored.passage is None or len(as_text(value)) >= length:
            return Text(name="content", value=value, get=get, length=length)
        length = max(length, len(stored.passage) + 1)
        return Text(name="content", value=stored.passage, get=get, length=length, resumes=False)

    def artifacts(
        self, ranked: Sequence[Stored], newest: Sequence[Stored], total: int, *, counts: int = 1
    ) -> Listed:
        """What matters most first, then what is newest; the call brings all, newest first."""
        entries = {stored.id: stored for stored in ranked}
        entries |= {stored.id: stored for stored in newest if stored.id not in entries}
        return Listed(
            name="artifacts",
            entries=tuple(self.artifact(stored) for stored in entries.values()),
            get=self.get("artifacts"),
            beyond=max(0, total - len(entries)),
            counts=counts,
        )


def named(step: Step, **more: Json) -> Body:
    """A step in a list, without what could be long."""
    return told(
        stepId=step.id,
        stepOrder=step.order,
        stepType=str(step.type),
        title=step.title,
        status=str(step.status),
        **more,
    )


def results_by_step(rows: Iterable[tuple[Any, ...]]) -> dict[str, tuple[float | None, Beginning]]:
    """The results that were read, each with its confidence."""
    return {
        step_id: (confidence, read_beginning(kind, length, text))
        for step_id, confidence, kind, length, text in rows
        if text is not None
    }


def total(rows: Sequence[tuple[Any, ...]]) -> int:
    """How many there are in all, as the last column of a page says."""
    return rows[0][-1] if rows else 0
