"""Imports a complete JSON export: a plan or run with its audit chain.

The chain is verified and inserted unchanged. One entry is added that names the importing user.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from waybook.app.queries.audit import changes_in
from waybook.app.queries.work_export import (
    PLAN_FORMAT,
    PLAN_KEYS,
    RUN_FORMAT,
    RUN_KEYS,
    VERSION,
    imported_row,
    imported_rows,
)
from waybook.app.request.definition_cache import (
    compile_definition,
    definition_statement,
    is_stored,
)
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import (
    Entry,
    Event,
    ReplayError,
    Row,
    Rows,
    differences,
    replay,
    text_hash,
)
from waybook.core.decision_context import Scope
from waybook.core.ids import is_id
from waybook.errors import Forbidden, InvalidInput, Refused
from waybook.json_values import Body, Json
from waybook.plan.new_conditions import check_size
from waybook.run.model import CompiledDag
from waybook.store import audit
from waybook.store.audit import ChainHead, SealedEntry, WriteContext, sealed_entries
from waybook.store.driver.connection import KeyConflict
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement
from waybook.store.maintenance import import_rows
from waybook.store.maintenance.import_rows import Copy
from waybook.store.plans import load as plans
from waybook.store.runs import load as runs
from waybook.store.runs.load import DefinitionRow

_FORMATS: Final = {PLAN_FORMAT: ("plan", PLAN_KEYS), RUN_FORMAT: ("run", RUN_KEYS)}
#: For each kind of row, the columns with texts. The audit contains only hashes of these texts.
_TEXT_COLUMNS: Final = {
    "job_part": ("content",),
    "document": ("content",),
    "rendered_document": ("markdown", "html"),
    "late_result": ("content",),
}
_ENTRY_FIELDS: Final = ("seq", "at", "event", "actor", "channel", "record", "hash")


class ExportFile(NamedTuple):
    """Content of an export whose audit chain, rows and texts were verified."""

    kind: str
    id: str
    name: str
    exported_at: str
    entries: list[SealedEntry]
    rows: Rows
    texts: Mapping[str, Row]
    compiled_dag: CompiledDag | None

    @property
    def seal(self) -> str:
        return bytes(self.entries[-1].hash).hex()


def is_export(data: object) -> bool:
    return isinstance(data, dict) and data.get("format") in _FORMATS


def read_export(data: Body) -> ExportFile:
    """Verify an export's audit chain, rows and texts, and return its content."""
    kind, keys = _FORMATS[str(data["format"])]
    if data.get("version") != VERSION:
        raise InvalidInput(
            f"this export has format version {data.get('version')}, but this Waybook reads version "
            f"{VERSION}; export again with a Waybook that writes version {VERSION}"
        )
    subject_id, subject = imported_row(data.get(kind), kind)
    rows: Rows = {kind: {subject_id: subject}, **imported_rows(data, keys)}
    entries = _entries(data.get("audit"), kind, subject_id)
    broken = audit.first_broken(entries)
    if broken is not None:
        raise _damaged(f"its audit chain is broken: {broken[1]}")
    texts = {row_id: text for of_kind in rows for row_id, text in _pop_texts(rows, of_kind)}
    try:
        replayed = replay(changes_in(entries))
    except (ReplayError, ValueError) as error:
        raise _damaged(f"its audit entries cannot be replayed: {error}") from error
    wrong = differences(replayed, rows)
    if wrong:
        raise _damaged(f"its rows do not match its audit: {wrong[0]}")
    if kind == "plan":
        check_size(len(rows.get("step", {})), len(rows.get("condition", {})))
    compiled_dag = None
    if kind == "run":
        compiled_dag = compile_definition(data.get("definition"), int(str(subject["dag_version"])))
        if compiled_dag.dag.slug != subject["dag_slug"]:
            raise _damaged("its definition is not the one that the run uses")
    return ExportFile(
        kind=kind,
        id=subject_id,
        name=str(subject["name"]),
        exported_at=str(data.get("exportedAt")),
        entries=entries,
        rows=replayed,
        texts=texts,
        compiled_dag=compiled_dag,
    )


def _damaged(why: str) -> InvalidInput:
    return InvalidInput(f"this export was changed or cut: {why}; nothing was imported")


