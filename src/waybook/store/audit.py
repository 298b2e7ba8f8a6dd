"""Audit entries linked by hashes, and the row changes that they record.

The seal of an entry is a hash of its content and of the previous seal.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

import orjson

from waybook.core.changes import (
    WHOLE_ROW,
    Change,
    Entity,
    Entry,
    Row,
    changed_rows,
    changes_from_json,
    group_changes,
)
from waybook.core.changes import Rows as StoredRows
from waybook.core.decision_context import Actor
from waybook.json_values import Json, rfc3339
from waybook.store.driver.queries import Rows, Statement, as_json_text, load

#: Endings of the names of columns that contain times. In JSON, PostgreSQL writes these times in the
#: server's time zone, so they are converted to UTC.
_TIME_SUFFIXES = ("_at", "_since")
#: The first entry of a chain has no previous seal, so its own seal is computed with these bytes.
GENESIS = bytes(32)


class SealedEntry(NamedTuple):
    subject_id: str
    subject: str
    seq: int
    at: datetime
    event: str
    actor: str
    channel: str
    session: str | None
    details: str
    hash: bytes = b""


_UnsealedEntry: TypeAlias = tuple[str, str, int, datetime, str, str, str, str | None, str]


class Subject(NamedTuple):
    """Owner of an audit chain: a plan, run, skill execution, research without a plan, or org."""

    kind: str
    id: str


_ENTRY_QUERIES = (
    "entries tail entry chain page page_of page_of_agent page_of_actor page_of_rare_event "
    "page_of_other_channel agent_entries"
)
SQL = load(
    "audit",
    **dict.fromkeys(_ENTRY_QUERIES.split(), SealedEntry),
    subjects=Subject,
    orphans=Subject,
)


def read_rows(rows: Iterable[tuple[str, str, Row]]) -> StoredRows:
    """Convert the times in stored rows to UTC, so that the rows can be compared with a replay."""
    by_entity: StoredRows = {}
    for entity, row_id, row in rows:
        by_entity.setdefault(entity, {})[row_id] = {
            name: datetime.fromisoformat(value).astimezone(UTC).isoformat()
            if isinstance(value, str) and (name == "at" or name.endswith(_TIME_SUFFIXES))
            else value
            for name, value in row.items()
        }
    return by_entity


class ChainHead(NamedTuple):
    seq: int = 0
    hash: bytes = GENESIS
    at: datetime | None = None

    def after(self, now: datetime) -> datetime:
        """Return the time of the next audit entry. It is never before the time of the last one.

        Several servers write to one chain, and their clocks may differ.
        """
        return now if self.at is None else max(now, self.at)


def seal(entry: SealedEntry, previous: bytes) -> bytes:
    return _seal(entry[:-1], previous)


def _seal(fields: _UnsealedEntry, previous: bytes) -> bytes:
    subject_id, subject, seq, at, event, actor, channel, session, details = fields
    encoded = details.encode()
    parts = (
        previous,
        with_length(subject),
        with_length(subject_id),
        with_length(str(seq)),
        with_length(rfc3339(at)),
        with_length(event),
        with_length(actor),
        with_length(channel),
        with_length(session if session is not None else "\x00"),
        len(encoded).to_bytes(8, "big"),
        encoded,
    )
    return sha256(b"".join(parts)).digest()


@lru_cache(maxsize=4096)
def with_length(part: str | bytes) -> bytes:
    encoded = part.encode() if isinstance(part, str) else part
    return len(encoded).to_bytes(8, "big") + encoded


def first_broken(entries: Sequence[SealedEntry]) -> tuple[int, str] | None:
    """Return the number of the first invalid audit entry and the reason, or None."""
    previous = GENESIS
    for expected, entry in enumerate(entries, start=1):
        if entry.seq < expected:
            return entry.seq, f"entry {entry.seq} is there twice: one was added from outside"
        if entry.seq != expected:
            return expected, f"entry {expected} is missing; the next one is {entry.seq}"
        if seal(entry, previous) != entry.hash:
            return expected, f"entry {expected} does not match its seal: it was changed"
        previous = entry.hash
    return None


def changes_of(details: Json) -> Iterator[Change]:
    if isinstance(details, dict):
        changes = details.get("changes")
        for change in changes if isinstance(changes, list) else []:
            yield from changes_from_json(change)


@dataclass(slots=True)
class Patch:
    id: str
    made: bool = False
    removed: bool = False
    values: dict[str, Json] = field(default_factory=dict)


class Patches:
    """The row changes of one write to the database, merged into one patch per row."""

    def __init__(self, changes: Iterable[Change]) -> None:
        patches: dict[Entity, dict[str, Patch]] = {}
        for entity, row_id, name, _, new in changes:
            if entity not in patches:
                patches[entity] = {}
            rows = patches[entity]
            if row_id not in rows:
                rows[row_id] = Patch(row_id)
            if name == WHOLE_ROW:
                patch = rows[row_id]
                if isinstance(new, dict):
                    patch.made = True
                    patch.values.update(new)
                else:
                    patch.removed = True
            else:
                rows[row_id].values[name] = new
        self.entities: Collection[Entity] = patches.keys()
        self.inserts: dict[Entity, list[Patch]] = defaultdict(list)
        self.updates: dict[Entity, list[Patch]] = defaultdict(list)
        self.deletes: dict[Entity, list[str]] = defaultdict(list)
        for entity, rows in patches.items():
            for patch in rows.values():
                if not patch.removed:
                    (self.inserts if patch.made else self.updates)[entity].append(patch)
                elif not patch.made:
                    self.deletes[entity].append(patch.id)


class WriteContext(NamedTuple):
    now: datetime
    actor: Actor
    head: ChainHead = ChainHead()


def sealed_entries(
    entries: Sequence[Entry], subject: tuple[str, str], write_context: WriteContext
) -> list[SealedEntry]:
    """Number the new audit entries, and link them by hashes to the last entry of their chain."""
    (now, actor, head), (kind, subject_id) = write_context, subject
    previous, at, sealed = head.hash, head.after(now), list[SealedEntry]()
    user, channel, session = actor.user, actor.channel, actor.session
    for seq, (event, details, changes) in enumerate(entries, start=head.seq + 1):
        text = as_json_text({**details, "changes": group_changes(changes)})
        fields = (subject_id, kind, seq, at, event, user, channel, session, text)
        previous = _seal(fields, previous)
        sealed.append(SealedEntry(*fields, previous))
    return sealed


def audit_statements(sealed: list[SealedEntry]) -> list[Statement]:
    rows = [(*entry, brief_of(entry.details)) for entry in sealed]
    return [SQL["insert_audit"](merged_rows=Rows(rows))] if sealed else []


#: Details up to this length are read as they are. Of longer ones, `brief_of` keeps what is short.
MAX_SHORT_DETAILS: Final = 4_000
_MAX_BRIEF_TEXT: Final = 300


def brief_of(details: str) -> str | None:
    """Return the details of an audit entry without long values, or None if they are short.

    Pages read these, so their cost does not grow with the results that the entries contain.
    """
    if len(details) <= MAX_SHORT_DETAILS:
        return None
    values = orjson.loads(details)
    if not isinstance(values, dict) or not isinstance(values.get("changes"), list):
        return None
    changes = [[entity, row_id, _brief(fields)] for entity, row_id, fields in changed_rows(values)]
    return as_json_text({**_brief(values), "changes": changes})


def _brief(values: Mapping[str, Json]) -> dict[str, Json]:
    """Cut long texts, and empty the objects in lists: a created row is only an empty object."""
    return {name: _brief_value(value) for name, value in values.items() if name != "changes"}


def _brief_value(value: Json) -> Json:
    if isinstance(value, str):
        return value[:_MAX_BRIEF_TEXT]
    if isinstance(value, list):
        return [_brief_value(item) for item in value[:2] if not isinstance(item, list)]
    return {} if isinstance(value, dict) else value
