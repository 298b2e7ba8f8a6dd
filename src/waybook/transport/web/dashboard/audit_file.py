"""The audit as a file: a line per entry, sent as it is read, up to a bound."""

import csv
import io
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from waybook.store.audit import Sealed
from waybook.transport.web.reading import HARMLESS
from waybook.usecases.browse_audit import AskedEntries, all_entries
from waybook.usecases.call import Call
from waybook.usecases.list_audit import entry_view

COLUMNS: Final = ("at", "subject", "subject_id", "seq", "event", "actor", "channel", "session",
                  "details")  # fmt: skip
#: What makes a formula of a cell, in the programs that open such files.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


async def audit_file(call: Call, asked: AskedEntries, form: str) -> Response:
    """The entries asked for, newest first.

    Raises:
        InvalidInput: this cannot be asked.
    """
    if form not in FORMS:
        raise HTTPException(404)
    kind, lines = FORMS[form]
    pages = all_entries(call, asked)
    # A refusal must come before the first byte: so the first page is fetched here.
    first = await anext(pages)
    headers = {
        **HARMLESS,
        "content-disposition": f'attachment; filename="audit.{form}"',
        "content-type": f"{kind}; charset=utf-8",
    }
    return StreamingResponse(_sent(first, pages, lines), headers=headers)


async def _sent(
    first: list[Sealed], rest: AsyncIterator[list[Sealed]], lines: Callable[[list[Sealed]], str]
) -> AsyncIterator[str]:
    if lines is csv_lines:
        yield _csv([COLUMNS])
    yield lines(first)
    async for page in rest:
        yield lines(page)


def json_lines(entries: list[Sealed]) -> str:
    """The entries, one JSON object a line."""
    return "".join(orjson.dumps(entry_view(entry)).decode() + "\n" for entry in entries)


def csv_lines(entries: list[Sealed]) -> str:
    """The entries as rows of a table."""
    return _csv(
        tuple(
            harmless_cell(text)
            for text in (
                entry.at.isoformat(),
                entry.subject,
                entry.subject_id,
                str(entry.seq),
                entry.event,
                entry.actor,
                entry.channel,
                entry.session or "",
                entry.details,
            )
        )
        for entry in entries
    )


def harmless_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula.

    >>> harmless_cell("=1+1"), harmless_cell("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


def _csv(rows: object) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)  # type: ignore[arg-type]  # rows of texts
    return out.getvalue()


FORMS: Final[Mapping[str, tuple[str, Callable[[list[Sealed]], str]]]] = MappingProxyType(
    {"csv": ("text/csv", csv_lines), "jsonl": ("application/jsonl", json_lines)}
)
