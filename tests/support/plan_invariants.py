"""Invariants of plans: checks that every state and every decision must pass."""

from collections.abc import Collection
from functools import lru_cache

from waybook.core.changes import Change, Entity, Row, Rows, _apply
from waybook.core.usage import NO_USAGE
from waybook.plan.draft import RESULT_FIELDS, Decision, condition_row, review_row, step_row
from waybook.plan.model import (
    CLOSED_PLAN,
    DONE_STEP,
    TERMINAL_STEP,
    Condition,
    Plan,
    PlanStatus,
    Step,
    StepStatus,
    StepText,
    can_move_plan,
    can_move_step,
    derive_plan_status,
)
from waybook.plan.next_step import StepReady
from waybook.plan.progress import plan_progress
from waybook.plan.submit import StepDone

#: Fields of the plan's row that a `Plan` object contains.
PLAN_FIELDS = (
    *("name", "status", "revision", "stall_seconds", "resumed_at", "fail_reason", "canceled"),
    *("usage", "budget"),
)
#: Fields of a step's row that a `Step` object does not contain.
NOT_CARRIED = frozenset({*RESULT_FIELDS, "usage"})
#: Kinds of rows that a `Plan` object contains.
CARRIED = ("plan", "step", "condition", "review")


def check_state(plan: Plan) -> None:
    """Check the invariants of a plan in one state."""
    the_status_is_derivable(plan)
    orders_are_contiguous(plan)
    open_reviews_at_most_1(plan)
    claimed_steps_have_a_start_time(plan)


def is_derivable(status: PlanStatus, statuses: list[StepStatus]) -> bool:
    """Return whether a plan may have this status while its steps have these statuses."""
    derived = derive_plan_status(statuses)
    match status:
        case PlanStatus.FAILED:
            return True
        case PlanStatus.PLANNING:
            return all(step is StepStatus.PENDING for step in statuses)
        case PlanStatus.STALLED:
            return derived is PlanStatus.EXECUTING
        case _:
            return status is derived


def the_status_is_derivable(plan: Plan) -> None:
    assert is_derivable(plan.status, plan.statuses())


def orders_are_contiguous(plan: Plan) -> None:
    assert [step.order for step in plan.steps] == list(range(1, len(plan.steps) + 1))
    assert len({step.id for step in plan.steps}) == len(plan.steps)


def open_reviews_at_most_1(plan: Plan) -> None:
    """Check that at most one review is open, and that it belongs to the step that awaits input."""
    waiting = [step.id for step in plan.steps_with_status(StepStatus.AWAITING_INPUT)]
    review = plan.review
    assert waiting == ([review.step_id] if review and review.decision is None else [])


def claimed_steps_have_a_start_time(plan: Plan) -> None:
    """Check that steps in progress have a start time; pending steps have none, and no holder."""
    for step in plan.steps:
        if step.status is StepStatus.IN_PROGRESS:
            assert step.in_progress_since is not None
        elif step.status is StepStatus.PENDING:
            assert step.in_progress_since is None
            assert step.held_by is None
            assert step.held_session is None


def check_decision(before: Plan, decision: Decision[object], who: str | None = None) -> None:
    """Check the invariants of a decision: `before` is the plan before it, `who` is the caller."""
    closed_plan_accepts_only_late_results(before, decision)
    every_change_has_an_entry(before, decision)
    if decision.entries:
        statuses_change_as_allowed(before, decision)
        done_steps_stay_done(before, decision.plan)
        recorded_changes_give_the_new_rows(before, decision)
    step_has_single_holder(before, decision, who)


def closed_plan_accepts_only_late_results(before: Plan, decision: Decision[object]) -> None:
    """Check that a decision changes a closed plan only by a late result and its usage."""
    if before.status in CLOSED_PLAN:
        assert all(e.details["action"] == "late_result_kept" for e in decision.entries)
        assert decision.plan._replace(seq=before.seq, usage=before.usage) == before
        assert (decision.refusal is not None) == bool(decision.entries)


def every_change_has_an_entry(before: Plan, decision: Decision[object]) -> None:
    assert decision.plan.seq == before.seq + len(decision.entries)
    assert set(decision.touched) <= {step.id for step in decision.plan.steps}
    if not decision.entries:
        assert decision.plan == before


def statuses_change_as_allowed(before: Plan, decision: Decision[object]) -> None:
    """Check that each status change is allowed, and starts from the previous status."""
    standing: dict[str, object] = {before.id: before.status}
    standing |= {step.id: step.status for step in before.steps}
    for change in _changes(decision):
        if change.field != "status":
            continue
        assert standing.setdefault(change.id, StepStatus.PENDING) == change.old
        standing[change.id] = change.new
        if change.entity is Entity.PLAN:
            assert can_move_plan(PlanStatus(str(change.old)), PlanStatus(str(change.new)))
        else:
            assert can_move_step(StepStatus(str(change.old)), StepStatus(str(change.new)))


