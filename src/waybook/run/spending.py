"""What a job took is written down once, with whatever was handed in, and added to its run."""

from waybook.record.changes import as_json
from waybook.record.usage import Usage
from waybook.run.draft import RunDraft
from waybook.run.model import Job


def record_usage(draft: RunDraft, job: Job, attempt: int, usage: Usage | None) -> None:
    """Keep what an attempt at a job took. A late result counts too: its tokens were spent.

    Whoever does not name a model is taken to have used the one the job is for.
    """
    if usage is None:
        return
    draft.add_usage(
        usage,
        job_id=job.id,
        attempt=attempt,
        **{**usage.as_row(), "model": usage.model or job.model},
        at=as_json(draft.moment.now),
        by=draft.moment.actor.user,
    )
