"""Queries for the page of a step: its instructions, its result and its history."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from waybook.app.queries.plans.plan import step_name, untitled
from waybook.app.request.access import load_plan
from waybook.app.request.request_context import RequestContext, not_found
from waybook.core.actions import Facts, Kind
from waybook.core.decision_context import DecisionContext
from waybook.core.ids import id_or_nil
from waybook.core.shown import Shown
from waybook.core.usage import Totals
from waybook.json_values import Json
from waybook.plan.model import Condition, Plan, Review, Step, StepId, StepText
from waybook.plan.modify import (
    FailStep,
    Modification,
    RemoveStep,
    RetryStep,
    SetConditions,
    SetDependencies,
    SetTitle,
    blocking_reason,
)
from waybook.plan.progress import detect_stalled_steps
from waybook.plan.states import state_of_plan, states_of_steps
from waybook.store import calls as calls_store
from waybook.store.driver.queries import Row, new_id, new_uuid
from waybook.store.plans import contexts, details, load
from waybook.store.plans.contexts import StoredArtifact
from waybook.store.plans.details import HistoryEntry, StepStatusChange
from waybook.store.plans.load import PlanRequest

__all__ = ["StoredArtifact"]

MAX_HISTORY_ENTRIES = 50


class StepDetail(NamedTuple):
    plan: Plan
    step: Step
    now: datetime
    text: StepText
    inactive_for: timedelta | None
    result: Row | None
    conditions: list[Condition]
    reviews: list[Review]
    research: list[StoredArtifact]
    research_total: int
    sources: list[Row]
    status_changes: list[StepStatusChange]
    history: list[HistoryEntry]
    usage: Totals | None
    calls: list[Row]
    names: Mapping[str, str]
    blockers: Mapping[str, str]
    #: The states of the plan's steps that people see.
    states: Mapping[StepId, Shown]

    @property
    def shown(self) -> Shown:
        """Return the state of the plan."""
        return state_of_plan(self.plan)

    @property
    def facts(self) -> Facts:
        return Facts(Kind.STEP, self.states[self.step.id], within=self.shown)

    def name_of(self, step: Step) -> str:
        return step_name(step, self.names)

    def branch(self, condition: Condition) -> Mapping[str, Json]:
        """Return the recorded effect of a condition, or an empty mapping if it had no effect."""
        branches = (branch for entry in self.history for branch in entry.branches or ())
        return next((b for b in branches if b.get("conditionId") == condition.id), {})


async def read_step_detail(ctx: RequestContext, plan_id: str, step_id: str) -> StepDetail:
    plan_id, step_id = id_or_nil(plan_id), id_or_nil(step_id)
    wanted = PlanRequest(plan_id=plan_id, texts=(step_id,))
    loaded, results = await load_plan(
        ctx,
        wanted,
        *details.step_statements(plan_id, step_id),
        contexts.SQL["newest_artifacts"](
            plan_id=plan_id, step_id=step_id, **contexts.FIRST_PAGE._asdict()
        ),
        details.history_statement(plan_id, step_id, MAX_HISTORY_ENTRIES),
        calls_store.SQL["usage_of_steps"](plan_id=plan_id),
        calls_store.SQL["calls_of_step"](step_id=step_id, most=calls_store.MAX_SHOWN),
    )
    result, conditions, reviews, sources, moves, research, happenings, used, called = results
    plan = loaded.plan
    step = next((step for step in plan.steps if step.id == step_id), None)
    if step is None:
        raise not_found("step")
    about = [load.read_condition(row) for row in conditions]
    near = {related.id for related in related_steps(plan, step, about)}
    (names,) = await ctx.read(details.names_statement(untitled(plan, near)))
    stalled = detect_stalled_steps(plan, now=loaded.now, patience=ctx.services.stall_threshold)
    silent = {silent_step.id: gap for silent_step, gap in stalled}
    states = states_of_steps(plan, silent)
    moment = DecisionContext(now=loaded.now, actor=ctx.actor(), new_id=new_id, new_uuid=new_uuid)
    return StepDetail(
        plan=plan,
        step=step,
        now=loaded.now,
        text=plan.texts[step.id],
        inactive_for=silent.get(step.id) if states[step.id] is Shown.STALLED else None,
        result=next(iter(result), None),
        conditions=about,
        reviews=load.read_reviews(reviews),
        research=research,
        research_total=contexts.total_count(research),
        sources=sources,
        status_changes=details.read_status_changes(moves),
        history=happenings,
        usage=calls_store.read_steps(used).get(step.id),
        calls=called,
        names=details.read_names(names),
        blockers=modification_blockers(plan, step, moment),
        states=states,
    )


def related_steps(plan: Plan, step: Step, conditions: list[Condition]) -> Iterator[Step]:
    named: set[StepId] = {step.id, *step.depends_on}
    named |= {c.step_id for c in conditions}
    named |= {c.target_step_id for c in conditions if c.target_step_id}
    for other in plan.steps:
        if other.id in named or step.id in other.depends_on or abs(other.order - step.order) == 1:
            yield other


def modification_blockers(plan: Plan, step: Step, context: DecisionContext) -> dict[str, str]:
    modifications: dict[str, Modification] = {
        "remove_step": RemoveStep(step.id),
        "fail_step": FailStep(step.id, "it is only asked"),
        "retry_step": RetryStep(step.id),
        "set_title": SetTitle(step.id, "it is only asked"),
        "set_dependencies": SetDependencies(step.id, ()),
        "set_conditions": SetConditions(step.id, ()),
    }
    reasons = {
        name: blocking_reason(plan, change, context) for name, change in modifications.items()
    }
    if step.order == 1:
        reasons["move_up"] = "it is the first step"
    if step.order == len(plan.steps):
        reasons["move_down"] = "it is the last step"
    return {name: why for name, why in reasons.items() if why is not None}
