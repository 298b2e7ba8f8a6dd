"""Queries for jobs and documents of runs."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from waybook.core.decision_context import Holder
from waybook.dag.expansion.units import ProducedDocument, Unit
from waybook.dag.model import JobStatus, JobType
from waybook.run.copy import OriginalDocument
from waybook.run.made_from import DocumentVersion
from waybook.run.model import Job
from waybook.store.driver.queries import Ids, Statement, Value, load
from waybook.store.runs.load import ReadableRow

SQL = load(
    "runs/jobs",
    versions=DocumentVersion,
    load_job=Job,
    held_job=Job,
    claimable_job=Job,
    claimable_job_for_model=Job,
    failed_jobs=Job,
    to_render=(Job, "job document_key document_model lineage version content"),
    finished_jobs=Job,
    original_documents=OriginalDocument,
    readable=ReadableRow,
)


#: The time of a claim may be this far behind the database clock (see `time_is_expected`). Leases
#: last longer by this time, so that none ends early.
_MAX_CLOCK_LAG_SECONDS: Final = 1


class JobRequest(NamedTuple):
    """Filters for claiming a job, and the length of the lease in seconds."""

    model: str | None
    job_type: str | None
    lease_seconds: float
    #: If this holder already has a job, the claim returns that job. None if the caller wants
    #: another job.
    holder: Holder | None

    @property
    def values(self) -> dict[str, Value]:
        """Return the parameters of the queries that select jobs for this request."""
        user, session = self.holder or (None, None)
        return {
            "model": self.model,
            "job_type": self.job_type,
            "lease": self.lease_seconds + _MAX_CLOCK_LAG_SECONDS,
            "holder": user,
            "session": session,
        }


def claimable_statement(run_id: str, request: JobRequest) -> Statement:
    query = SQL["claimable_job"] if request.model is None else SQL["claimable_job_for_model"]
    return query(run_id=run_id, **request.values)


def read_job(row: Job) -> Job:
    """Convert the columns of a job to the types of the class `Job`."""
    return row._replace(
        job_type=JobType(row.job_type),
        status=JobStatus(row.status),
        unit=row.unit and _unit(row.step_key, row.model, cast("dict[str, Any]", row.unit)),
    )


def first_job(rows: Sequence[Job]) -> Job | None:
    return read_job(rows[0]) if rows else None


def _unit(step_key: str, model: str, fields: dict[str, Any]) -> Unit:
    return Unit(
        step_key=step_key,
        number=fields["number"],
        model=model,
        lineage=fields["lineage"],
        reviewer=fields["reviewer"],
        source=ProducedDocument(*fields["source"]) if fields["source"] else None,
        makes=tuple(ProducedDocument(*made) for made in fields["makes"]),
        item=fields.get("item"),
    )


def contents_statement(ids: Iterable[str], most: int) -> Statement:
    return SQL["contents"](ids=Ids(ids), most=most)


def read_versions(rows: Sequence[DocumentVersion]) -> list[DocumentVersion]:
    """Convert the column `unit` to instances of `Unit`, the part of a step that one job does."""
    units = (cast("tuple[str, dict[str, Any]]", row.unit) for row in rows)
    return [
        row._replace(unit=_unit(row.document.step_key, model, fields))
        for row, (model, fields) in zip(rows, units, strict=True)
    ]
