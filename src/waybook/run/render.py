"""Rendered documents: what the server itself makes of what jobs made."""

from collections.abc import Sequence
from dataclasses import dataclass

from waybook.dag.model import JobStatus
from waybook.record.changes import Entity, Event
from waybook.record.moment import DecisionContext
from waybook.run.decision import RunDecision
from waybook.run.draft import RunDraft
from waybook.run.model import CompiledDag, Job, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """A document, rendered."""

    job: Job
    markdown: str
    html: str


def store_rendered(
    run: Run, compiled_dag: CompiledDag, pages: Sequence[RenderedPage], context: DecisionContext
) -> RunDecision[int]:
    """Keep what was rendered; from now on these documents are available."""
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
            context.new_id(),
            page.markdown,
            page.html,
            document_id=page.job.document,
            job_id=page.job.id,
            created_at=context.now.isoformat(),
        )
    if pages:
        draft.record(Event.PLAN_MODIFIED, action="rendered", documents=len(pages))
    return draft.decide(len(pages))
