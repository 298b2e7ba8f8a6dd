"""Defines audit entries and the row changes that they record, and replays these changes.

A change has the old and the new value of one field of a row. The field `*` stands for the whole
row: a change from null creates the row, and a change to null removes it. A replay must always give
exactly the stored rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from types import NoneType
from typing import NamedTuple

from waybook.core.decision_context import DecisionContext
from waybook.core.usage import NO_USAGE, Totals, Usage
from waybook.json_values import Json, rfc3339

WHOLE_ROW = "*"

PLAIN = frozenset({str, int, float, bool, NoneType})


class Event(StrEnum):
    STEP_STARTED = "step_started"
    STEP_COMPLETED = "step_completed"
    STEP_FAILED = "step_failed"
    PLAN_MODIFIED = "plan_modified"
    USER_REVIEWED = "user_reviewed"
    SESSION_RESUMED = "session_resumed"
    SKILL_STARTED = "skill_started"
    SKILL_COMPLETED = "skill_completed"


class Entity(StrEnum):
    PLAN = "plan"
    STEP = "step"
    CONDITION = "condition"
    REVIEW = "review"
    SESSION = "session"
    ARTIFACT = "artifact"
    SOURCE = "source"
    ARTIFACT_SOURCE = "artifact_source"
    USAGE = "usage"
    COMMENT = "comment"
    SKILL_EXECUTION = "skill_execution"
    RUN = "run"
    STAGE_RUN = "stage_run"
    STAGE_STEP = "stage_step"
    JOB = "job"
    JOB_PART = "job_part"
    DOCUMENT = "document"
    RENDERED_DOCUMENT = "rendered_document"
    LATE_RESULT = "late_result"
    ORG = "org"
    USER = "user"
    TOKEN = "token"  # noqa: S105 - a kind of row, not a secret


class Change(NamedTuple):
    entity: Entity
    id: str
    field: str
    old: Json
    new: Json

    def as_json(self) -> dict[str, Json]:
        return {
            "entity": self.entity,
            "id": self.id,
            "field": self.field,
            "from": self.old,
            "to": self.new,
        }


def group_changes(changes: Iterable[Change]) -> list[Json]:
    """Return changes grouped by row, in the form in which audit entries store them.

    >>> group_changes(
    ...     [
    ...         Change(Entity.STEP, "1", "status", "pending", "failed"),
    ...         Change(Entity.STEP, "1", "held_by", None, "ann"),
    ...     ]
    ... )
    [['step', '1', {'status': ['pending', 'failed'], 'held_by': ['ann']}]]
    """
    groups: list[Json] = []
    row_entity, last_id, fields = None, "", dict[str, Json]()
    for entity, row_id, field, old, new in changes:
        if entity is not row_entity or row_id != last_id or field in fields:
            row_entity, last_id, fields = entity, row_id, {}
            groups.append([str(entity), row_id, fields])
        fields[field] = [new] if old is None else [old, new]
    return groups


class Entry(NamedTuple):
    event: Event
    details: Mapping[str, Json]
    changes: tuple[Change, ...]


def as_json(value: object) -> Json:
    """Return a field's value as JSON. Times are in RFC 3339 format.

    >>> as_json("a"), as_json(None), as_json((1, 2))
    ('a', None, [1, 2])
    """
    if type(value) in PLAIN:
        return value  # type: ignore[return-value]  # a JSON scalar
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return value  # type: ignore[return-value]  # JSON already: the callers pass nothing else


def text_hash(*texts: str) -> str:
    """Return the SHA-256 hash that audit entries contain in place of long texts.

    >>> text_hash("a")[:8], text_hash("a", "b") == text_hash("ab")
    ('ca978112', False)
    """
    return sha256("\x1f".join(texts).encode()).hexdigest()


Row = dict[str, Json]
Rows = dict[str, dict[str, Row]]
ChangedFields = dict[str, Json]

_ENTITIES = frozenset(map(str, Entity))


class ReplayError(ValueError):
    """A change is malformed, or does not fit the row to which it is applied."""


def replay(changes: Iterable[Change]) -> Rows:
    """Return the rows that result if the changes are applied in order, beginning with no rows."""
    rows: Rows = {}
    for change in changes:
        _apply(rows.setdefault(str(change.entity), {}), change)
    return {entity: entity_rows for entity, entity_rows in rows.items() if entity_rows}


def _apply(kind: dict[str, Row], change: Change) -> None:
    if change.field != WHOLE_ROW:
        row = kind.get(change.id)
        if row is None or row.get(change.field) != change.old:
            raise ReplayError(f"{change.entity} {change.id}: {change.field} was not {change.old!r}")
        row[change.field] = change.new
    elif isinstance(change.new, dict) and change.old is None and change.id not in kind:
        kind[change.id] = dict(change.new)
    elif (
        change.new is None
        and change.id in kind
        and _without_nulls(kind[change.id]) == _without_nulls(change.old)
    ):
        del kind[change.id]
    else:
        raise ReplayError(f"{change.entity} {change.id}: this row cannot be created or removed")


def _without_nulls(row: Json) -> Row | None:
    if not isinstance(row, dict):
        return None
    return {name: value for name, value in row.items() if value is not None}


def differences(replayed: Rows, stored: Rows) -> list[str]:
    messages: list[str] = []
    for entity in sorted({*replayed, *stored}):
        ours, theirs = replayed.get(entity, {}), stored.get(entity, {})
        for row_id in sorted({*ours, *theirs}):
            name = f"{entity} {row_id}"
            if row_id not in ours:
                messages.append(f"{name}: stored, but no audit entry made it")
            elif row_id not in theirs:
                messages.append(f"{name}: the audit made it, but it is not stored")
            else:
                ours_row, row = ours[row_id], theirs[row_id]
                messages += [
                    f"{name}: {field} is {row.get(field)!r}, the audit says {ours_row.get(field)!r}"
                    for field in sorted({*ours_row, *row})
                    if ours_row.get(field) != row.get(field)
                ]
    return messages


def changes_from_json(raw: Json) -> Iterator[Change]:
    """Yield the row changes that one element of an audit entry's list `changes` describes."""
    match raw:
        case [str(entity), str(row_id), dict(fields)] if entity in _ENTITIES:
            for field, values in fields.items():
                match values:
                    case [new]:
                        yield Change(Entity(entity), row_id, field, None, new)
                    case [old, new]:
                        yield Change(Entity(entity), row_id, field, old, new)
                    case _:
                        raise ReplayError(f"invalid values of a change: {values!r}")
        case _:
            raise ReplayError(f"invalid change: {raw!r}")


