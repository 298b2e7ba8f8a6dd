"""Builds the parts that contexts of steps and of plans share, and reads the rest of cut texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from waybook.app.queries.audit import entry_details
from waybook.app.request.answers import build_within
from waybook.app.request.arguments import clamped
from waybook.app.request.caller import MAX_REPLY_BYTES
from waybook.app.request.request_context import RequestContext, not_found
from waybook.core.ids import is_id
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.packet import (
    Entry,
    EntryList,
    FetchCall,
    Part,
    TextField,
    as_text,
    build_packet,
    json_size,
    truncate,
)
from waybook.store import audit
from waybook.store.driver.queries import Row, Statement, is_uuid
from waybook.store.plans import contexts
from waybook.store.plans.contexts import (
    Page,
    StoredArtifact,
    TextPrefix,
    read_prefix,
    text_slice_statement,
)

_BYTES_PER_TOKEN = 4
#: Maximum token budget of a context, without and with the argument `detail`.
_REPLY_TOKENS = 12_000
_MAX_TOKENS = 200_000
BudgetTokens = Annotated[int, clamped(500, _MAX_TOKENS)]


def byte_budget(tokens: int | None, *, detail: bool = False) -> int:
    if detail:
        return min(_BYTES_PER_TOKEN * (tokens or _MAX_TOKENS), MAX_REPLY_BYTES)
    return _BYTES_PER_TOKEN * min(tokens or 6_000, _REPLY_TOKENS)


@dataclass(frozen=True, slots=True)
class PacketReader:
    """Builds a context. `tool` and `args` are the call with which an agent reads the rest."""

    tool: str
    args: Body

    def get(self, part: str) -> FetchCall:
        return FetchCall(self.tool, {**self.args, "part": part})

    def reply(self, head: Body, parts: Sequence[Part], following: Json, most: int) -> Body:
        """Return a context of at most `most` bytes, with `following` as the suggested next call."""
        again = FetchCall(self.tool, {**self.args, "budgetTokens": _REPLY_TOKENS})
        ending: Body = {"next": following}
        return build_within(
            lambda room: build_packet(head, parts, ending=ending, room=room, again=again), most
        )

    def text(
        self, name: str, value: Json, *, part: str | None = None, counts: int = 1
    ) -> Iterable[TextField]:
        if value is not None:
            yield TextField(name=name, value=value, get=self.get(part or name), counts=counts)

    def beginning(
        self, name: str, read: TextPrefix | None, *, part: str, counts: int = 1
    ) -> Iterable[TextField]:
        """Yield a field with the beginning of a text, or nothing if there is no text."""
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
        get, (value, length) = self.get(f"artifact:{stored.id}"), stored.content
        content = TextField(name="content", value=value, get=get, length=length)
        if stored.passage is not None and len(as_text(value)) < length:
            length = max(length, len(stored.passage) + 1)
            content = TextField(
                name="content", value=stored.passage, get=get, length=length, resumes=False
            )
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
            texts=(content,),
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


def results_by_step(rows: Iterable[Row]) -> dict[str, tuple[float | None, TextPrefix]]:
    return {
        row.step_id: (row.confidence, read_prefix(row.kind, row.length, row.text))
        for row in rows
        if row.text is not None
    }


_PLAN_PARTS = (
    "name",
    "reason",
    "researchQuestion",
    "planFormattingNotes",
    "outputFormattingInstructions",
)
STEP_PARTS = ("title", "failReason", "dependsOn", "instructions", "resultSchema", "result")
PARTS_BY_ID = ("artifact", "summary", "questions", "feedback")
_PARTS_BY_NUMBER = ("failure", "event")
_MAX_NUMBER_DIGITS = 9


async def read_continuation(
    ctx: RequestContext, reader: PacketReader, plan_id: str, part: str, page: Page, ending: Json
) -> Body:
    """Return a piece of a text of a plan, from the offset of `page` on.

    `part` is the name of the text, such as `result:ID`. `ending` is the next call that the reply
    suggests after the last piece.
    """
    rows = (await ctx.read(_part_statement(plan_id, part, page)))[0]
    if not rows:
        raise not_found("entry" if part.startswith("event:") else "part")
    if part.startswith("event:"):
        (entry,) = rows
        details = as_text(entry_details(entry))
        length, text = len(details), details[page.offset :]
    else:
        row = rows[0]
        if row.length is None:
            raise not_found("part")
        length, text = row.length, row.text
    frame: Body = {**reader.args, "part": part, "content": "", "left": length}
    spent = json_size({**frame, "next": ending}) + json_size(
        reader.get(part).to_json(length, offset=length)
    )

    def piece(room: int) -> Body:
        content = truncate(text, room - spent)
        left = max(0, length - page.offset - len(content))
        onward = reader.get(part).to_json(left, offset=page.offset + len(content))["get"]
        return {**frame, "content": content, "left": left, "next": onward if left else ending}

    return build_within(piece, page.most)


def _part_statement(plan_id: str, part: str, page: Page) -> Statement:
    kind, _, which = part.partition(":")
    if (kind in _PLAN_PARTS and not which) or (
        kind in PARTS_BY_ID and (is_id(which) or is_uuid(which))
    ):
        return text_slice_statement(plan_id, kind, which or None, page)
    if kind in STEP_PARTS and is_id(which):
        return contexts.SQL["step_text_slice"](
            plan_id=plan_id, kind=kind, id=which, **page._asdict()
        )
    if (
        kind in _PARTS_BY_NUMBER
        and which.isascii()
        and which.isdecimal()
        and len(which) <= _MAX_NUMBER_DIGITS
    ):
        if kind == "event":
            return audit.SQL["entry"](subject_id=plan_id, seq=int(which))
        return text_slice_statement(plan_id, kind, which, page)
    raise NotFound(
        f"part: there is no part {part!r}; copy it from `cut` in a reply",
        next_call=NextCall("get_research_context", {"planId": plan_id}, "Read the plan again."),
        parts=[
            *_PLAN_PARTS,
            *(f"{part_kind}:ID" for part_kind in (*STEP_PARTS, *PARTS_BY_ID, *_PARTS_BY_NUMBER)),
        ],
    )
