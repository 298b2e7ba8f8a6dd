"""Row classes with the columns of the queries in `load.sql`."""

from datetime import datetime
from typing import Any, NamedTuple


class PlanRow(NamedTuple):
    id: str
    name: str
    status: str
    revision: int
    stall_seconds: int | None
    resumed_at: datetime | None
    fail_reason: str | None
    audit_seq: int
    audit_hash: bytes
    now: datetime
    usage: dict[str, Any]
    budget: dict[str, Any] | None
    created_by: str
    created_at: datetime
    updated_at: datetime
    copied_from: str | None
    copied_seq: int | None
    sequential: bool | None
    canceled: bool | None


class ChangeRow(NamedTuple):
    seq: int
    at: datetime
    hash: bytes
    now: datetime
    #: Details of the audit entry as JSON text. None if they are too long.
    details: str | None


class StallCountRow(NamedTuple):
    plans: int = 0
    steps: int = 0


class PlanBrief(NamedTuple):
    """The fields of a plan that never change."""

    question: str
    formatting_notes: str | None
    created_at: datetime
    created_by: str
    output_media_type: str | None = None
    formatting_instructions: str | None = None
    skill: str | None = None
    skill_execution_id: str | None = None
