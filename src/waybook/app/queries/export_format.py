"""File format of the complete JSON exports of plans and runs.

An export contains every row and the audit chain, so that another installation can verify the chain
on import.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import orjson

from waybook.app.queries.audit import entry_view, read_entries
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Row, Rows
from waybook.errors import InvalidInput
from waybook.json_values import Body, Json
from waybook.store.audit import SealedEntry

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


def exported_row(row_id: str, row: Row) -> Row:
    """Return a row for an export, with its id and with column names in camel case."""
    return {"id": row_id, **{_camel(name): value for name, value in row.items()}}


def exported_rows(rows: Rows, keys: Mapping[str, str]) -> Body:
    return {name: _list(rows.get(kind, {})) for kind, name in keys.items()}


def _list(rows: Mapping[str, Row]) -> list[Json]:
    items = sorted(rows.items(), key=lambda item: (_place(item[1]), item[0]))
    return [exported_row(row_id, row) for row_id, row in items]


def _place(row: Row) -> int:
    """Return the number by which steps and conditions are sorted, or 0 for other rows."""
    place = row.get("order", row.get("position"))
    return place if isinstance(place, int) else 0


def imported_row(item: Json, where: str) -> tuple[str, Row]:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        raise InvalidInput(f"{where} of this export is not a row with an id; export again")
    columns = {_snake(name): value for name, value in item.items() if name != "id"}
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


def _camel(column: str) -> str:
    first, *rest = column.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def exported_entry(entry: SealedEntry) -> Body:
    """Return an audit entry as JSON, with the exact text that its hash covers."""
    return {**entry_view(entry), "record": entry.details}


async def export_parts(
    ctx: RequestContext, body: Body, subject_id: str, *, until: int
) -> AsyncIterator[bytes]:
    """Yield a complete export piece by piece, to limit memory use."""
    yield orjson.dumps(body)[:-1] + b',"audit":['
    comma = b""
    async for page in read_entries(ctx, subject_id, until=until):
        yield comma + b",".join(orjson.dumps(exported_entry(entry)) for entry in page)
        comma = b","
    yield b"]}\n"