def done_steps_stay_done(before: Plan, after: Plan) -> None:
    """Check that done steps stay done, so that their number never decreases."""
    assert plan_progress(after).done >= plan_progress(before).done
    now = {step.id: step.status for step in after.steps}
    assert all(now[step.id] is step.status for step in before.steps_with_status(*DONE_STEP))


def step_has_single_holder(before: Plan, decision: Decision[object], who: str | None) -> None:
    """Check that the caller now holds the claimed step, and was allowed to claim it.

    If the claimed step was pending, all steps that it depends on must have ended.
    """
    reply = decision.reply
    ready = reply.following if isinstance(reply, StepDone) else reply
    if not isinstance(ready, StepReady):
        return
    step = ready.step
    was = next((s for s in before.steps if s.id == step.id), None)
    # A step that a condition added in this call was not in the plan before.
    if was is None:
        assert step.attempt == 1
    elif ready.taken_over is not None:
        assert was == ready.taken_over[0]
        assert step.attempt == was.attempt + 1
    else:
        assert was.status is StepStatus.PENDING or was.held_by in {None, who}
    if was is None or was.status is StepStatus.PENDING:
        still_open = {s.id for s in decision.plan.steps if s.status not in TERMINAL_STEP}
        assert still_open.isdisjoint(step.depends_on)
    assert step.held_by == who
    assert decision.plan.step(step.id) == step


def recorded_changes_give_the_new_rows(before: Plan, decision: Decision[object]) -> None:
    """Check that the changes which a decision records turn the old rows into the new rows."""
    after, changes = decision.plan, _changes(decision)
    named = {change.id for change in changes}
    rows, expected = _rows(before, named), _rows(after, named)
    for change in changes:
        _apply(rows.setdefault(str(change.entity), {}), change)
    for entity in CARRIED:
        actual = {row_id: _known(entity, row) for row_id, row in rows.get(entity, {}).items()}
        assert actual == expected.get(entity, {}), (entity, changes)
    _the_rest_is_as_it_was(before, after, named)


def _the_rest_is_as_it_was(before: Plan, after: Plan, named: set[str]) -> None:
    were = {step.id: step for step in before.steps}
    for step in after.steps:
        if step.id not in named:
            assert step == were[step.id]
            assert after.texts[step.id] == before.texts[step.id]
    kept = [condition for condition in before.conditions if condition.id not in named]
    assert [condition for condition in after.conditions if condition.id not in named] == kept
    if after.id not in named:
        assert _plan_row(after) == _plan_row(before)
    assert after.sessions - before.sessions <= named


def _changes(decision: Decision[object]) -> list[Change]:
    return [change for entry in decision.entries for change in entry.changes]


def rows_of(plan: Plan) -> Rows:
    """Return the database rows that correspond to a plan object."""
    named = {plan.id, *(step.id for step in plan.steps), *(c.id for c in plan.conditions)}
    return _rows(plan, named | ({plan.review.id} if plan.review else set()))


def known_rows(rows: Rows) -> Rows:
    """Return the replayed rows, without the rows and fields that a plan object lacks."""
    return {
        entity: {row_id: _known(entity, row) for row_id, row in entity_rows.items()}
        for entity, entity_rows in rows.items()
        if entity in CARRIED
    }


def _rows(plan: Plan, named: Collection[str]) -> Rows:
    rows: Rows = {}
    if plan.id in named:
        rows["plan"] = {plan.id: _plan_row(plan)}
    steps = [step for step in plan.steps if step.id in named]
    if steps:
        texts = plan.texts
        rows["step"] = {s.id: dict(_step_row(s, texts[s.id].instructions)) for s in steps}
    conditions = [condition for condition in plan.conditions if condition.id in named]
    if conditions:
        rows["condition"] = {c.id: dict(_condition_row(c)) for c in conditions}
    if plan.review and plan.review.id in named:
        rows["review"] = {plan.review.id: review_row(plan.review)}
    return rows


@lru_cache(maxsize=100_000)
def _step_row(step: Step, instructions: str) -> Row:
    return step_row(step, StepText(instructions=instructions))


@lru_cache(maxsize=100_000)
def _condition_row(condition: Condition) -> Row:
    return condition_row(condition)


def _plan_row(plan: Plan) -> Row:
    resumed = plan.resumed_at
    return {
        "name": plan.name,
        "status": str(plan.status),
        "revision": plan.revision,
        "stall_seconds": plan.stall_seconds,
        "resumed_at": resumed.isoformat() if resumed else None,
        "fail_reason": plan.fail_reason,
        "canceled": plan.canceled,
        "usage": plan.usage._asdict() if plan.usage != NO_USAGE else None,
        "budget": plan.budget.as_json() if plan.budget else None,
    }


def _known(entity: str, row: Row) -> Row:
    if entity == "plan":
        return {name: row.get(name) for name in PLAN_FIELDS}
    if entity == "step":
        left_out = (
            NOT_CARRIED if row.get("required_sources") else {*NOT_CARRIED, "required_sources"}
        )
        return {name: value for name, value in row.items() if name not in left_out}
    return row