def _entries(items: Json, kind: str, subject_id: str) -> list[SealedEntry]:
    if not isinstance(items, list) or not items or not is_id(subject_id):
        raise InvalidInput("this export has no audit entries; export it again")
    entries = []
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict) or not all(name in item for name in _ENTRY_FIELDS):
            fields = ", ".join(_ENTRY_FIELDS)
            raise InvalidInput(f"audit entry {number} of this export needs the fields {fields}")
        try:
            session = item.get("sessionId")
            entry = SealedEntry(
                subject_id=subject_id,
                subject=kind,
                seq=int(str(item["seq"])),
                at=datetime.fromisoformat(str(item["at"])).astimezone(UTC),
                event=Event(str(item["event"])),
                actor=str(item["actor"]),
                channel=str(item["channel"]),
                session=None if session is None else str(session),
                details=str(item["record"]),
                hash=bytes.fromhex(str(item["hash"])),
            )
        except (ValueError, OverflowError) as error:
            raise _damaged(f"audit entry {number}: {error}") from error
        entries.append(entry)
    return entries


def _pop_texts(rows: Rows, kind: str) -> list[tuple[str, Row]]:
    """Remove the texts from the rows of a kind. Return the id of each row with its texts."""
    texts: list[tuple[str, Row]] = []
    for row_id, row in rows[kind].items():
        columns = _TEXT_COLUMNS.get(kind, ())
        if kind == "artifact" and row.get("media_type") is not None:
            columns = ("content",)
        if not columns:
            continue
        text: Row = {name: row.pop(name, None) for name in columns}
        if text_hash(*map(str, text.values())) != row.get("content_hash"):
            raise _damaged(f"the text of {kind} {row_id} does not match its hash in the audit")
        if kind == "artifact":
            row["content"] = None
        texts.append((row_id, text))
    return texts


async def import_export(ctx: RequestContext, file: ExportFile) -> None:
    """Insert an exported plan or run into the caller's org, in one transaction."""
    if Scope.ADMIN not in ctx.caller.scopes:
        raise Forbidden(
            "an export contains audit entries of other users, so only an administrator may import "
            "it; ask an administrator, or import the plan as Markdown"
        )
    try:
        async with ctx.transaction() as tx:
            with import_rows.refusals():
                await _insert(ctx, tx, file)
    except KeyConflict as error:
        raise Refused(
            f"a row of this export exists in this org already ({error.constraint}); nothing was "
            "imported"
        ) from error


async def _insert(ctx: RequestContext, tx: Transaction, file: ExportFile) -> None:
    dag = file.compiled_dag
    named = [runs.SQL["definition"](slug=dag.dag.slug, version=dag.version)] if dag else []
    found, *definitions = await tx.send(import_rows.SQL["is_taken"](id=file.id), *named)
    (existing,) = found
    if existing.is_taken:
        raise Refused(
            f"this org has a {file.kind} with the id {file.id} already, and an import keeps ids; "
            "import into another org or database"
        )
    # Add an audit entry that names the importing user.
    last = file.entries[-1]
    details: Body = {"action": "imported", "entries": last.seq, "exportedAt": file.exported_at}
    head = ChainHead(last.seq, last.hash, last.at)
    write_context = WriteContext(existing.now, ctx.actor(), head)
    entry = Entry(Event.PLAN_MODIFIED, details, ())
    entries = [*file.entries, *sealed_entries((entry,), (file.kind, file.id), write_context)]
    copy = Copy(file.id, file.rows, file.texts, entries)
    if dag is None:
        statements = import_rows.plan_statements(copy)
        check = plans.SQL["stored_rows"](plan_id=file.id)
    else:
        added = _definition_statements(ctx, dag, definitions[0], existing.now)
        statements = [*added, *import_rows.run_statements(copy)]
        check = runs.SQL["run_rows"](run_id=file.id)
    stored = (await tx.send(*statements, check))[-1]
    wrong = differences(replay(changes_in(entries)), audit.read_rows(stored))
    if wrong:
        raise InvalidInput(f"the rows of this export differ from its audit entries: {wrong[0]}")
    await tx.commit()


def _definition_statements(
    ctx: RequestContext, compiled_dag: CompiledDag, rows: Sequence[DefinitionRow], now: datetime
) -> list[Statement]:
    """Return the statement that stores the workflow definition of an imported run.

    Return an empty list if the org already has this definition.
    """
    dag = compiled_dag.dag
    if rows:
        if is_stored(dag, rows[0]):
            return []
        raise Refused(
            f"this org has a different version {compiled_dag.version} of the workflow "
            f"{dag.slug}; import into another org or database"
        )
    return [definition_statement(dag, compiled_dag.version, now, ctx.caller.user)]
