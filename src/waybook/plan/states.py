"""The states of a plan and of its steps as people see them."""

from collections.abc import Collection, Mapping

from waybook.core.changes import Row
from waybook.core.shown import Shown, shown_item, shown_plan
from waybook.plan.model import (
    CLOSED_PLAN,
    Plan,
    PlanId,
    PlanStatus,
    Step,
    StepId,
    StepStatus,
    StepType,
)
from waybook.plan.next_step import is_paused
from waybook.plan.ordering import ready_steps


def state_of_plan(plan: Plan) -> Shown:
    is_held = any(step.holder for step in plan.steps)
    return shown_plan(plan.state, is_held=is_held, has_steps=bool(plan.steps))


def states_of_steps(plan: Plan, silent: Collection[StepId] = ()) -> Mapping[StepId, Shown]:
    """Return the state of each step. `silent` has the steps without a recent heartbeat."""
    is_over = plan.status in CLOSED_PLAN
    ready = frozenset[StepId]()
    if not is_over and not is_paused(plan):
        ready = frozenset(step.id for step in ready_steps(plan))

    def state(step: Step) -> Shown:
        return shown_item(
            step.status,
            is_held=step.holder is not None,
            is_silent=step.id in silent,
            is_ready=step.id in ready,
            is_over=is_over,
        )

    return {step.id: state(step) for step in plan.steps}


def past_states(plan: Row, steps: Mapping[str, Row]) -> tuple[Shown, Mapping[StepId, Shown]]:
    """Return the states of a plan and of its steps, from rows that were replayed from the audit.

    The audit has no heartbeats, so a step that was held is running.
    """
    then = _PLAN._replace(
        status=PlanStatus(str(plan["status"])),
        steps=tuple(_past_step(StepId(step_id), row) for step_id, row in steps.items()),
        sequential=bool(plan.get("sequential")),
        canceled=bool(plan.get("canceled")) or None,
    )
    return state_of_plan(then), states_of_steps(then)


#: A plan and a step with the fields from which no state follows.
_PLAN = Plan(PlanId(""), "", PlanStatus.PLANNING, 0, None, None, None, 0, ())
_STEP = Step(StepId(""), 0, StepType.CUSTOM, None, StepStatus.PENDING, 0, None)


def _past_step(step_id: StepId, row: Row) -> Step:
    holder, before = row.get("held_by"), row.get("depends_on")
    return _STEP._replace(
        id=step_id,
        status=StepStatus(str(row["status"])),
        held_by=None if holder is None else str(holder),
        depends_on=tuple(StepId(str(i)) for i in before) if isinstance(before, list) else (),
        touches=touches if isinstance(touches := row.get("touches"), str) else None,
    )
