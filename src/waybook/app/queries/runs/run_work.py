"""Read-only queries for the work in a run: steps, jobs with their attempts, and documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.request.access import job_not_found, load_run
from waybook.app.request.caller import ReadableDocument
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.core.changes import Event
from waybook.core.usage import NO_USAGE, Totals
from waybook.dag.model import FAILED_JOB, JobStatus, RecipeStep
from waybook.dag.progress.report import StepReport
from waybook.errors import NextCall, NotFound
from waybook.json_values import Json, non_empty
from waybook.run.made_from import InputVersion, input_versions
from waybook.run.model import CompiledDag
from waybook.store.driver.queries import Statement
from waybook.store.runs import jobs, work
from waybook.store.runs.rows import DocumentVersionRow, ReadableRow, RenderedRow
from waybook.store.runs.work import JobEventRow, JobSelection, MarkdownRow, RunJobRow

RunJob: TypeAlias = RunJobRow
DocumentVersion: TypeAlias = ReadableRow

JOBS_PER_PAGE: Final = 50
MAX_JOB_EVENTS: Final = 200
MAX_STEP_DOCUMENTS: Final = 200

JOB_STATES: Final[Mapping[str, tuple[JobStatus, ...]]] = {
    "failed": (JobStatus.FAILED, JobStatus.RETRY_LOOP_FAILED),
    "processing": (JobStatus.PROCESSING,),
    "open": (JobStatus.PENDING, JobStatus.RETRYING, JobStatus.WAITING),
    "completed": (JobStatus.COMPLETED,),
    "superseded": (JobStatus.SUPERSEDED,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    stage: str | None = None
    step_key: str | None = None
    model: str | None = None
    state: str | None = None
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    jobs: tuple[RunJob, ...]
    total: int
    page: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // JOBS_PER_PAGE))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStepDetail:
    detail: RunDetail
    stage: str
    step: RecipeStep
    report: StepReport | None
    listed: JobList
    documents: Sequence[DocumentVersion]

    @property
    def failed_jobs(self) -> list[RunJob]:
        """Return the failed jobs that are not retried automatically."""
        return [job for job in self.listed.jobs if JobStatus(job.status) in FAILED_JOB]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAttempt:
    number: int
    holder: str
    session: str | None
    started_at: datetime
    #: When the attempt ended, if it has. An attempt whose lease expired ends when the next one
    #: begins.
    ended_at: datetime | None = None
    outcome: str | None = None
    error: str | None = None
    usage: Totals = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJobDetail:
    detail: RunDetail
    step: RecipeStep
    job: RunJob
    attempts: tuple[JobAttempt, ...]
    documents: Sequence[DocumentVersion]


async def read_run_jobs(
    ctx: RequestContext, run_id: str, filter_: JobFilter
) -> tuple[RunDetail, JobList]:
    run_id = id_or_nil(run_id)
    detail = await read_run_detail(ctx, run_id, RunInclude.JOB_TIMES)
    (rows,) = await ctx.read(_page_statement(run_id, filter_))
    return detail, _list(rows, filter_.page)


def _page_statement(run_id: str, filter_: JobFilter) -> Statement:
    selection = JobSelection(
        stage=filter_.stage,
        step_key=filter_.step_key,
        model=filter_.model,
        statuses=JOB_STATES.get(filter_.state or "", ()),
    )
    return work.jobs_statement(run_id, selection, JOBS_PER_PAGE, (filter_.page - 1) * JOBS_PER_PAGE)


def _list(rows: Sequence[RunJobRow], page: int) -> JobList:
    return JobList(jobs=work.read_jobs(rows), total=rows[0].total if rows else 0, page=page)


async def read_run_step(
    ctx: RequestContext, run_id: str, stage: str, step_key: str, page: int = 1
) -> RunStepDetail:
    run_id = id_or_nil(run_id)
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    graph = detail.compiled_dag.graphs.get(stage)
    if graph is None or step_key not in graph.steps:
        raise NotFound(
            "this run has no such step",
            next_call=NextCall("get_run_progress", {"runId": run_id}, "See the steps of the run."),
        )
    named = JobFilter(stage=stage, step_key=step_key, page=page)
    rows, documents = await ctx.read(
        _page_statement(run_id, named),
        work.step_documents_statement(run_id, stage, step_key, MAX_STEP_DOCUMENTS),
    )
    steps = next(s["steps"] for s in detail.report["stages"] if s["stageSlug"] == stage)
    return RunStepDetail(
        detail=detail,
        stage=stage,
        step=graph.steps[step_key],
        report=next((step for step in steps or () if step["stepKey"] == step_key), None),
        listed=_list(rows, page),
        documents=documents,
    )


async def read_run_job(ctx: RequestContext, run_id: str, job_id: str) -> RunJobDetail:
    run_id, job_id = id_or_nil(run_id), id_or_nil(job_id).lower()
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    rows, events, used = await ctx.read(
        work.jobs_statement(run_id, JobSelection(job_id=job_id), 1),
        work.job_events_statement(run_id, job_id, MAX_JOB_EVENTS),
        work.attempt_usage_statement(run_id, job_id),
    )
    if not rows:
        raise job_not_found()
    (job,) = work.read_jobs(rows)
    statement = work.step_documents_statement(
        run_id, job.stage, job.step_key, MAX_STEP_DOCUMENTS, job_id=job_id
    )
    (documents,) = await ctx.read(statement)
    return RunJobDetail(
        detail=detail,
        step=detail.compiled_dag.graphs[job.stage].steps[job.step_key],
        job=job,
        attempts=tuple(job_attempts(events, work.read_usage(used))),
        documents=documents,
    )


def job_attempts(
    events: Sequence[JobEventRow], usage: Mapping[int, Totals]
) -> Iterator[JobAttempt]:
    starts = [event for event in events if event.event == Event.STEP_STARTED]
    ends = {
        event.attempt: event
        for event in events
        if event.event in {Event.STEP_COMPLETED, Event.STEP_FAILED}
    }
    for place, start in enumerate(starts):
        number = start.attempt or 0
        end = ends.get(number)
        following = starts[place + 1] if place + 1 < len(starts) else None
        ended_at = end.at if end else following.at if following else None
        outcome = None
        if end is not None:
            outcome = "completed" if end.event == Event.STEP_COMPLETED else "failed"
        elif following is not None:
            outcome = "stalled"
        yield JobAttempt(
            number=number,
            holder=start.actor,
            session=start.session,
            started_at=start.at,
            ended_at=ended_at,
            outcome=outcome,
            error=end.error if end else None,
            usage=usage.get(number, NO_USAGE),
        )


MAX_COMPARABLE: Final = 300
#: Inputs with a newer version are listed first.
MAX_INPUTS_LISTED: Final = 50
#: The page shows at most this many characters. The download contains the whole document.
MAX_SHOWN_LENGTH: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    about: DocumentVersion
    markdown: str
    omitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSheet:
    """A document, related documents, and the document it is compared with."""

    detail: RunDetail
    document: ShownDocument
    other: ShownDocument | None
    #: Documents to compare with, such as other versions and documents of other models.
    related: Sequence[DocumentVersion]
    #: Inputs of the document in the versions that were read. Those with newer versions come first.
    inputs: Sequence[InputVersion] = ()

    @property
    def versions(self) -> list[DocumentVersion]:
        return [item for item in self.related if _place(item) == _place(self.document.about)]

    @property
    def of_other_models(self) -> list[DocumentVersion]:
        """Return the documents with the same key that other models wrote."""
        about = self.document.about
        return [
            item
            for item in self.related
            if (item.stage, item.document_key) == (about.stage, about.document_key)
            and _place(item) != _place(about)
        ]

    @property
    def of_same_lineage(self) -> list[DocumentVersion]:
        """Return the documents with other keys that derive from the same document."""
        about = self.document.about
        key = about.stage, about.document_key
        return [item for item in self.related if (item.stage, item.document_key) != key]


def _place(item: DocumentVersion) -> tuple[str | None, ...]:
    return item.stage, item.step_key, item.document_key, item.model, item.lineage, item.reviewer


async def read_document(ctx: RequestContext, resource_id: str) -> ReadableDocument:
    (rows,) = await ctx.read(jobs.rendered_statement(id_or_nil(resource_id)))
    if not rows:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("list_dags", {}, "List the workflows and runs."),
        )
    row: RenderedRow = rows[0]
    seen = await load_run(ctx, row.run_id, jobs.versions_statement(row.run_id, always=True))
    inputs = _inputs(seen.compiled_dag, row.document_id, seen.results[0])[:MAX_INPUTS_LISTED]
    fields = row._replace(created_at=row.created_at.astimezone(UTC))._asdict()
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
    compiled_dag: CompiledDag, document_id: str, rows: Sequence[DocumentVersionRow]
) -> Sequence[InputVersion]:
    versions = jobs.read_versions(rows)
    (inputs,) = input_versions(compiled_dag, versions, {document_id}).values()
    return sorted(inputs, key=lambda item: not item.is_outdated)


async def read_document_sheet(
    ctx: RequestContext, run_id: str, resource_id: str, other_id: str | None = None
) -> DocumentSheet:
    """Read a document of a run, and optionally a related one for comparison.

    Raises:
        NotFound: the run or a document does not exist or belongs to another org or run, or the
        documents are not related.
    """
    run_id, resource_id = id_or_nil(run_id), id_or_nil(resource_id).lower()
    wanted = [resource_id, *([id_or_nil(other_id).lower()] if other_id else [])]
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    version_rows, rows, *texts = await ctx.read(
        jobs.versions_statement(run_id, always=True),
        work.document_versions_statement(run_id, resource_id, MAX_COMPARABLE),
        *(work.document_text_statement(run_id, item, MAX_SHOWN_LENGTH) for item in wanted),
    )
    related = [row._replace(created_at=row.created_at.astimezone(UTC)) for row in rows]
    shown = [_shown(related, item, text) for item, text in zip(wanted, texts, strict=True)]
    return DocumentSheet(
        detail=detail,
        document=shown[0],
        other=shown[1] if other_id else None,
        related=related,
        inputs=_inputs(detail.compiled_dag, shown[0].about.document_id, version_rows),
    )


def _shown(
    related: Sequence[DocumentVersion], resource_id: str, rows: Sequence[MarkdownRow]
) -> ShownDocument:
    about = next((item for item in related if item.resource_id == resource_id), None)
    if about is None or not rows:
        raise NotFound(
            "there is no such document in this run, or it cannot be compared with this one",
            next_call=NextCall("list_dags", {}, "List the workflows and runs."),
        )
    text = rows[0]
    return ShownDocument(
        about=about, markdown=text.markdown, omitted=text.length - len(text.markdown)
    )
