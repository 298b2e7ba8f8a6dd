"""Computes the progress of a plan, budget warnings, stalled steps and notifications.

If the budget is exceeded, agents get a warning, but no call is refused.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from waybook.core.events import (
    MAX_NAMES_LISTED,
    MAX_SUMMARY_LENGTH,
    Notification,
    NotificationKind,
    shorten,
)
from waybook.core.usage import Totals, to_dollars
from waybook.json_values import Json, rfc3339
from waybook.plan.model import (
    CLOSED_PLAN,
    DONE_STEP,
    Budget,
    Output,
    Plan,
    PlanState,
    PlanStatus,
    Review,
    Step,
    StepStatus,
)


def percent(done: int, total: int) -> int:
    """Return the percentage of steps done, rounded half up.

    >>> percent(3, 13), percent(1, 8), percent(199, 200), percent(0, 0)
    (23, 13, 100, 0)
    """
    return (200 * done + total) // (2 * total) if total else 0


def progress_json(done: int, total: int) -> dict[str, Json]:
    """Return progress as JSON: the percentage and the numbers of steps done and of all steps.

    >>> progress_json(3, 13)
    {'percent': 23, 'done': 3, 'total': 13}
    """
    return {"percent": percent(done, total), "done": done, "total": total}


@dataclass(frozen=True, slots=True)
class Progress:
    counts: Mapping[StepStatus, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        """Return the number of completed or skipped steps. It never decreases."""
        return sum(self.counts.get(status, 0) for status in DONE_STEP)

    @property
    def failed(self) -> int:
        return self.counts.get(StepStatus.FAILED, 0)

    @property
    def in_progress(self) -> int:
        return self.counts.get(StepStatus.IN_PROGRESS, 0)

    @property
    def percent(self) -> int:
        return percent(self.done, self.total)


def plan_progress(plan: Plan) -> Progress:
    return Progress(Counter(plan.statuses()))


def progress_reply(plan: Plan) -> dict[str, Json]:
    """Return the progress as JSON, without a `Progress`, because every submit needs it."""
    statuses = plan.statuses()
    return progress_json(sum(map(DONE_STEP.__contains__, statuses)), len(statuses))


def open_review(plan: Plan) -> Review | None:
    """Return the review that a person can still decide.

    Return None if there is no such review, or if the plan has ended.
    """
    is_open = plan.status not in CLOSED_PLAN and plan.review and plan.review.decision is None
    return plan.review if is_open else None


def current_step(plan: Plan) -> Step | None:
    waiting = next(plan.steps_with_status(StepStatus.AWAITING_INPUT), None)
    return waiting or next(plan.steps_with_status(StepStatus.IN_PROGRESS), None)


def plan_outcome(state: PlanState, statuses: Collection[StepStatus]) -> str | None:
    if state in {PlanState.FAILED, PlanState.CANCELED}:
        return str(state)
    if state is PlanState.COMPLETED:
        return "completed_with_failures" if StepStatus.FAILED in statuses else "completed"
    return None


_WARNING_PERCENT = 80
_FULL_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetShare:
    name: str
    unit: str
    used: int
    of: int

    @property
    def percent(self) -> int:
        return _FULL_PERCENT * self.used // self.of


def shares(budget: Budget, used: Totals) -> Iterator[BudgetShare]:
    if budget.tokens is not None:
        yield BudgetShare(name="tokens", unit="tokens", used=used.tokens, of=budget.tokens)
    if budget.cost_micros is not None:
        yield BudgetShare(
            name="costUsd", unit="money", used=used.cost_micros, of=budget.cost_micros
        )


def budget_json(budget: Budget, used: Totals) -> dict[str, Json]:
    parts, fields = [*shares(budget, used)], dict[str, Json]()
    for part in parts:
        amounts: list[Json] = [part.used, part.of]
        if part.name == "costUsd":
            amounts = [to_dollars(part.used), to_dollars(part.of)]
        fields[part.name] = {"used": amounts[0], "of": amounts[1], "percent": part.percent}
    warnings = [message for part in parts if (message := warning(part)) is not None]
    return {**fields, "warning": " ".join(warnings)} if warnings else fields


def warning(part: BudgetShare) -> str | None:
    """Return the warning for a budget limit that is nearly used up or exceeded.

    >>> warning(BudgetShare(name="tokens", unit="tokens", used=79, of=100))
    >>> warning(BudgetShare(name="tokens", unit="tokens", used=80, of=100))
    "80 % of the plan's tokens are used: keep the rest short."
    """
    if part.used > part.of:
        return (
            f"The plan is over its budget of {part.unit} ({part.percent} %): tell the person you "
            "work for, and finish with as little as you can."
        )
    if part.percent >= _WARNING_PERCENT:
        be = "are" if part.unit == "tokens" else "is"
        return f"{part.percent} % of the plan's {part.unit} {be} used: keep the rest short."
    return None


DEFAULT_STALL_THRESHOLD = timedelta(minutes=30)


def stall_threshold(
    plan: Plan, step: Step, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> timedelta:
    seconds = step.stall_seconds if step.stall_seconds is not None else plan.stall_seconds
    return patience if seconds is None else timedelta(seconds=seconds)


def last_heartbeat(step: Step) -> datetime | None:
    if step.status is not StepStatus.IN_PROGRESS or step.in_progress_since is None:
        return None
    return max(step.in_progress_since, step.last_seen_at or step.in_progress_since)


def detect_stalled_steps(
    plan: Plan, *, now: datetime, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> tuple[tuple[Step, timedelta], ...]:
    """Return the stalled steps in plan order, each with the time since its last heartbeat."""
    silent = (
        (step, now - seen) for step in plan.steps if (seen := last_heartbeat(step)) is not None
    )
    return tuple((step, gap) for step, gap in silent if gap > stall_threshold(plan, step, patience))


def is_plan_stalled(
    plan: Plan, *, now: datetime, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> bool:
    """Return whether any step of the plan is stalled, regardless of the stored status."""
    return bool(detect_stalled_steps(plan, now=now, patience=patience))


def time_until_stall(
    plan: Plan, *, now: datetime, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> timedelta | None:
    left = (
        stall_threshold(plan, step, patience) - (now - seen)
        for step in plan.steps
        if (seen := last_heartbeat(step)) is not None
    )
    return min((gap for gap in left if gap >= timedelta()), default=None)


def newly_stalled(
    plan: Plan, *, now: datetime, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> tuple[tuple[Step, timedelta], ...]:
    """Return the steps that have stalled since the plan was last resumed."""
    if plan.status is not PlanStatus.EXECUTING:
        return ()
    resumed = plan.resumed_at
    return tuple(
        (step, gap)
        for step, gap in detect_stalled_steps(plan, now=now, patience=patience)
        if resumed is None or now - resumed > stall_threshold(plan, step, patience)
    )


def whole_minutes(gap: timedelta) -> int:
    """Return a time in whole minutes, rounded down.

    >>> whole_minutes(timedelta(minutes=31, seconds=59))
    31
    """
    return int(gap.total_seconds() // 60)


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
        "progress": progress_reply(plan),
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


def latest(outputs: Iterable[Output]) -> list[Output]:
    last: dict[tuple[str, str], Output] = {}
    for output in sorted(outputs, key=lambda output: output.version):
        last[output.title, output.media_type] = output
    return sorted(last.values(), key=lambda output: (output.created_at, output.id), reverse=True)


def is_missing(outputs: Iterable[Output], media_type: str | None) -> bool:
    return media_type is not None and all(output.media_type != media_type for output in outputs)
