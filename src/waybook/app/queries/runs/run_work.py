"""Read-only queries for the work in a run: steps, jobs with their attempts, and documents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.request.access import job_not_found, load_run
from waybook.app.request.caller import ReadableDocument
from waybook.app.request.request_context import RequestContext, uuid_or_nil
from waybook.core.changes import Event
from waybook.core.ids import id_or_nil
from waybook.core.shown import Shown, shown, shown_item
from waybook.core.usage import NO_USAGE, Totals
from waybook.dag.model import JobStatus
from waybook.errors import NextCall, NotFound
from waybook.json_values import Json, non_empty
from waybook.run.made_from import DocumentVersion as VersionRow
from waybook.run.made_from import InputVersion, input_versions
from waybook.run.model import CompiledDag, Run
from waybook.store.driver.queries import Row, Statement
from waybook.store.runs import jobs, work
from waybook.store.runs.load import ReadableRow

DocumentVersion: TypeAlias = ReadableRow

_JOBS_PER_PAGE: Final = 50
_MAX_JOB_EVENTS: Final = 200
_MAX_STEP_DOCUMENTS: Final = 200

#: The stored statuses of each state of jobs that a list can be filtered by.
JOB_STATES: Final[Mapping[Shown, tuple[JobStatus, ...]]] = {
    state: tuple(status for status in JobStatus if shown(status) is state)
    for state in (Shown.FAILED, Shown.RUNNING, Shown.TODO, Shown.DONE, Shown.SKIPPED)
}


def state_of_job(job: Row, run: Run) -> Shown:
    return shown_item(
        job.status,
        is_silent=job.is_silent,
        is_ready=job.is_ready,
        is_over=run.canceled_at is not None,
    )


class JobList(NamedTuple):
    jobs: tuple[Row, ...]
    total: int
    page: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // _JOBS_PER_PAGE))


async def read_run_jobs(
    ctx: RequestContext, run_id: str, page: int, *, state: str | None, **equal: str | None
) -> tuple[RunDetail, JobList]:
    """Return a run and a page of its jobs that have this `state` and the column values `equal`."""
    run_id = id_or_nil(run_id)
    detail = await read_run_detail(ctx, run_id, RunInclude.BRIEF | RunInclude.JOB_TIMES)
    statuses = JOB_STATES.get(shown(state), ())
    (rows,) = await ctx.read(_jobs_statement(ctx, run_id, page, statuses=statuses, **equal))
    return detail, _job_list(rows, page)


def _jobs_statement(ctx: RequestContext, run_id: str, page: int, **filters: Any) -> Statement:  # noqa: ANN401
    lease, skipped = ctx.services.lease.total_seconds(), (page - 1) * _JOBS_PER_PAGE
    return work.jobs_statement(run_id, lease=lease, most=_JOBS_PER_PAGE, skipped=skipped, **filters)


def _job_list(rows: Sequence[Row], page: int) -> JobList:
    return JobList(jobs=tuple(rows), total=rows[0].total if rows else 0, page=page)


async def read_run_step(
    ctx: RequestContext, run_id: str, stage: str, step_key: str, page: int
) -> tuple[RunDetail, JobList, Sequence[DocumentVersion]]:
    """Return a run, with a page of the jobs of one step, and the documents of this step."""
    run_id = id_or_nil(run_id)
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    graph = detail.compiled_dag.graphs.get(stage)
    if graph is None or step_key not in graph.steps:
        raise NotFound(
            "this run has no such step",
            next_call=NextCall("get_run_progress", {"runId": run_id}, "See the steps of the run."),
        )
    rows, documents = await ctx.read(
        _jobs_statement(ctx, run_id, page, stage=stage, step_key=step_key),
        work.SQL["step_documents"](
            run_id=run_id, stage=stage, step_key=step_key, job_id=None, most=_MAX_STEP_DOCUMENTS
        ),
    )
    return detail, _job_list(rows, page), documents


async def read_run_job(
    ctx: RequestContext, run_id: str, job_id: str
) -> tuple[RunDetail, Row, Sequence[Mapping[str, Any]], Sequence[DocumentVersion]]:
    """Return a run, one of its jobs, and the attempts and documents of this job."""
    run_id, job_id = id_or_nil(run_id), id_or_nil(job_id)
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    rows, events, used = await ctx.read(
        _jobs_statement(ctx, run_id, 1, job_id=job_id),
        work.SQL["job_events"](run_id=run_id, job_id=job_id, most=_MAX_JOB_EVENTS),
        work.SQL["attempt_usage"](run_id=run_id, job_id=job_id),
    )
    if not rows:
        raise job_not_found()
    (job,) = rows
    statement = work.SQL["step_documents"](
        run_id=run_id,
        stage=job.stage,
        step_key=job.step_key,
        job_id=job_id,
        most=_MAX_STEP_DOCUMENTS,
    )
    (documents,) = await ctx.read(statement)
    return detail, job, [*_job_attempts(events, work.read_usage(used))], documents


def _job_attempts(
    events: Sequence[Row], usage: Mapping[int, Totals]
) -> Iterator[Mapping[str, Any]]:
    starts = [event for event in events if event.event == Event.STEP_STARTED]
    ends = {
        event.attempt: event
        for event in events
        if event.event in {Event.STEP_COMPLETED, Event.STEP_FAILED}
    }
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        number = start.attempt or 0
        end = ends.get(number)
        outcome = None if following is None else "stalled"
        if end is not None:
            outcome = "completed" if end.event == Event.STEP_COMPLETED else "failed"
        yield {
            "number": number,
            "holder": start.actor,
            "session": start.session,
            "started_at": start.at,
            # If the lease of an attempt expired, the attempt ended when the next one began.
            "ended_at": end.at if end else following.at if following else None,
            "outcome": outcome,
            "error": end.error if end else None,
            "usage": usage.get(number, NO_USAGE),
        }


_MAX_COMPARABLE: Final = 300
#: Maximum number of inputs in a list. Inputs that now have a newer version come first.
MAX_INPUTS_LISTED: Final = 50
#: The page shows at most this many characters. The download contains the whole document.
MAX_SHOWN_LENGTH: Final = 200_000


class DocumentSheet(NamedTuple):
    """A document with its inputs, and optionally a document to compare it with."""

    detail: RunDetail
    about: DocumentVersion
    text: Row
    other: DocumentVersion | None
    other_text: Row | None
    #: Documents with which this document can be compared, such as its other versions.
    related: Sequence[DocumentVersion]
    #: Inputs, in the versions that the document was made from. Outdated versions come first.
    inputs: Sequence[InputVersion]


async def read_document(ctx: RequestContext, resource_id: str) -> ReadableDocument:
    (rows,) = await ctx.read(jobs.SQL["rendered"](resource_id=uuid_or_nil(resource_id)))
    if not rows:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("list_dags", {}, "List the workflows and runs."),
        )
    row = rows[0]
    versions = jobs.SQL["versions"](run_id=row.run_id, always=True)
    _, compiled_dag, (version_rows,) = await load_run(ctx, row.run_id, versions)
    inputs = _inputs(compiled_dag, row.document_id, version_rows)[:MAX_INPUTS_LISTED]
    fields = row._asdict()
    del fields["document_id"]
    made_from: list[Json] = [
        non_empty(
            documentKey=item.read.document.document_key,
            stageSlug=item.read.document.stage,
            modelId=item.read.document.model,
            version=item.read.version,
            newerVersion=item.latest.version if item.is_outdated else None,
        )
        for item in inputs
    ]
    return ReadableDocument(resource_id=resource_id, **fields, made_from=made_from)


def _inputs(
    compiled_dag: CompiledDag, document_id: str, rows: Sequence[VersionRow]
) -> Sequence[InputVersion]:
    versions = jobs.read_versions(rows)
    (inputs,) = input_versions(compiled_dag, versions, {document_id}).values()
    return sorted(inputs, key=lambda item: not item.is_outdated)


async def read_document_sheet(
    ctx: RequestContext, run_id: str, resource_id: str, other_id: str | None = None
) -> DocumentSheet:
    """Read a document of a run, and optionally a related document for comparison."""
    run_id, resource_id = id_or_nil(run_id), uuid_or_nil(resource_id).lower()
    wanted = [resource_id, *([uuid_or_nil(other_id).lower()] if other_id else [])]
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    version_rows, related, *texts = await ctx.read(
        jobs.SQL["versions"](run_id=run_id, always=True),
        work.SQL["document_versions"](run_id=run_id, resource_id=resource_id, most=_MAX_COMPARABLE),
        *(
            work.SQL["document_text"](run_id=run_id, resource_id=item, most=MAX_SHOWN_LENGTH)
            for item in wanted
        ),
    )
    by_id = {row.resource_id: row for row in related}
    if not all(item in by_id and text for item, text in zip(wanted, texts, strict=True)):
        raise NotFound(
            "there is no such document in this run, or it cannot be compared with this one",
            next_call=NextCall("list_dags", {}, "List the workflows and runs."),
        )
    about = by_id[resource_id]
    return DocumentSheet(
        detail=detail,
        about=about,
        text=texts[0][0],
        other=by_id[wanted[1]] if other_id else None,
        other_text=texts[1][0] if other_id else None,
        related=related,
        inputs=_inputs(detail.compiled_dag, about.document_id, version_rows),
    )
