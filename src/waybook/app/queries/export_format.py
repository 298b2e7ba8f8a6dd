"""File format of the complete JSON exports of plans and runs.

An export contains every row and the audit chain, so that another installation can verify the chain
on import.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson

from waybook.app.queries.audit import entry_view, read_entries
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Row, Rows
from waybook.errors import InvalidInput
from waybook.json_values import Body, Json, rfc3339
from waybook.store.audit import SealedEntry
from waybook.store.plans.details import HistoryEntry

PLAN_FORMAT: Final = "waybook.plan"
RUN_FORMAT: Final = "waybook.run"
VERSION: Final = 2
PLAN_KEYS: Final = {
    "step": "steps",
    "condition": "conditions",
    "review": "reviews",
    "artifact": "artifacts",
    "source": "sources",
    "artifact_source": "artifactSources",
    "usage": "usage",
    "session": "sessions",
}
RUN_KEYS: Final = {
    "stage_run": "stages",
    "stage_step": "steps",
    "job": "jobs",
    "job_part": "jobParts",
    "document": "documents",
    "rendered_document": "renderedDocuments",
    "late_result": "lateResults",
    "usage": "usage",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRows:
    """All rows of a plan or run as of its audit entry `seq`."""

    kind: str
    id: str
    name: str
    now: datetime
    seq: int
    rows: Rows
    #: Newest audit entries of a plan.
    history: Sequence[HistoryEntry] = ()
    #: Definition of a run's workflow.
    definition: Json = None

    @property
    def row(self) -> Row:
        (row,) = self.rows[self.kind].values()
        return row


def exported_row(row_id: str, row: Row) -> Row:
    """Return a row for an export, with its id and with column names in camel case."""
    exported: Row = {"id": row_id}
    for column, value in row.items():
        first, *rest = column.split("_")
        exported[first + "".join(word.capitalize() for word in rest)] = value
    return exported


def exported_rows(rows: Rows, keys: Mapping[str, str]) -> Body:
    def place(item: tuple[str, Row]) -> tuple[int, str]:
        """Steps and conditions are sorted by number, and other rows by id."""
        row_id, row = item
        number = row.get("order", row.get("position"))
        return number if isinstance(number, int) else 0, row_id

    return {
        name: [exported_row(*item) for item in sorted(rows.get(kind, {}).items(), key=place)]
        for kind, name in keys.items()
    }


def imported_row(item: Json, where: str) -> tuple[str, Row]:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        raise InvalidInput(f"{where} of this export is not a row with an id; export again")
    columns = {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name): value
        for name, value in item.items()
        if name != "id"
    }
    return str(item["id"]), columns


def imported_rows(export: Mapping[str, Json], keys: Mapping[str, str]) -> Rows:
    """Return the rows of an export by kind and id. This is the inverse of `exported_rows`.

    Raises:
        InvalidInput: a list is missing, or an item is not a row.
    """
    rows: Rows = {}
    for kind, name in keys.items():
        items = export.get(name)
        if not isinstance(items, list):
            raise InvalidInput(f"this export has no list {name}; export again")
        if items:
            places = enumerate(items, start=1)
            rows[kind] = dict(imported_row(item, f"{name}, item {n},") for n, item in places)
    return rows


def exported_entry(entry: SealedEntry) -> Body:
    """Return an audit entry as JSON, with the exact text that its hash covers."""
    return {**entry_view(entry), "record": entry.details}


def export_body(exported: ExportedRows) -> Body:
    """Return the JSON export of a plan or run, without its audit entries."""
    is_plan = exported.kind == "plan"
    return {
        "format": PLAN_FORMAT if is_plan else RUN_FORMAT,
        "version": VERSION,
        "exportedAt": rfc3339(exported.now),
        exported.kind: exported_row(exported.id, exported.row),
        **({} if is_plan else {"definition": exported.definition}),
        **exported_rows(exported.rows, PLAN_KEYS if is_plan else RUN_KEYS),
    }


async def export_json(ctx: RequestContext, exported: ExportedRows) -> AsyncIterator[bytes]:
    """Yield a complete export piece by piece, to limit memory use."""
    yield orjson.dumps(export_body(exported))[:-1] + b',"audit":['
    comma = b""
    async for page in read_entries(ctx, exported.id, until=exported.seq):
        yield comma + b",".join(orjson.dumps(exported_entry(entry)) for entry in page)
        comma = b","
    yield b"]}\n"
