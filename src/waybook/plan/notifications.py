"""Notifications about a plan: review requested or overdue, plan stalled, or plan closed."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from waybook.core.events import (
    MAX_NAMES_LISTED,
    MAX_SUMMARY_LENGTH,
    Notification,
    NotificationKind,
    shorten,
)
from waybook.json_values import Json, rfc3339
from waybook.plan.model import Plan, Review, Step
from waybook.plan.progress import plan_outcome, plan_progress
from waybook.plan.states import PlanStatus, StepStatus

NOTIFICATION_BY_STATUS: Mapping[PlanStatus, NotificationKind] = MappingProxyType(
    {
        PlanStatus.AWAITING_REVIEW: NotificationKind.REVIEW_REQUESTED,
        PlanStatus.STALLED: NotificationKind.PLAN_STALLED,
        PlanStatus.COMPLETED: NotificationKind.PLAN_COMPLETED,
        PlanStatus.FAILED: NotificationKind.PLAN_FAILED,
    }
)


def plan_notifications(before: Plan, plan: Plan) -> tuple[Notification, ...]:
    occasion = NOTIFICATION_BY_STATUS.get(plan.status)
    if occasion is None or plan.status is before.status:
        return ()
    return (Notification(occasion, plan.id, _build_payload(plan)),)


def overdue_notification(plan: Plan, review: Review, due_at: datetime) -> Notification:
    data = {**_build_payload(plan), "review": _review(plan, review), "dueAt": rfc3339(due_at)}
    return Notification(NotificationKind.REVIEW_OVERDUE, plan.id, data)


def _build_payload(plan: Plan) -> dict[str, Json]:
    data: dict[str, Json] = {
        "planId": plan.id,
        "planName": shorten(plan.name),
        "status": str(plan.status),
        "progress": plan_progress(plan).as_reply(),
    }
    if plan.status is PlanStatus.AWAITING_REVIEW and plan.review is not None:
        data["review"] = _review(plan, plan.review)
    elif plan.status is PlanStatus.STALLED:
        held = [_step(step) for step in plan.steps_with_status(StepStatus.IN_PROGRESS)]
        data["steps"] = [*held[:MAX_NAMES_LISTED]]
    else:
        data["outcome"] = plan_outcome(plan.state, plan.statuses())
    return data


def _review(plan: Plan, review: Review) -> Json:
    return {
        "reviewId": review.id,
        **_step(plan.step(review.step_id)),
        "summary": shorten(review.summary, MAX_SUMMARY_LENGTH),
        "questions": len(review.questions),
    }


def _step(step: Step) -> dict[str, Json]:
    title = shorten(step.title) if step.title else None
    return {"stepId": step.id, "stepOrder": step.order, "stepTitle": title}