def changed_rows(details: Mapping[str, Json]) -> Iterator[tuple[str, str, ChangedFields]]:
    """Yield the entity, the id and the changed fields of each row that an audit entry changes."""
    groups = details.get("changes")
    if not isinstance(groups, list):
        raise ReplayError("the entry has no list of changes")
    for group in groups:
        match group:
            case [str(entity), str(row_id), dict(fields)]:
                yield entity, row_id, fields
            case _:
                raise ReplayError(f"invalid group of changes: {group!r}")


def new_value(values: Json) -> Json:
    if not isinstance(values, list) or not values:
        raise ReplayError(f"invalid values of a change: {values!r}")
    return values[-1]


class BaseDraft:
    #: Columns whose names differ from the names of the fields.
    column_names: Mapping[str, str] = {}

    def __init__(self, context: DecisionContext) -> None:
        self.moment = context
        self._changes: list[Change] = []
        self._entries: list[Entry] = []
        #: Long texts of new rows, by row id. The audit stores only their hashes.
        self._texts: dict[str, tuple[str, ...]] = {}

    def insert(self, entity: Entity, row_id: str, row: dict[str, Json]) -> None:
        if self.moment.is_simulated and entity in {Entity.PLAN, Entity.RUN}:
            row["simulated"] = True
        self.note(entity, row_id, WHOLE_ROW, None, row)

    def store_text(self, entity: Entity, row_id: str, *texts: str, **row: Json) -> None:
        """Record the creation of a row with long texts. The audit stores only their hashes."""
        self._texts[row_id] = texts
        self.insert(entity, row_id, {**row, "content_hash": text_hash(*texts)})

    def insert_usage(
        self, entity: Entity, row_id: str, before: Totals, usage: Usage, **row: Json
    ) -> Totals:
        """Record the usage of an attempt, and return the new totals of the plan or run."""
        actor, totals = self.moment.actor, before.plus(usage)
        used: dict[str, Json] = {
            **row,
            **usage._asdict(),
            "at": as_json(self.moment.now),
            "by": actor.user,
            "session": actor.session,
        }
        self.insert(Entity.USAGE, self.moment.new_uuid(), used)
        old = None if before == NO_USAGE else before._asdict()
        self.note(entity, row_id, "usage", old, totals._asdict())
        return totals

    def note(self, entity: Entity, row_id: str, field: str, old: Json, new: Json) -> None:
        self._changes.append(Change(entity, row_id, field, old, new))

    def note_changes(
        self, entity: Entity, row_id: str, row: object, values: Mapping[str, object]
    ) -> None:
        """Record the fields of a row that get a new value."""
        for name, new in values.items():
            old = getattr(row, name)
            if old != new:
                column = self.column_names.get(name, name)
                self._changes.append(Change(entity, row_id, column, as_json(old), as_json(new)))

    def record(self, event: Event, **details: Json) -> None:
        """Write the changes since the last audit entry into a new entry."""
        self._entries.append(Entry(event, details, tuple(self._changes)))
        self._changes = []

    def entries(self) -> tuple[Entry, ...]:
        """Return the audit entries. Raise an error if a change is in none of them."""
        if self._changes:
            unrecorded = [f"{change.entity}.{change.field}" for change in self._changes]
            raise AssertionError(f"changes without an audit entry: {unrecorded}")
        return tuple(self._entries)
