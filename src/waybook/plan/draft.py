"""Defines the draft of a plan, which applies changes to the plan and records them for the audit."""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from waybook.core.changes import WHOLE_ROW, BaseDraft, Entity, Entry, Event, as_json
from waybook.core.decision_context import DecisionContext
from waybook.core.usage import Usage
from waybook.errors import NextCall, PlanTerminal, Refused
from waybook.json_values import Json
from waybook.plan.model import (
    CLOSED_PLAN,
    DONE_STEP,
    KEPT_FIELDS,
    MAX_WAIT_SECONDS,
    TEXT_FIELDS,
    BranchOutcome,
    Budget,
    Condition,
    ConditionId,
    NewCondition,
    NewStep,
    Plan,
    PlanStatus,
    Review,
    Step,
    StepId,
    StepStatus,
    StepText,
    can_move_plan,
    derive_plan_status,
    fields_of,
    move_plan,
    move_step,
)
from waybook.plan.new_conditions import resolve_positions
from waybook.plan.ordering import replace_ids, resolve_dependencies, resolve_reference
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD, newly_stalled, whole_minutes

#: A condition stores the steps that it may add. It always stores these fields of a step, even
#: without a value.
_ALWAYS_STORED = frozenset({"type", "instructions", "title", "stall_seconds", "result_schema"})

#: Fields that a `Condition` takes over from its `NewCondition`.
_KEPT_CONDITION_FIELDS = {f.name for f in fields(NewCondition)} & {
    f.name for f in fields(Condition)
}


def new_step(step_id: StepId, new: NewStep, order: int) -> Step:
    kept = fields_of(new, KEPT_FIELDS)
    return Step(id=step_id, order=order, status=StepStatus.PENDING, attempt=1, **kept)


def step_row(step: Step, text: StepText) -> dict[str, Json]:
    names = [name for name in Step._fields if name not in {"id", "last_seen_at"}]
    texts = fields_of(text, TEXT_FIELDS)
    if text.required_sources is None:
        del texts["required_sources"]
    return {**{name: as_json(getattr(step, name)) for name in names}, **texts}


def condition_row(condition: Condition) -> dict[str, Json]:
    names = [f.name for f in fields(Condition) if f.name not in {"id", "steps"}]
    row = {name: as_json(getattr(condition, name)) for name in names}
    return {**row, "steps": [_new_step_row(new) for new in condition.steps] or None}


def _new_step_row(new: NewStep) -> dict[str, Json]:
    """Return the JSON form of a step that a condition may add."""
    values = {f.name: getattr(new, f.name) for f in fields(NewStep) if f.name != "depends_on"}
    conditions = [_new_condition_row(condition) for condition in new.conditions]
    return {
        name: as_json(value)
        for name, value in {**values, "conditions": conditions}.items()
        if value or name in _ALWAYS_STORED
    }


def _new_condition_row(new: NewCondition) -> dict[str, Json]:
    """Return the JSON form of a condition whose step is not added to the plan yet."""
    unnamed = {"after_step_order", "target_step_order", "from_step_order", "steps"}
    names = [f.name for f in fields(NewCondition) if f.name not in unnamed]
    row = {name: as_json(getattr(new, name)) for name in names}
    steps: dict[str, Json] = {"steps": [_new_step_row(s) for s in new.steps]} if new.steps else {}
    return {**{name: value for name, value in row.items() if value is not None}, **steps}


def review_row(review: Review) -> dict[str, Json]:
    return {name: as_json(value) for name, value in review._asdict().items() if name != "id"}


ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Decision(NamedTuple, Generic[ReplyT_co]):
    """Result of a requested change: the reply to send, and the changes still to be written."""

    reply: ReplyT_co
    plan: Plan
    entries: tuple[Entry, ...] = ()
    touched: tuple[StepId, ...] = ()
    #: Error to raise after the changes are written. For example, a late result is stored and then
    #: refused.
    refusal: Refused | None = None
    #: Long texts of new rows, by row id. The audit stores only their hashes.
    texts: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def status_call(plan: Plan, why: str) -> NextCall:
    return NextCall("get_plan_status", {"planId": plan.id}, why)


