"""Reading on in a text that a packet cut: a piece of it, from where the packet ended."""

from typing import Any

from waybook.errors import InvalidInput
from waybook.record.moment import Json
from waybook.research.cutting import as_text, beginning, size
from waybook.store import audit
from waybook.store.contexts import Page, piece_of_step_statement, piece_statement
from waybook.store.ids import is_id
from waybook.store.sql import Statement
from waybook.usecases.audit_trail import told_beside
from waybook.usecases.call import Body, Call, not_found
from waybook.usecases.flags import within
from waybook.usecases.packet_parts import Reader

#: Texts of the plan itself, texts of one of its steps, and texts with an id or a number.
OF_PLAN = (
    "name",
    "reason",
    "researchQuestion",
    "planFormattingNotes",
    "outputFormattingInstructions",
)
OF_STEP = ("title", "failReason", "dependsOn", "instructions", "resultSchema", "result")
BY_ID = ("artifact", "summary", "questions", "feedback")
BY_NUMBER = ("failure", "event")
#: Numbers of entries go no further.
LONGEST_NUMBER = 9


async def read_on(
    call: Call, reader: Reader, plan_id: str, part: str, page: Page, ending: Json
) -> Body:
    """A piece of one of the texts of a plan.

    Raises:
        InvalidInput: there is no such part.
        NotFound: there is nothing in it.
    """
    found = (await call.read(statement_of(plan_id, part, page)))[0]
    length, text = _event_piece(found, page) if part.startswith("event:") else _piece(found)
    frame: Body = {**reader.args, "part": part, "content": "", "left": length}
    spent = size({**frame, "next": ending}) + size(reader.get(part).told(length, offset=length))

    def piece(room: int) -> Body:
        content = beginning(text, room - spent)
        left = max(0, length - page.offset - len(content))
        onward = reader.get(part).told(left, offset=page.offset + len(content))["get"]
        return {**frame, "content": content, "left": left, "next": onward if left else ending}

    return within(piece, page.most)


def statement_of(plan_id: str, part: str, page: Page) -> Statement:
    """The statement that reads this part.

    Raises:
        InvalidInput: there is no such part.
    """
    kind, _, which = part.partition(":")
    if (kind in OF_PLAN and not which) or (kind in BY_ID and is_id(which)):
        return piece_statement(plan_id, kind, which or None, page)
    if kind in OF_STEP and is_id(which):
        return piece_of_step_statement(plan_id, kind, which.lower(), page)
    if kind in BY_NUMBER and which.isascii() and which.isdecimal() and len(which) <= LONGEST_NUMBER:
        if kind == "event":
            return audit.SQL["entry"](subject_id=plan_id, seq=int(which))
        return piece_statement(plan_id, kind, which, page)
    raise InvalidInput(
        f"part: there is no part {part!r}; take it from the cut of a reply",
        parts=[*OF_PLAN, *(f"{one}:ID" for one in (*OF_STEP, *BY_ID, *BY_NUMBER))],
    )


def _piece(rows: list[tuple[Any, ...]]) -> tuple[int, str]:
    if not rows or rows[0][0] is None:
        raise not_found("part")
    return rows[0][0], rows[0][1]


def _event_piece(rows: list[tuple[Any, ...]], page: Page) -> tuple[int, str]:
    if not rows:
        raise not_found("entry")
    (entry,) = audit.read_entries(rows)
    text = as_text(told_beside(entry))
    return len(text), text[page.offset :]
