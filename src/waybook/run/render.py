"""Rendered documents: what the server itself makes of what jobs made."""

from collections.abc import Sequence
from dataclasses import dataclass

from waybook.dag.model import JobStatus
from waybook.record.changes import Entity, Event
from waybook.record.moment import Moment
from waybook.run.decision import RunDecision
from waybook.run.draft import RunDraft
from waybook.run.model import Chart, Job, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A document, rendered."""

    job: Job
    markdown: str
    html: str


def keep_rendered(
    run: Run, chart: Chart, pages: Sequence[Page], moment: Moment
) -> RunDecision[int]:
    """Keep what was rendered; from now on these documents are available."""
    draft = RunDraft(run, chart, moment)
    for page in pages:
        draft.set_job(
            page.job,
            status=JobStatus.COMPLETED,
            attempt=page.job.attempt + 1,
            completed_at=moment.now,
        )
        draft.keep_text(
            Entity.RENDERED_DOCUMENT,
            moment.new_id(),
            page.markdown,
            page.html,
            document_id=page.job.document,
            job_id=page.job.id,
            created_at=moment.now.isoformat(),
        )
    if pages:
        draft.record(Event.PLAN_MODIFIED, action="rendered", documents=len(pages))
    return draft.decide(len(pages))
