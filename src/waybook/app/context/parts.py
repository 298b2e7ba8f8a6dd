"""Builds the parts that contexts of steps and of plans share, and reads the rest of cut texts."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from waybook.app.queries.audit import entry_details
from waybook.app.request.answers import build_within
from waybook.app.request.arguments import clamped
from waybook.app.request.caller import MAX_REPLY_BYTES
from waybook.app.request.request_context import RequestContext, not_found
from waybook.core.ids import is_id
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, fields_of, non_empty
from waybook.research import packet
from waybook.store import audit
from waybook.store.driver.queries import Row, Statement, is_uuid
from waybook.store.plans import contexts

_BYTES_PER_TOKEN = 4
#: Maximum token budgets of a context: first without, then with the argument `detail`.
_REPLY_TOKENS = 12_000
_MAX_TOKENS = 200_000
BudgetTokens = Annotated[int, clamped(500, _MAX_TOKENS)]


def byte_budget(tokens: int | None, *, detail: bool = False) -> int:
    if detail:
        return min(_BYTES_PER_TOKEN * (tokens or _MAX_TOKENS), MAX_REPLY_BYTES)
    return _BYTES_PER_TOKEN * min(tokens or 6_000, _REPLY_TOKENS)


class PacketReader:
    """Builds a context. `tool` and `args` are the call with which an agent reads the rest."""

    def __init__(self, tool: str, args: Body, most: int, offset: int) -> None:
        """Build a context of at most `most` bytes. A requested part begins at `offset`."""
        self.tool, self.args, self.at = tool, args, contexts.Page(offset, most)

    def get(self, part: str) -> packet.FetchCall:
        return packet.FetchCall(self.tool, {**self.args, "part": part})

    def reply(self, head: Body, parts: Sequence[packet.Part], following: Json) -> Body:
        """Return the context, with `following` as the suggested next call."""
        again = packet.FetchCall(self.tool, {**self.args, "budgetTokens": _REPLY_TOKENS})
        ending: Body = {"next": following}
        return build_within(
            lambda room: packet.build_packet(head, parts, ending=ending, room=room, again=again),
            self.at.most,
        )

    def text(
        self,
        name: str,
        value: "Json | contexts.TextPrefix",
        *,
        part: str | None = None,
        counts: int = 1,
    ) -> tuple[packet.TextField, ...]:
        """Return one field with a text or its beginning, or no field if there is no text."""
        length: int | None = None
        if isinstance(value, contexts.TextPrefix):
            length = max(value.length, len(packet.as_text(value.value)))
            value = value.value
        elif value is None:
            return ()
        get = self.get(part or name)
        return (packet.TextField(name=name, value=value, get=get, length=length, counts=counts),)

    def page(
        self, name: str, entries: Iterable[packet.Entry], total: int, *, counts: int = 1
    ) -> packet.EntryList:
        listed, offset = tuple(entries), self.at.offset
        return packet.EntryList(
            name=name,
            entries=listed,
            get=self.get(name),
            beyond=max(0, total - offset - len(listed)),
            resume=lambda shown: {"offset": offset + shown},
            counts=counts,
        )

    def artifact_page(
        self, name: str, rows: Sequence[contexts.StoredArtifact], counts: int = 1
    ) -> packet.EntryList:
        return self.page(name, map(self.artifact, rows), contexts.total_count(rows), counts=counts)

    def artifact(self, stored: contexts.StoredArtifact) -> packet.Entry:
        get, (value, length) = self.get(f"artifact:{stored.id}"), stored.content
        content = packet.TextField(name="content", value=value, get=get, length=length)
        if stored.passage is not None and len(packet.as_text(value)) < length:
            length = max(length, len(stored.passage) + 1)
            content = packet.TextField(
                name="content", value=stored.passage, get=get, length=length, resumes=False
            )
        frame = non_empty(
            artifactId=stored.id,
            **fields_of(stored, "step_id kind title created_at created_by"),
            superseded=stored.superseded or None,
        )
        return packet.Entry(frame=frame, texts=(content,))

    def artifacts(
        self,
        ranked: Sequence[contexts.StoredArtifact],
        newest: Sequence[contexts.StoredArtifact],
        total: int,
        *,
        counts: int,
    ) -> packet.EntryList:
        rows = {row.id: row for row in ranked}
        rows |= {row.id: row for row in newest if row.id not in rows}
        entries = tuple(map(self.artifact, rows.values()))
        return packet.EntryList(
            name="artifacts",
            entries=entries,
            get=self.get("artifacts"),
            beyond=max(0, total - len(entries)),
            counts=counts,
        )

    async def continuation(
        self, ctx: RequestContext, plan_id: str, part: str, ending: Json
    ) -> Body:
        """Return a piece of a text of the plan.

        `part` is the name of the text, such as `result:ID`. `ending` is the next call that the
        reply suggests after the last piece.
        """
        rows = (await ctx.read(_part_statement(plan_id, part, self.at)))[0]
        if not rows:
            raise not_found("entry" if part.startswith("event:") else "part")
        offset = self.at.offset
        if part.startswith("event:"):
            details = packet.as_text(entry_details(rows[0]))
            length, text = len(details), details[offset:]
        else:
            row = rows[0]
            if row.length is None:
                raise not_found("part")
            length, text = row.length, row.text
        get = self.get(part)
        frame: Body = {**self.args, "part": part, "content": "", "left": length}
        spent = packet.json_size({**frame, "next": ending}) + packet.json_size(
            get.to_json(length, offset=length)
        )

        def piece(room: int) -> Body:
            content = packet.truncate(text, room - spent)
            upto = offset + len(content)
            left = max(0, length - upto)
            onward = get.to_json(left, offset=upto)["get"] if left else ending
            return {**frame, "content": content, "left": left, "next": onward}

        return build_within(piece, self.at.most)


def results_by_step(rows: Iterable[Row]) -> dict[str, tuple[float | None, contexts.TextPrefix]]:
    return {
        row.step_id: (row.confidence, contexts.read_prefix(row.kind, row.length, row.text))
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
PARTS_BY_ID = ("artifact", "summary", "questions", "feedback", "comment")
_MAX_NUMBER_DIGITS = 9


def _part_statement(plan_id: str, part: str, page: contexts.Page) -> Statement:
    kind, _, which = part.partition(":")
    is_number = which.isascii() and which.isdecimal() and len(which) <= _MAX_NUMBER_DIGITS
    if kind == "event" and is_number:
        return audit.SQL["entry"](subject_id=plan_id, seq=int(which))
    if kind in STEP_PARTS and is_id(which):
        named = {"kind": kind, "id": which, **page._asdict()}
        return contexts.SQL["step_text_slice"](plan_id=plan_id, **named)
    if (
        (kind in _PLAN_PARTS and not which)
        or (kind in PARTS_BY_ID and (is_id(which) or is_uuid(which)))
        or (kind == "failure" and is_number)
    ):
        return contexts.text_slice_statement(plan_id, kind, which or None, page)
    raise NotFound(
        f"part: there is no part {part!r}; copy it from `cut` in a reply",
        next_call=NextCall("get_research_context", {"planId": plan_id}, "Read the plan again."),
        parts=[
            *_PLAN_PARTS,
            *(f"{name}:ID" for name in (*STEP_PARTS, *PARTS_BY_ID, "failure", "event")),
        ],
    )
