"""Forecasts of plans: time and cost."""

from collections.abc import Sequence
from typing import TypeAlias

from waybook.core.forecast import MIN_UNITS, Forecast, estimate_sum, make_forecast
from waybook.plan.model import CLOSED_PLAN, Plan, Step, StepStatus
from waybook.store.plans.details import FinishedStepRow

FinishedStep: TypeAlias = FinishedStepRow

#: Statuses of steps that still have to be worked on.
OPEN_STEPS = (StepStatus.PENDING, StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT)


def plan_forecast(plan: Plan, history: Sequence[FinishedStepRow]) -> Forecast | None:
    if plan.status in CLOSED_PLAN:
        return None
    return steps_forecast([*plan.steps_with_status(*OPEN_STEPS)], history)


def steps_forecast(left: Sequence[Step], history: Sequence[FinishedStepRow]) -> Forecast | None:
    """Forecast time and cost of steps. Return None if there is too little history.

    Steps of the same plan or with the same titles are preferred as history.
    """
    titles = {step.title for step in left if step.title}
    similar = [row for row in history if row.is_own or row.title in titles]
    basis = "finished steps of this plan and steps with the same title"
    if len(similar) < MIN_UNITS:
        similar, basis = [*history], "finished steps of recent plans"
    costs = [row.cost_micros for row in similar if row.cost_micros is not None]
    return make_forecast(
        estimate_sum([row.seconds for row in similar], len(left)),
        estimate_sum(costs, len(left)),
        f"{len(similar)} {basis}",
    )
