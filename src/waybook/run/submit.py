"""Accepts the documents of a job, complete or in parts, and stores rendered documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from waybook.core.changes import Entity, Event, text_hash
from waybook.core.decision_context import Actor, DecisionContext, is_repeated_result
from waybook.core.usage import Usage
from waybook.dag.expansion.units import ProducedDocument
from waybook.dag.graph import output_keys
from waybook.dag.model import JobStatus, RecipeStep
from waybook.errors import InvalidInput, Refused, TooLarge
from waybook.json_values import Json
from waybook.run.failure import cancellation_error, holder_error
from waybook.run.model import MAX_PARTS, CompiledDag, Job, Run, RunDecision, RunDraft
from waybook.run.stages import add_document, advance, recreate_job, require_few_jobs, store_list


class SubmittedDocument(NamedTuple):
    """A submitted document. If it has no key or model, it is accepted for any key or model."""

    content: str
    document_key: str | None = None
    model: str | None = None


class Submission(NamedTuple):
    documents: tuple[SubmittedDocument, ...]
    #: Attempt that the caller claimed. If it is missing, only the holder can submit a result.
    attempt: int | None = None
    continues: bool = False
    usage: Usage | None = None


class JobDone(NamedTuple):
    job: Job
    documents: tuple[str, ...] = ()
    continuation: Job | None = None


def submit_job(
    run: Run,
    compiled_dag: CompiledDag,
    job: Job,
    submission: Submission,
    context: DecisionContext,
    *,
    parts: Sequence[str] = (),
    version: int = 1,
) -> RunDecision[JobDone]:
    """Complete a job: store its documents, close finished steps, and open ready steps.

    `parts` are the earlier parts of the text that this job continues.

    Raises:
        InvalidInput: the submitted documents are not those that the step produces, or a document
        that must be a list is not a valid list.
        RunCanceled: the run is canceled, and the caller has completed the job already.
        InvalidTransition: the caller has completed the job already.
        TooLarge: the result has too many parts, or a list has too many items.
    """
    draft = RunDraft(run, compiled_dag, context)
    refusal = _refusal(run, job, submission.attempt, context.actor)
    if refusal is not None:
        attempt, late_id = submission.attempt, context.new_uuid()
        draft.store_text(
            Entity.LATE_RESULT,
            late_id,
            "\n\n".join(document.content for document in submission.documents),
            job_id=job.id,
            attempt=attempt or 0,
            created_at=context.now.isoformat(),
            created_by=context.actor.user,
        )
        draft.record_usage(job, attempt or 0, submission.usage)
        draft.record(Event.PLAN_MODIFIED, action="late_result", jobId=job.id, attempt=attempt)
        return draft.decide(JobDone(job=job), refusal=refusal)
    if submission.continues:
        return draft.decide(_continued(draft, job, submission))
    return draft.decide(_completed(draft, job, submission, parts, version))


def _refusal(run: Run, job: Job, attempt: int | None, actor: Actor) -> Refused | None:
    """Return why a result is refused, or None if the job may accept it.

    Raises:
        RunCanceled, InvalidTransition: the caller has completed the job already.
    """
    canceled = cancellation_error(run, jobId=job.id)
    refusal: Refused | None = canceled or holder_error(job, attempt, actor)
    is_completed = job.status in {JobStatus.COMPLETED, JobStatus.SUPERSEDED}
    if refusal and is_completed and is_repeated_result(attempt, job, actor):
        raise refusal
    return refusal


def _continued(draft: RunDraft, job: Job, submission: Submission) -> JobDone:
    if job.part >= MAX_PARTS:
        raise TooLarge(
            f"this document has {job.part} parts, and the limit is {MAX_PARTS}; submit the rest as "
            "the last part",
            limit=MAX_PARTS,
        )
    text = _alone(submission).content
    done = _end(draft, job, submission)
    draft.store_text(Entity.JOB_PART, job.id, text, part=job.part)
    following = recreate_job(
        draft,
        job,
        continues=job.id,
        part=job.part + 1,
        document=job.document,
        counted=job.counted,
    )
    draft.record_job(Event.STEP_COMPLETED, done, continues=True)
    return JobDone(job=done, continuation=following)


def _alone(submission: Submission) -> SubmittedDocument:
    if len(submission.documents) != 1:
        raise InvalidInput("each part of a long text must be submitted as exactly one document")
    return submission.documents[0]


def _completed(
    draft: RunDraft, job: Job, submission: Submission, parts: Sequence[str], version: int
) -> JobDone:
    step = draft.compiled_dag.graphs[job.stage].steps[job.step_key]
    made = job.unit.makes if job.unit else ()
    submitted = submission.documents
    if parts:
        last = _alone(submission)
        submitted = (last._replace(content="".join([*parts, last.content])),)
    contents = _assigned(step, made, submitted)
    done = _end(draft, job, submission)
    document_ids = []
    for (key, output), content in contents.items():
        text = {"content": content, "content_hash": text_hash(content)}
        document = add_document(draft, done, key, output, version=version, **text)
        document_ids.append(document.id)
        if (job.stage, key) in draft.compiled_dag.produced_lists:
            store_list(draft, document)
            require_few_jobs(draft, job.stage)
    if job.counted:
        counted = draft.step_of(job)
        counted = draft.set_step(counted, done=counted.done + 1)
        if counted.done >= counted.total:
            advance(draft, job.stage)
    draft.record_job(Event.STEP_COMPLETED, done, documents=[*document_ids])
    return JobDone(job=done, documents=tuple(document_ids))


_DocumentTarget = tuple[str, ProducedDocument]


def _assigned(
    step: RecipeStep, made: Sequence[ProducedDocument], submitted: Sequence[SubmittedDocument]
) -> Mapping[_DocumentTarget, str]:
    """Return the submitted text for each document that the job must produce."""
    wanted: dict[_DocumentTarget, str | None] = {
        (key, out): None for key in output_keys(step) for out in made
    }
    for document in submitted:
        fitting = [
            (key, out)
            for key, out in wanted
            if document.document_key in {None, key} and document.model in {None, out.model}
        ]
        if not fitting:
            keys = [*output_keys(step)]
            raise InvalidInput(
                f"this step has no document {document.document_key!r} for model "
                f"{document.model!r}; its documents are {', '.join(keys)}",
                documentKeys=keys,
                modelIds=sorted({output.model for output in made}),
            )
        for place in fitting:
            if wanted[place] is not None:
                raise InvalidInput(
                    f"the document {place[0]!r} for model {place[1].model!r} is submitted twice"
                )
            wanted[place] = document.content
    missing: list[Json] = [
        {"documentKey": key, "modelId": out.model}
        for (key, out), content in wanted.items()
        if content is None
    ]
    if missing:
        raise InvalidInput(
            f"{len(missing)} of {len(wanted)} documents are missing; submit all of them in one "
            "call",
            missing=missing[:20],
        )
    return {place: content for place, content in wanted.items() if content is not None}


def _end(draft: RunDraft, job: Job, submission: Submission) -> Job:
    draft.record_usage(job, job.attempt, submission.usage)
    return draft.set_job(job, status=JobStatus.COMPLETED, completed_at=draft.moment.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    job: Job
    markdown: str
    html: str


def store_rendered(
    run: Run, compiled_dag: CompiledDag, pages: Sequence[RenderedPage], context: DecisionContext
) -> RunDecision[int]:
    draft = RunDraft(run, compiled_dag, context)
    for page in pages:
        draft.set_job(
            page.job,
            status=JobStatus.COMPLETED,
            attempt=page.job.attempt + 1,
            completed_at=context.now,
        )
        draft.store_text(
            Entity.RENDERED_DOCUMENT,
            context.new_uuid(),
            page.markdown,
            page.html,
            document_id=page.job.document,
            job_id=page.job.id,
            created_at=context.now.isoformat(),
        )
    if pages:
        draft.record(Event.PLAN_MODIFIED, action="rendered", documents=len(pages))
    return draft.decide(len(pages))