def wait_call(plan: Plan, why: str) -> NextCall:
    return NextCall("get_next_step", {"planId": plan.id, "waitSeconds": MAX_WAIT_SECONDS}, why)


def copy_call(plan: Plan) -> NextCall:
    why = "To continue the work, copy the plan: the copy keeps all results and research."
    return NextCall("copy_plan", {"planId": plan.id}, why)


def require_open(plan: Plan) -> None:
    if plan.status in CLOSED_PLAN:
        raise closed_plan_error(plan)


def closed_plan_error(plan: Plan) -> PlanTerminal:
    """Return the error for a closed plan; it suggests a copy if steps are left to do."""
    is_done = DONE_STEP.issuperset(plan.statuses())
    return PlanTerminal(
        f"this plan is {plan.state} and can no longer be changed",
        next_call=status_call(plan, "See how the plan ended.") if is_done else copy_call(plan),
        planId=plan.id,
        status=str(plan.status),
        reason=plan.fail_reason,
    )


ReplyT = TypeVar("ReplyT")

RESULT_FIELDS = ("result_summary", "confidence", "report", "formatting_notes")


class Draft(BaseDraft):
    def __init__(self, plan: Plan, context: DecisionContext) -> None:
        super().__init__(context)
        self.plan = plan
        self._touched: list[StepId] = []

    def move_plan(self, *path: PlanStatus) -> None:
        for status in path:
            self.set_plan(status=move_plan(self.plan.status, status))
            if status in CLOSED_PLAN:
                ended = as_json(self.moment.now)
                self.note(Entity.PLAN, self.plan.id, "completed_at", None, ended)

    def move_step(self, step_id: StepId, status: StepStatus, **values: object) -> None:
        """Set the status of a step, with the time of the change, and other values."""
        step, moved = self.plan.step(step_id), dict[str, object]()
        moved["status"] = move_step(step.status, status)
        if status is StepStatus.IN_PROGRESS:
            moved["in_progress_since"] = self.moment.now
        elif status in DONE_STEP:
            moved["completed_at"] = self.moment.now
        self._change_step(step, {**moved, **values})

    def set_plan(self, **values: object) -> None:
        self.note_changes(Entity.PLAN, self.plan.id, self.plan, values)
        self.plan = self.plan._replace(**values)  # type: ignore[arg-type]  # the keys are fields of Plan

    def set_step(self, step_id: StepId, **values: object) -> None:
        self._change_step(self.plan.step(step_id), values)

    def _change_step(self, step: Step, values: dict[str, object]) -> None:
        self.note_changes(Entity.STEP, step.id, step, values)
        changed = step._replace(**values)  # type: ignore[arg-type]  # the keys are fields of Step
        self._with_steps(tuple([changed if s is step else s for s in self.plan.steps]))

    def assign_to_actor(self, step_id: StepId) -> None:
        """Make the caller the holder of a step, unless the same user already holds it."""
        actor = self.moment.actor
        if self.plan.step(step_id).held_by != actor.user:
            self.set_step(step_id, held_by=actor.user, held_session=actor.session)

    def set_instructions(self, step_id: StepId, instructions: str) -> None:
        old = self.plan.texts[step_id]
        if old.instructions != instructions:
            self.note(Entity.STEP, step_id, "instructions", old.instructions, instructions)
        texts = {**self.plan.texts, step_id: replace(old, instructions=instructions)}
        self.plan = self.plan._replace(texts=texts)

    def set_result(self, step_id: StepId, **values: Json) -> None:
        """Store a step's result.

        A result is written only once, so the audit records null as the old value.
        """
        for name in RESULT_FIELDS:
            if values.get(name) is not None:
                self.note(Entity.STEP, step_id, name, None, values[name])

    def record_usage(self, step_id: StepId, attempt: int, usage: Usage | None) -> None:
        """Store the usage of an attempt, even if the result is late and refused."""
        if usage is not None:
            plan = self.plan
            totals = self.insert_usage(
                Entity.PLAN, plan.id, plan.usage, usage, step_id=step_id, attempt=attempt
            )
            self.plan = plan._replace(usage=totals)

    def set_budget(self, budget: Budget | None) -> None:
        old = self.plan.budget
        if old != budget:
            before, after = (b.as_json() if b else None for b in (old, budget))
            self.note(Entity.PLAN, self.plan.id, "budget", before, after)
        self.plan = self.plan._replace(budget=budget)

    def set_outcome(self, condition: Condition, outcome: BranchOutcome) -> None:
        self.note_changes(Entity.CONDITION, condition.id, condition, {"outcome": outcome})
        changed = replace(condition, outcome=outcome)
        self.plan = self.plan._replace(
            conditions=tuple(changed if c.id == condition.id else c for c in self.plan.conditions)
        )

    def set_review(self, review: Review, **values: object) -> None:
        self.note_changes(Entity.REVIEW, review.id, review, values)
        self.plan = self.plan._replace(review=review._replace(**values))  # type: ignore[arg-type]  # the keys are fields of Review

    def add_steps(self, steps: tuple[NewStep, ...], *, after: int) -> list[StepId]:
        """Insert pending steps after position `after`, and renumber the steps that follow."""
        made = [
            new_step(StepId(self.moment.new_id()), new, after + n) for n, new in enumerate(steps, 1)
        ]
        ids = [step.id for step in made]
        steps = tuple(replace_ids(steps, lambda step_id: resolve_reference(step_id, ids)))
        before, behind = self.plan.steps[:after], self.plan.steps[after:]
        behind = tuple(step._replace(order=step.order + len(made)) for step in behind)
        made = resolve_dependencies(made, steps, (*before, *made, *behind))
        for step in behind:
            self.note(Entity.STEP, step.id, "order", step.order - len(made), step.order)
        texts = {
            step.id: StepText(**fields_of(new, TEXT_FIELDS))
            for step, new in zip(made, steps, strict=True)
        }
        for step in made:
            self.insert(Entity.STEP, step.id, step_row(step, texts[step.id]))
        self._with_steps((*before, *made, *behind))
        self.plan = self.plan._replace(texts={**self.plan.texts, **texts})
        for step, new in zip(made, steps, strict=True):
            for condition in new.conditions:
                self.add_condition(condition, step.id)
        return ids

    def add_condition(self, new: NewCondition, step_id: StepId) -> None:
        ids = [step.id for step in self.plan.steps]
        resolved = resolve_positions(new, ids, ids.index(step_id) + 1)
        kept = fields_of(resolved, _KEPT_CONDITION_FIELDS)
        condition_id, position = ConditionId(self.moment.new_uuid()), self.next_position()
        self.insert_condition(
            Condition(id=condition_id, step_id=step_id, position=position, **kept)
        )

    def insert_condition(self, condition: Condition) -> None:
        self.insert(Entity.CONDITION, condition.id, condition_row(condition))
        self.plan = self.plan._replace(conditions=(*self.plan.conditions, condition))

    def next_position(self) -> int:
        return max((condition.position for condition in self.plan.conditions), default=0) + 1

    def remove_conditions(self, step_id: StepId) -> list[ConditionId]:
        removed = [c for c in self.plan.conditions if c.step_id == step_id]
        for condition in removed:
            self.note(Entity.CONDITION, condition.id, WHOLE_ROW, condition_row(condition), None)
        remaining = tuple(c for c in self.plan.conditions if c.step_id != step_id)
        self.plan = self.plan._replace(conditions=remaining)
        return [condition.id for condition in removed]

    def remove_step(self, step_id: StepId) -> None:
        """Remove a step and its conditions, and renumber the other steps.

        Steps that depend on the removed step now depend on the steps that it depended on.
        """
        self._touched = [touched for touched in self._touched if touched != step_id]
        step = self.plan.step(step_id)
        for other in [s for s in self.plan.steps if step_id in s.depends_on]:
            left = (before for before in other.depends_on if before != step_id)
            self.set_step(other.id, depends_on=tuple(dict.fromkeys((*left, *step.depends_on))))
        self.remove_conditions(step_id)
        self.note(Entity.STEP, step_id, WHOLE_ROW, step_row(step, self.plan.texts[step_id]), None)
        self.reorder([s.id for s in self.plan.steps if s.id != step_id])

    def reorder(self, ids: list[StepId]) -> None:
        """Number the steps in the order of these ids, and remove steps that are not listed."""
        places = {step_id: order for order, step_id in enumerate(ids, start=1)}
        moved = []
        for step in self.plan.steps:
            if step.id in places:
                place = places[step.id]
                if step.order != place:
                    self.note(Entity.STEP, step.id, "order", step.order, place)
                moved.append(step if step.order == place else step._replace(order=place))
        self._with_steps(tuple(sorted(moved, key=lambda step: step.order)))

    def record_heartbeat(self, step_id: StepId) -> None:
        self._touched.append(step_id)

    def record_step(self, event: Event, step: Step, **details: Json) -> None:
        self.record(event, stepId=step.id, stepOrder=step.order, attempt=step.attempt, **details)

    def decide(self, reply: ReplyT, *, refusal: Refused | None = None) -> Decision[ReplyT]:
        entries = self.entries()
        plan = self.plan._replace(seq=self.plan.seq + len(entries))
        return Decision(reply, plan, entries, tuple(self._touched), refusal, self._texts)

    def _with_steps(self, steps: tuple[Step, ...]) -> None:
        self.plan = self.plan._replace(steps=steps)


