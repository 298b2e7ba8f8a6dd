"""How outputs look in a reply, and what is left to do once a plan's steps are done."""

from collections.abc import Sequence

from waybook.plan.output import Output, is_missing
from waybook.record.moment import Json
from waybook.usecases.call import Body
from waybook.usecases.views import format_time, next_call


def output_view(output: Output) -> Body:
    """An output in a list: what it is, not what is in it."""
    return {
        "outputId": output.id,
        "title": output.title,
        "mediaType": output.media_type,
        "version": output.version,
        "createdAt": format_time(output.created_at),
        "createdBy": output.created_by,
    }


def next_after_completion(
    plan_id: str, media_type: str | None, skill_execution: str | None, outputs: Sequence[Output]
) -> Json:
    """The call that makes sense on a completed plan: deliver, end the skill, or look elsewhere."""
    if is_missing(outputs, media_type):
        why = "write the deliverable from all results (get_research_context has them), then keep it"
        return next_call("store_research_output", why, planId=plan_id, mediaType=media_type)
    if not outputs:
        why = "read all results, then write the deliverable"
        return next_call("get_research_context", why, planId=plan_id)
    if skill_execution is not None:
        why = "the deliverable is kept; say that the skill's work is done"
        return next_call("complete_skill", why, skillExecutionId=skill_execution)
    return next_call("list_active_plans", "the deliverable is kept; see what else is open")
