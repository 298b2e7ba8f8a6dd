"""Edits that change no status: step titles, step dependencies, and the plan's budget."""

from dataclasses import dataclass

from waybook.json_values import Json
from waybook.plan.draft import Draft
from waybook.plan.model import Budget, Step, StepId
from waybook.plan.ordering import changed_dependencies


@dataclass(frozen=True, slots=True)
class SetTitle:
    step_id: StepId
    title: str | None


@dataclass(frozen=True, slots=True)
class SetDependencies:
    step_id: StepId
    depends_on: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetBudget:
    budget: Budget | None


def set_title(draft: Draft, step: Step, title: str | None) -> dict[str, Json]:
    draft.set_step(step.id, title=title)
    return {"action": "set_title", "stepId": step.id, "stepOrder": step.order}


def set_dependencies(draft: Draft, step: Step, orders: tuple[int, ...]) -> dict[str, Json]:
    draft.set_step(step.id, depends_on=changed_dependencies(draft.plan.steps, step, orders))
    orders_json: list[Json] = [*orders]
    details: dict[str, Json] = {"stepOrder": step.order, "dependsOn": orders_json}
    return {"action": "set_dependencies", "stepId": step.id, **details}


def set_budget(draft: Draft, budget: Budget | None) -> dict[str, Json]:
    draft.set_budget(budget)
    return {"action": "set_budget", "budget": budget.as_json() if budget else None}