def settle(draft: Draft) -> None:
    """Set the status of an open plan to the one that follows from its steps."""
    status, statuses = draft.plan.status, draft.plan.statuses()
    target = derive_plan_status(statuses)
    is_new = status is PlanStatus.PLANNING and {*statuses} <= {StepStatus.PENDING}
    is_stalled = status is PlanStatus.STALLED and target is PlanStatus.EXECUTING
    if status in CLOSED_PLAN or is_new or is_stalled:
        return
    draft.move_plan(*transition_path(status, target))


def transition_path(status: PlanStatus, target: PlanStatus) -> tuple[PlanStatus, ...]:
    """Return the statuses to set one after the other, so that every transition is allowed.

    >>> transition_path(PlanStatus.PLANNING, PlanStatus.COMPLETED)
    (<PlanStatus.EXECUTING: 'executing'>, <PlanStatus.COMPLETED: 'completed'>)
    """
    if status is target:
        return ()
    if can_move_plan(status, target):
        return (target,)
    return (PlanStatus.EXECUTING, target)


def is_new_session(plan: Plan, session: str | None) -> bool:
    return session is not None and session not in plan.sessions and plan.status not in CLOSED_PLAN


def register_session(draft: Draft) -> None:
    """Record the caller's session if it is new in this plan.

    The audit then says that the session resumed the plan, except if nothing has been done in the
    plan yet.
    """
    session = draft.moment.actor.session
    if session is None or not is_new_session(draft.plan, session):
        return
    has_history = draft.plan.seq > 1
    draft.insert(Entity.SESSION, session, {"seen_at": as_json(draft.moment.now)})
    draft.plan = draft.plan._replace(sessions=draft.plan.sessions | {session})
    if has_history:
        draft.record(Event.SESSION_RESUMED, sessionId=session)


def resume_session(plan: Plan, context: DecisionContext) -> Decision[None]:
    """Record the session of a call that only reads the plan."""
    draft = Draft(plan, context)
    if plan.seq > 1:
        register_session(draft)
    return draft.decide(None)


def detect_stall(
    plan: Plan, context: DecisionContext, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> Decision[bool]:
    """Set an executing plan to stalled if one of its steps has stalled."""
    draft = Draft(plan, context)
    stalled = newly_stalled(plan, now=context.now, patience=patience)
    if stalled:
        draft.move_plan(PlanStatus.STALLED)
        steps: list[Json] = [{"stepId": s.id, "minutes": whole_minutes(gap)} for s, gap in stalled]
        draft.record(Event.PLAN_MODIFIED, action="stall_detected", steps=steps)
    return draft.decide(bool(stalled))


def resume_plan(draft: Draft) -> None:
    """Resume a stalled plan, and restart the stall timers of its steps."""
    if draft.plan.status is PlanStatus.STALLED:
        draft.move_plan(PlanStatus.EXECUTING)
        draft.set_plan(resumed_at=draft.moment.now)
        draft.record(Event.PLAN_MODIFIED, action="resumed")
