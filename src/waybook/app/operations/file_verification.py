"""Verification of the audit entries in a snapshot or JSON export, without a database."""

import orjson

from waybook.app.operations.imports import ExportFile, is_export, read_export
from waybook.app.queries.plans.plan_snapshot import DATA_END, DATA_START, GENERATOR, snapshot_file
from waybook.errors import InvalidInput


def verify_file(content: bytes, seal: str | None = None) -> ExportFile:
    """Verify a snapshot or JSON export: its audit chain, its rows, and the page it shows.

    A forger could replace the whole chain with another valid chain. To detect this, compare the
    chain with `seal`, the expected hash of the last audit entry.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise _unknown() from None
    is_page = text.lstrip().startswith("<")
    export = _parse(_embedded(text) if is_page else text)
    if is_page and snapshot_file(export.entries) != text:
        raise InvalidInput("the page of this snapshot differs from its audit entries")
    if seal is not None and seal.strip().lower() != export.seal:
        raise InvalidInput(
            f"the last entry of this file has the seal {export.seal}, not the expected one"
        )
    return export


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
