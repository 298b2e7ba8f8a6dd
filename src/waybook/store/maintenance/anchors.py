"""Writes and checks anchor files: the last entry of every audit chain, kept outside the database.

A comparison with an anchor file shows whether the database was emptied or replaced by an older
copy.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import IO, Any, NamedTuple
from uuid import UUID

import psycopg

from waybook.errors import InvalidInput
from waybook.json_values import rfc3339
from waybook.store.driver.queries import AsJson, Row, Statement, load

FORMAT = "waybook-audit-anchor"
VERSION = 1
_MAX_LINE_BYTES = 10_000


class Anchor(NamedTuple):
    """The end of an audit chain, or of an org's erasure records, when the anchor was taken."""

    org_id: UUID
    subject: str
    subject_id: str
    seq: int
    hash: bytes

    @property
    def line(self) -> bytes:
        values = [str(self.org_id), self.subject, self.subject_id, self.seq, self.hash.hex()]
        return json.dumps(values, separators=(",", ":")).encode() + b"\n"


class AnchorTotals(NamedTuple):
    chains: int
    entries: int
    sha256: str


SQL = load("maintenance/anchors", ends=Anchor, entries_at=Anchor)


def write_anchors(file: IO[bytes], at: datetime, anchors: Iterable[Anchor]) -> AnchorTotals:
    def written() -> Iterator[Anchor]:
        for anchor in anchors:
            file.write(anchor.line)
            yield anchor

    file.write(_json_line({"format": FORMAT, "version": VERSION, "at": rfc3339(at)}))
    totals = totals_of(written())
    file.write(_json_line(totals._asdict()))
    return totals


def totals_of(anchors: Iterable[Anchor]) -> AnchorTotals:
    digest, chains, entries = sha256(), 0, 0
    for anchor in anchors:
        digest.update(anchor.line)
        chains, entries = chains + 1, entries + anchor.seq
    return AnchorTotals(chains, entries, digest.hexdigest())


class AnchorFile:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        head = _read_json(file.readline(_MAX_LINE_BYTES))
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise InvalidInput("this is neither an audit anchor nor a backup of Waybook")
        if head.get("version") != VERSION:
            raise InvalidInput(
                f"this audit anchor has version {head.get('version')}; this program reads "
                f"version {VERSION}: use the program that wrote it, or a newer one"
            )
        self.at = str(head.get("at"))

    def __iter__(self) -> Iterator[Anchor]:
        digest, chains, entries = sha256(), 0, 0
        while isinstance(value := _read_json(line := self._file.readline(_MAX_LINE_BYTES)), list):
            anchor = _read_anchor(value)
            digest.update(line)
            chains, entries = chains + 1, entries + anchor.seq
            yield anchor
        if value != AnchorTotals(chains, entries, digest.hexdigest())._asdict():
            raise InvalidInput(
                "this audit anchor is damaged: it was cut off, or a line was changed"
            )


def _json_line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _read_json(line: bytes) -> Any:  # noqa: ANN401 - a line may contain any JSON
    try:
        return json.loads(line)
    except ValueError:
        return None


def _read_anchor(values: list[Any]) -> Anchor:
    try:
        org_id, subject, subject_id, seq, digest = values
        return Anchor(UUID(org_id), subject, str(subject_id), int(seq), bytes.fromhex(digest))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput("this audit anchor is damaged: a line is not valid") from None


def ends_in(connection: psycopg.Connection) -> Iterator[Anchor]:
    with connection.cursor(name="chain_ends") as cursor:
        cursor.execute(SQL["ends"]().form.text)
        yield from map(Anchor._make, cursor)


def entries_statement(anchors: Sequence[Anchor]) -> Statement:
    places = [{"subject": a.subject, "id": a.subject_id, "seq": a.seq} for a in anchors]
    return SQL["entries_at"](places=AsJson(places))


def missing_anchors(
    anchors: Sequence[Anchor], rows: Iterable[Anchor]
) -> list[tuple[Anchor, bytes | None]]:
    """Return each anchor whose entry is missing or has another hash, with that hash or None."""
    hashes = {row[:4]: row.hash for row in rows}
    held = [(anchor, hashes.get(anchor[:4])) for anchor in anchors]
    return [(anchor, got or None) for anchor, got in held if not got or got != anchor.hash]


def read_stones(rows: Iterable[Row]) -> dict[str, list[Row]]:
    stones: dict[str, list[Row]] = {}
    for row in rows:
        stones.setdefault(row.subject_id, []).append(row)
    return stones


def explanation(anchor: Anchor, stones: Iterable[Row], erasures: int) -> Row | None:
    """Return the last erasure if erasures explain why a chain differs from its anchor, or None."""
    since = [stone for stone in stones if stone.erasure > erasures]
    explains = any(
        stone.entries > anchor.seq
        or (stone.entries == anchor.seq and stone.seal_before == anchor.hash)
        for stone in since
    )
    return since[-1] if explains and anchor.subject != "erasure" else None
