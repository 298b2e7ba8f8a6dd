"""The audit as a file: a line per entry, sent as it is read, up to a bound."""

import csv
import io
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from waybook.store.audit import SealedEntry
from waybook.transport.web.reading import SANDBOX_HEADERS
from waybook.usecases.browse_audit import AuditFilter, all_entries
from waybook.usecases.call import RequestContext
from waybook.usecases.list_audit import entry_view

COLUMNS: Final = ("at", "subject", "subject_id", "seq", "event", "actor", "channel", "session",
                  "details")  # fmt: skip
#: What makes a formula of a cell, in the programs that open such files.
FORMULA_PREFIXES: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


async def export_audit(ctx: RequestContext, asked: AuditFilter, form: str) -> Response:
    """The entries asked for, newest first.

    Raises:
        InvalidInput: this cannot be asked.
    """
    if form not in EXPORT_FORMATS:
        raise HTTPException(404)
    kind, lines = EXPORT_FORMATS[form]
    pages = all_entries(ctx, asked)
    # A refusal must come before the first byte: so the first page is fetched here.
    first = await anext(pages)
    headers = {
        **SANDBOX_HEADERS,
        "content-disposition": f'attachment; filename="audit.{form}"',
        "content-type": f"{kind}; charset=utf-8",
    }
    return StreamingResponse(_sent(first, pages, lines), headers=headers)


async def _sent(
    first: list[SealedEntry],
    rest: AsyncIterator[list[SealedEntry]],
    lines: Callable[[list[SealedEntry]], str],
) -> AsyncIterator[str]:
    if lines is csv_lines:
        yield _csv([COLUMNS])
    yield lines(first)
    async for page in rest:
        yield lines(page)


def json_lines(entries: list[SealedEntry]) -> str:
    """The entries, one JSON object a line."""
    return "".join(orjson.dumps(entry_view(entry)).decode() + "\n" for entry in entries)


def csv_lines(entries: list[SealedEntry]) -> str:
    """The entries as rows of a table."""
    return _csv(
        tuple(
            escape_cell(text)
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


def escape_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula.

    >>> escape_cell("=1+1"), escape_cell("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if text.startswith(FORMULA_PREFIXES) else text


def _csv(rows: object) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)  # type: ignore[arg-type]  # rows of texts
    return out.getvalue()


EXPORT_FORMATS: Final[Mapping[str, tuple[str, Callable[[list[SealedEntry]], str]]]] = (
    MappingProxyType({"csv": ("text/csv", csv_lines), "jsonl": ("application/jsonl", json_lines)})
)
