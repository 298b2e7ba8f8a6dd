"""Verification of exported files without a database: snapshots of plans, and JSON exports."""

from dataclasses import dataclass

import orjson

from waybook.app.operations.imports import ExportFile, is_export, read_export
from waybook.app.queries.plans.plan_snapshot import DATA_END, DATA_START, GENERATOR, snapshot_file
from waybook.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerifiedFile:
    """The plan or run in a verified file. `seal` is the hash of its last audit entry."""

    kind: str
    id: str
    name: str
    entries: int
    at: str
    seal: str


def verify_file(content: bytes, seal: str | None = None) -> _VerifiedFile:
    """Verify a snapshot or JSON export: its audit chain, its rows, and the page it shows.

    Without `seal`, the expected hash of the last entry, the whole audit chain could have been
    rewritten.

    Raises:
        InvalidInput: the file is not a snapshot or export, or was changed.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise _unknown() from None
    is_page = text.lstrip().startswith("<")
    export = _parse(_embedded(text) if is_page else text)
    if is_page and snapshot_file(export.entries) != text:
        raise InvalidInput("the page of this snapshot differs from its audit entries")
    last = export.entries[-1]
    last_seal = bytes(last.hash).hex()
    if seal is not None and seal.strip().lower() != last_seal:
        raise InvalidInput(
            f"the last entry of this file has the seal {last_seal}, not the expected one"
        )
    return _VerifiedFile(
        kind=export.kind,
        id=export.id,
        name=export.name,
        entries=len(export.entries),
        at=last.at.isoformat(),
        seal=last_seal,
    )


def _embedded(text: str) -> str:
    start, end = text.find(DATA_START), text.rfind(DATA_END)
    if start < 0 or end < start:
        raise _unknown()
    if GENERATOR not in text:
        raise InvalidInput(
            "this snapshot was made by another version of Waybook; verify it with that version"
        )
    return text[start + len(DATA_START) : end]


def _parse(text: str) -> ExportFile:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise _unknown() from None
    if not is_export(data):
        raise _unknown()
    try:
        return read_export(data)
    except InvalidInput as error:
        raise InvalidInput(error.message.removesuffix("; nothing was imported")) from None


def _unknown() -> InvalidInput:
    return InvalidInput(
        "this file is neither a snapshot nor a complete JSON export of a plan or run; it may have "
        "been cut"
    )
