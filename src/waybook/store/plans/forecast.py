"""Selects the completed steps on which the forecast of a plan is based."""

from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

MAX_PLANS = 20
MAX_FINISHED_STEPS = 500


class FinishedStepRow(NamedTuple):
    is_own: bool
    title: str | None
    seconds: float
    #: Reported cost in millionths of a dollar. None if no cost was reported.
    cost_micros: int | None


SQL = load("plans/forecast", finished_steps=FinishedStepRow)


def finished_steps_statement(plan_id: str) -> Statement:
    return SQL["finished_steps"](plan_id=plan_id, plans=MAX_PLANS, most=MAX_FINISHED_STEPS)
