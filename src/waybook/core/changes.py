"""Audit entries, and the row changes that they record.

A change has the old and the new value of one field of a row. The field `*` means the whole row: a
change from null creates the row, and a change to null removes it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from types import NoneType
from typing import NamedTuple

from waybook.json_values import Json, rfc3339

WHOLE_ROW = "*"

PLAIN = frozenset({str, int, float, bool, NoneType})


class Event(StrEnum):
    """Kind of event that the audit records."""

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
    TOKEN = "token"  # noqa: S105 - the kind of row, not one of them


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
    """Return changes in the form that audit entries store, grouped by row.

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
        return value  # type: ignore[return-value]  # as below, for nearly all there is
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return value  # type: ignore[return-value]  # JSON already: the callers pass nothing else


def text_hash(*texts: str) -> str:
    """Return the SHA-256 hash that audit entries contain in place of texts.

    >>> text_hash("a")[:8], text_hash("a", "b") == text_hash("ab")
    ('ca978112', False)
    """
    return sha256("\x1f".join(texts).encode()).hexdigest()
