"""What a step took is written down once, with whatever was handed in, and added to its plan."""

from waybook.plan.draft import Draft
from waybook.plan.model import StepId
from waybook.record.changes import Entity, as_json
from waybook.record.moment import Json
from waybook.record.usage import Usage


def record_usage(draft: Draft, step_id: StepId, attempt: int, usage: Usage | None) -> None:
    """Keep what an attempt at a step took. A late result counts too: its tokens were spent."""
    if usage is None:
        return
    row: dict[str, Json] = {
        "step_id": step_id,
        "attempt": attempt,
        **usage.as_row(),
        "at": as_json(draft.moment.now),
        "by": draft.moment.actor.user,
    }
    draft.insert(Entity.USAGE, draft.moment.new_id(), row)
    draft.set_usage(draft.plan.usage.plus(usage))
