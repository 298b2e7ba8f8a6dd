"""Inserts an exported plan or run, with its audit chain unchanged."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import psycopg

from waybook.core.changes import Entity, Row, Rows
from waybook.errors import InvalidInput
from waybook.json_values import Json, rfc3339
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.columns import TABLES
from waybook.store.driver.queries import AsJson, Statement, load

SQL = load("maintenance/import_rows")

_MAX_ROWS = 500
_RESULT_COLUMNS = [column.name for column in TABLES["step_result"].columns if column.is_audited]

_RowT = TypeVar("_RowT")
_TableRows = Iterator[tuple[str, Iterable[Row]]]


class Copy(NamedTuple):
    id: str
    rows: Rows
    texts: Mapping[str, Row]
    entries: list[SealedEntry]


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise InvalidInput(
            f"the database refused a row of this export: {error.diag.message_primary}; nothing "
            "was imported"
        ) from error


def plan_statements(copy: Copy) -> list[Statement]:
    return _statements(_plan_tables(copy), copy.entries)


def run_statements(copy: Copy) -> list[Statement]:
    return _statements(_run_tables(copy), copy.entries)


def _statements(tables: _TableRows, entries: list[SealedEntry]) -> list[Statement]:
    return [
        *(SQL[table](items=AsJson(part)) for table, rows in tables for part in _batches([*rows])),
        *(s for part in _batches(entries) for s in audit.audit_statements(part)),
    ]


def _batches(rows: list[_RowT]) -> Iterator[list[_RowT]]:
    return (rows[start : start + _MAX_ROWS] for start in range(0, len(rows), _MAX_ROWS))


def _plan_tables(copy: Copy) -> _TableRows:
    (plan,) = copy.rows["plan"].values()
    in_plan: Row = {"plan_id": copy.id}
    yield "plan", [{**plan, "id": copy.id, **_head(copy.entries)}]
    yield "plan_brief", [{**plan, **in_plan}]
    steps = copy.rows.get("step", {})
    columns = [column for column in TABLES["plan_step"].columns if column.is_audited]
    yield (
        "plan_step",
        (
            {c.name: step.get(c.field) for c in columns}
            | {"depends_on": step.get("depends_on") or None, "id": i, **in_plan}
            for i, step in steps.items()
        ),
    )
    yield "step_brief", ({**step, "step_id": i} for i, step in steps.items())
    yield (
        "step_result",
        (
            {**step, "step_id": i}
            for i, step in steps.items()
            if any(step.get(name) is not None for name in _RESULT_COLUMNS)
        ),
    )
    yield "branching_condition", _children(copy, "condition", in_plan)
    yield "review", _children(copy, "review", in_plan)
    yield "plan_session", _children(copy, "session", in_plan, key="session")
    artifacts = _children(copy, "artifact", in_plan)
    yield "artifact", ({**row, "tags": row.get("tags") or []} for row in artifacts)
    creation = _creations(copy.entries, Entity.SOURCE)
    yield "source", _children(copy, "source", {}, lambda i: creation[i])
    yield "artifact_source", copy.rows.get("artifact_source", {}).values()
    yield "usage", _children(copy, "usage", in_plan)
    yield "comment", _children(copy, "comment", in_plan)


def _run_tables(copy: Copy) -> _TableRows:
    (run,) = copy.rows["run"].values()
    in_run: Row = {"run_id": copy.id}
    yield "run", [{**run, "id": copy.id, **_head(copy.entries)}]
    yield "run_brief", [{**run, **in_run}]
    yield "stage_run", _children(copy, "stage_run", in_run, key="stage_slug")
    steps = copy.rows.get("stage_step", {}).items()
    yield "stage_step", ({**step, **in_run, **_step_key(key)} for key, step in steps)
    yield "job", _children(copy, "job", in_run)
    yield "job_part", _children(copy, "job_part", in_run, key="job_id")
    creation = _creations(copy.entries, Entity.DOCUMENT)
    yield "document", _children(copy, "document", in_run, lambda i: creation[i])
    yield "rendered_document", _children(copy, "rendered_document", in_run)
    yield "late_result", _children(copy, "late_result", in_run)
    yield "usage", _children(copy, "usage", in_run)
    yield "comment", _children(copy, "comment", in_run)


def _children(
    copy: Copy,
    kind: str,
    parent: Row,
    more: Callable[[str], Row] = lambda _: {},
    *,
    key: str = "id",
) -> Iterator[Row]:
    for row_id, row in copy.rows.get(kind, {}).items():
        yield {**row, **more(row_id), **copy.texts.get(row_id, {}), key: row_id, **parent}


def _head(entries: list[SealedEntry]) -> Row:
    last = entries[-1]
    seal = "\\x" + bytes(last.hash).hex()
    return {"audit_seq": last.seq, "audit_hash": seal, "updated_at": rfc3339(last.at)}


def _creations(entries: Iterable[SealedEntry], kind: Entity) -> dict[str, Row]:
    created: dict[str, Row] = {}
    for entry in entries:
        for change in audit.changes_of(json.loads(entry.details)):
            if change.entity is kind and change.old is None and change.id not in created:
                by: dict[str, Json] = {"created_by": entry.actor}
                created[change.id] = {"created_at": rfc3339(entry.at), **by}
    return created


def _step_key(key: str) -> Row:
    """Split the id that the audit has for a step of a run into its stage and its key.

    >>> _step_key("a~1b~0/c/d")
    {'stage_slug': 'a/b~', 'step_key': 'c/d'}
    """
    stage, _, step = key.partition("/")
    return {"stage_slug": stage.replace("~1", "/").replace("~0", "~"), "step_key": step}
