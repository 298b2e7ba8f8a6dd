"""Reads the rest of texts that were cut off in a context."""

from waybook.app.context.parts import PacketReader
from waybook.app.queries.audit import entry_details
from waybook.app.request.answers import build_within
from waybook.app.request.request_context import RequestContext, not_found
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json
from waybook.research.cutting import as_text, json_size, truncate
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.driver.queries import Statement, is_id
from waybook.store.plans.contexts import (
    Page,
    TextSliceRow,
    step_text_slice_statement,
    text_slice_statement,
)

PLAN_PARTS = (
    "name",
    "reason",
    "researchQuestion",
    "planFormattingNotes",
    "outputFormattingInstructions",
)
STEP_PARTS = ("title", "failReason", "dependsOn", "instructions", "resultSchema", "result")
PARTS_BY_ID = ("artifact", "summary", "questions", "feedback")
PARTS_BY_NUMBER = ("failure", "event")
MAX_NUMBER_DIGITS = 9


async def read_continuation(
    ctx: RequestContext, reader: PacketReader, plan_id: str, part: str, page: Page, ending: Json
) -> Body:
    """Return a piece of a plan's text; `part` names the text, such as `result:ID`.

    Raises:
        NotFound: there is no such part, or it is empty.
    """
    rows = (await ctx.read(part_statement(plan_id, part, page)))[0]
    length, text = _event_piece(rows, page) if part.startswith("event:") else _piece(rows)
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


def part_statement(plan_id: str, part: str, page: Page) -> Statement:
    """Select one of a plan's texts by the name in `part`.

    Raises:
        NotFound: there is no such part.
    """
    kind, _, which = part.partition(":")
    if (kind in PLAN_PARTS and not which) or (kind in PARTS_BY_ID and is_id(which)):
        return text_slice_statement(plan_id, kind, which or None, page)
    if kind in STEP_PARTS and is_id(which):
        return step_text_slice_statement(plan_id, kind, which.lower(), page)
    if (
        kind in PARTS_BY_NUMBER
        and which.isascii()
        and which.isdecimal()
        and len(which) <= MAX_NUMBER_DIGITS
    ):
        if kind == "event":
            return audit.SQL["entry"](subject_id=plan_id, seq=int(which))
        return text_slice_statement(plan_id, kind, which, page)
    raise NotFound(
        f"part: there is no part {part!r}; copy it from `cut` in a reply",
        next_call=NextCall("get_research_context", {"planId": plan_id}, "Read the plan again."),
        parts=[
            *PLAN_PARTS,
            *(f"{part_kind}:ID" for part_kind in (*STEP_PARTS, *PARTS_BY_ID, *PARTS_BY_NUMBER)),
        ],
    )


def _piece(rows: list[TextSliceRow]) -> tuple[int, str]:
    if not rows or rows[0].length is None:
        raise not_found("part")
    return rows[0].length, rows[0].text


def _event_piece(rows: list[SealedEntry], page: Page) -> tuple[int, str]:
    if not rows:
        raise not_found("entry")
    (entry,) = audit.read_entries(rows)
    text = as_text(entry_details(entry))
    return len(text), text[page.offset :]
