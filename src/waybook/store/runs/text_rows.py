"""Rows of runs that contain long texts. The audit has only hashes of these texts."""

from datetime import datetime

from waybook.json_values import Json
from waybook.run.model import NewDocument
from waybook.store.audit import Patch
from waybook.store.driver.queries import Value


def document_row(run_id: str, document: NewDocument, now: datetime) -> tuple[Value, ...]:
    made = document.origin
    return (
        document.id,
        run_id,
        document.stage,
        document.step_key,
        document.job_id,
        document.document_key,
        made.model,
        made.lineage,
        made.reviewer,
        document.version,
        document.content,
        document.content_hash,
        now,
    )


def part_row(patch: Patch, run_id: str, texts: tuple[str, ...]) -> tuple[Value, ...]:
    return (patch.id, run_id, to_number(patch.values["part"]), *texts, _hash(patch))


def rendered_row(patch: Patch, run_id: str, texts: tuple[str, ...]) -> tuple[Value, ...]:
    named = (str(patch.values["document_id"]), str(patch.values["job_id"]))
    return (patch.id, run_id, *named, *texts, _hash(patch), str(patch.values["created_at"]))


def late_row(patch: Patch, run_id: str, texts: tuple[str, ...]) -> tuple[Value, ...]:
    row = patch.values
    who = (str(row["created_at"]), str(row["created_by"]))
    named = (str(row["job_id"]), to_number(row["attempt"]))
    return (patch.id, run_id, *named, *texts, _hash(patch), *who)


def _hash(patch: Patch) -> str:
    return str(patch.values["content_hash"])


def to_number(value: Json) -> int:
    if not isinstance(value, int):
        raise TypeError("a number was expected")
    return value
