"""Copies a run to start one of its stages again. The copy contains the earlier stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from waybook.core.changes import Event
from waybook.core.decision_context import DecisionContext
from waybook.dag.expansion.units import ProducedDocument
from waybook.dag.model import JobStatus
from waybook.errors import InvalidTransition
from waybook.json_values import Json
from waybook.run.model import CompiledDag, Job, Run, RunDecision, RunDraft, StageRun, progress_call
from waybook.run.stages import (
    add_document,
    copy_lists,
    recreate_job,
    require_stage,
    start_stage,
)

MAX_NAME_LENGTH = 200
COPY_SUFFIX = " (copy)"


class OriginalDocument(NamedTuple):
    origin: ProducedDocument
    id: str
    stage: str
    step_key: str
    job_id: str
    document_key: str
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRun:
    run: Run
    input: Json
    jobs: Sequence[Job]
    documents: Sequence[OriginalDocument]


def copy_run(
    source: CopiedRun,
    compiled_dag: CompiledDag,
    run_id: str,
    from_stage: str,
    context: DecisionContext,
    *,
    name: str | None = None,
    models: Sequence[str] | None = None,
) -> RunDecision[tuple[StageRun, ...]]:
    """Copy a run, with the same workflow version, and start the given stage again in the copy.

    Raises:
        NotFound: the workflow has no stage with this slug.
        InvalidTransition: an earlier stage is not complete, or has no feedback yet.
    """
    require_stage(compiled_dag, from_stage)
    earlier = earlier_stages(compiled_dag, from_stage)
    old = source.run
    for slug in earlier:
        stage = old.stages.get(slug)
        if stage is None or stage.completed_at is None or stage.feedback is None:
            raise InvalidTransition(
                f"cannot copy from the stage {from_stage!r}: the stage {slug!r} before it is not "
                "complete, or has no feedback",
                old="in_progress" if stage else "not_started",
                new="completed",
                stageSlug=slug,
                next_call=progress_call(old, "See that run's progress."),
            )
    if not models:
        started = old.stages.get(from_stage)
        models = (started or old.stages[compiled_dag.dag.before(from_stage)[-1]]).models
    short = old.name[: MAX_NAME_LENGTH - len(COPY_SUFFIX)]
    run = Run(
        id=run_id,
        name=name or f"{short}{COPY_SUFFIX}",
        seq=0,
        completed_at=None,
        stages={},
        steps={},
        copied_from=old.id,
        copied_seq=old.seq,
    )
    draft = RunDraft(run, compiled_dag, context)
    draft.add_run(source.input)
    _carry_over(draft, source, earlier)
    draft.record(
        Event.PLAN_MODIFIED,
        action="run_started",
        dagSlug=compiled_dag.dag.slug,
        copiedFrom={"runId": old.id, "auditSeq": old.seq},
        carriedOver=[*earlier],
    )
    start_stage(draft, from_stage, models)
    return draft.decide((draft.stages[from_stage],))


def earlier_stages(compiled_dag: CompiledDag, slug: str) -> tuple[str, ...]:
    found: set[str] = set()
    waiting = [slug]
    while waiting:
        before = [s for s in compiled_dag.dag.before(waiting.pop()) if s not in found]
        found.update(before)
        waiting += before
    return tuple(s for s in compiled_dag.order if s in found)


def _carry_over(draft: RunDraft, source: CopiedRun, slugs: Sequence[str]) -> None:
    now, run = draft.moment.now, source.run
    for slug in slugs:
        stage = run.stages[slug]
        draft.add_stage(stage._replace(started_at=now, completed_at=now, feedback_at=now))
        for step in [step for step in run.steps.values() if step.stage == slug]:
            draft.add_step(step._replace(opened_at=now, closed_at=now))
    jobs: dict[str, Job] = {}
    for job in [job for job in source.jobs if job.stage in slugs]:
        jobs[job.id] = recreate_job(
            draft,
            job,
            status=JobStatus.COMPLETED,
            attempt=1,
            tries=1,
            held_by=job.held_by,
            completed_at=now,
        )
    new_ids = dict[str, str]()
    for old in [document for document in source.documents if document.stage in slugs]:
        copied = {"version": 1, "content": "", "content_hash": old.content_hash}
        document = add_document(
            draft, jobs[old.job_id], old.document_key, old.origin, **copied, copied_from=old.id
        )
        new_ids[old.id] = document.id
    copy_lists(draft, run, new_ids)
