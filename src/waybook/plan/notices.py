"""What people are told of a plan: that it waits for them, has fallen silent, or is over."""

from collections.abc import Mapping
from types import MappingProxyType

from waybook.plan.model import Plan, Review, Step
from waybook.plan.progress import count_done, outcome, percent
from waybook.plan.states import PlanStatus, StepStatus
from waybook.record.moment import Json
from waybook.record.notice import LONGEST_SUMMARY, MOST_NAMED, Notice, Occasion, in_short

#: The statuses somebody is told of when a plan comes to them.
OCCASIONS: Mapping[PlanStatus, Occasion] = MappingProxyType(
    {
        PlanStatus.AWAITING_REVIEW: Occasion.REVIEW_REQUESTED,
        PlanStatus.STALLED: Occasion.PLAN_STALLED,
        PlanStatus.COMPLETED: Occasion.PLAN_COMPLETED,
        PlanStatus.FAILED: Occasion.PLAN_FAILED,
    }
)


def plan_notices(before: Plan, plan: Plan) -> tuple[Notice, ...]:
    """What there is to tell once the plan has become so."""
    occasion = OCCASIONS.get(plan.status)
    if occasion is None or plan.status is before.status:
        return ()
    return (Notice(occasion, plan.id, _told(plan)),)


def _told(plan: Plan) -> dict[str, Json]:
    done, total = count_done(plan.statuses()), len(plan.steps)
    data: dict[str, Json] = {
        "planId": plan.id,
        "planName": in_short(plan.name),
        "status": str(plan.status),
        "progress": {"percent": percent(done, total), "done": done, "total": total},
    }
    if plan.status is PlanStatus.AWAITING_REVIEW and plan.review is not None:
        data["review"] = _review(plan, plan.review)
    elif plan.status is PlanStatus.STALLED:
        held = [_step(step) for step in plan.having(StepStatus.IN_PROGRESS)]
        data["steps"] = [*held[:MOST_NAMED]]
    else:
        data["outcome"] = outcome(plan.status, plan.statuses())
    return data


def _review(plan: Plan, review: Review) -> Json:
    return {
        "reviewId": review.id,
        **_step(plan.step(review.step_id)),
        "summary": in_short(review.summary, LONGEST_SUMMARY),
        "questions": len(review.questions),
    }


def _step(step: Step) -> dict[str, Json]:
    title = in_short(step.title) if step.title else None
    return {"stepId": step.id, "stepOrder": step.order, "stepTitle": title}
