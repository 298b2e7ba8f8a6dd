"""A plan being changed: applies each change to the plan in hand and remembers it for the audit.

The rules in this folder take a frozen plan, change a draft of it, and hand back a decision. The
draft is where the two stay together: nothing can change the plan without leaving its trace.
"""

from dataclasses import fields, replace
from typing import TypeVar

from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry, Event, as_json, text_hash
from waybook.core.decision_context import DecisionContext
from waybook.core.usage import NO_USAGE, Totals
from waybook.errors import Refused
from waybook.json_values import Json
from waybook.plan.decision import Decision
from waybook.plan.model import Condition, NewStep, Plan, Review, Step, StepId, StepText
from waybook.plan.ordering import renumber, resolve_dependencies
from waybook.plan.states import CLOSED_PLAN, DONE_STEP, PlanStatus, StepStatus, move_plan, move_step

ReplyT = TypeVar("ReplyT")

#: Step fields that belong to a result: written once, read by nobody here.
RESULT_FIELDS = ("result_summary", "confidence", "report", "formatting_notes")


class Draft:
    def __init__(self, plan: Plan, context: DecisionContext) -> None:
        """Begin with the plan as it is."""
        #: The plan with all that has been changed so far.
        self.plan = plan
        self.moment = context
        self._changes: list[Change] = []
        self._entries: list[Entry] = []
        self._touched: list[StepId] = []
        self._texts: dict[str, str] = {}

    # Moving

    def move_plan(self, *path: PlanStatus) -> None:
        """Walk the plan's status along documented edges."""
        for status in path:
            self.set_plan(status=move_plan(self.plan.status, status))
            if status in CLOSED_PLAN:
                ended = as_json(self.moment.now)
                self._note(Entity.PLAN, self.plan.id, "completed_at", None, ended)

    def move_step(self, step_id: StepId, *path: StepStatus) -> None:
        """Walk a step's status along documented edges, keeping its clock."""
        for status in path:
            moved = move_step(self.plan.step(step_id).status, status)
            self.set_step(step_id, status=moved, **self._clock(status))

    def _clock(self, status: StepStatus) -> dict[str, object]:
        if status is StepStatus.IN_PROGRESS:
            return {"in_progress_since": self.moment.now}
        return {"completed_at": self.moment.now} if status in DONE_STEP else {}

    # Setting

    def set_plan(self, **values: object) -> None:
        for name, value in values.items():
            old = getattr(self.plan, name)
            if old != value:
                self._note(Entity.PLAN, self.plan.id, name, as_json(old), as_json(value))
        self.plan = self.plan._replace(**values)  # type: ignore[arg-type]  # names are Plan's own

    def set_step(self, step_id: StepId, **values: object) -> None:
        step = self.plan.step(step_id)
        for name, value in values.items():
            old = getattr(step, name)
            if old != value:
                self._note(Entity.STEP, step_id, name, as_json(old), as_json(value))
        changed = step._replace(**values)  # type: ignore[arg-type]  # names are Step's own
        self._with_steps(tuple([changed if s is step else s for s in self.plan.steps]))

    def assign_to_actor(self, step_id: StepId) -> None:
        """Let a step be the work of whoever acts, if it was held by another user or by nobody."""
        actor = self.moment.actor
        if self.plan.step(step_id).held_by != actor.user:
            self.set_step(step_id, held_by=actor.user, held_session=actor.session)

    def set_instructions(self, step_id: StepId, instructions: str) -> None:
        old = self.plan.texts[step_id]
        if old.instructions != instructions:
            self._note(Entity.STEP, step_id, "instructions", old.instructions, instructions)
        texts = {**self.plan.texts, step_id: replace(old, instructions=instructions)}
        self.plan = self.plan._replace(texts=texts)

    def set_result(self, step_id: StepId, **values: Json) -> None:
        """Keep a step's result. Results are written once, so what was there before is null."""
        for name in RESULT_FIELDS:
            if values.get(name) is not None:
                self._note(Entity.STEP, step_id, name, None, values[name])

    def set_usage(self, totals: Totals) -> None:
        """Keep what the plan took so far; before the first result told, nothing is kept."""
        old = self.plan.usage
        before = None if old == NO_USAGE else old.as_json()
        self._note(Entity.PLAN, self.plan.id, "usage", before, totals.as_json())
        self.plan = self.plan._replace(usage=totals)

    def set_condition(self, condition: Condition, **values: object) -> None:
        for name, value in values.items():
            old = as_json(getattr(condition, name))
            self._note(Entity.CONDITION, condition.id, name, old, as_json(value))
        changed = replace(condition, **values)  # type: ignore[arg-type]  # names are Condition's own
        self.plan = self.plan._replace(
            conditions=tuple(changed if c.id == condition.id else c for c in self.plan.conditions)
        )

    def set_review(self, review: Review, **values: object) -> None:
        for name, value in values.items():
            old = as_json(getattr(review, name))
            if old != as_json(value):
                self._note(Entity.REVIEW, review.id, name, old, as_json(value))
        self.plan = self.plan._replace(review=replace(review, **values))  # type: ignore[arg-type]  # as above

    # Making and removing

    def add_steps(self, steps: tuple[NewStep, ...], *, after: int) -> list[StepId]:
        """Insert steps behind the order `after`, pending, moving the later ones up."""
        made = [
            new_step(StepId(self.moment.new_id()), new, after + n) for n, new in enumerate(steps, 1)
        ]
        moved = renumber(self.plan.steps, after, len(made))
        made = resolve_dependencies(made, steps, (*moved[:after], *made, *moved[after:]))
        for step in moved[after:]:
            self._note(Entity.STEP, step.id, "order", step.order - len(made), step.order)
        texts = {step.id: text_of(new) for step, new in zip(made, steps, strict=True)}
        for step in made:
            self._note(Entity.STEP, step.id, WHOLE_ROW, None, step_row(step, texts[step.id]))
        self._with_steps((*moved[:after], *made, *moved[after:]))
        self.plan = self.plan._replace(texts={**self.plan.texts, **texts})
        return [step.id for step in made]

    def remove_step(self, step_id: StepId) -> None:
        """Take a step out, with the conditions tied to it, and close the gap.

        Nobody waits for a step that is gone.
        """
        for other in [s for s in self.plan.steps if step_id in s.depends_on]:
            left = tuple(before for before in other.depends_on if before != step_id)
            self.set_step(other.id, depends_on=left)
        for condition in [c for c in self.plan.conditions if c.step_id == step_id]:
            self._note(Entity.CONDITION, condition.id, WHOLE_ROW, condition_row(condition), None)
        kept = tuple(c for c in self.plan.conditions if c.step_id != step_id)
        step = self.plan.step(step_id)
        self._note(Entity.STEP, step_id, WHOLE_ROW, step_row(step, self.plan.texts[step_id]), None)
        self.plan = self.plan._replace(conditions=kept)
        self.reorder([s.id for s in self.plan.steps if s.id != step_id])

    def reorder(self, ids: list[StepId]) -> None:
        """Give the steps these places; a step that is not named is gone."""
        places = {step_id: order for order, step_id in enumerate(ids, start=1)}
        moved = []
        for step in self.plan.steps:
            if step.id in places:
                place = places[step.id]
                if step.order != place:
                    self._note(Entity.STEP, step.id, "order", step.order, place)
                moved.append(step if step.order == place else step._replace(order=place))
        self._with_steps(tuple(sorted(moved, key=lambda step: step.order)))

    def insert(self, entity: Entity, row_id: str, row: dict[str, Json]) -> None:
        """Make a whole row of another kind."""
        self._note(entity, row_id, WHOLE_ROW, None, row)

    def store_text(self, entity: Entity, row_id: str, text: str, **row: Json) -> None:
        """Make a row with a text of its own, which the audit knows by its hash."""
        self._texts[row_id] = text
        self.insert(entity, row_id, {**row, "content_hash": text_hash(text)})

    def add_change(self, change: Change) -> None:
        """Take a change as it is, of a kind of row no plan in hand knows."""
        self._changes.append(change)

    def record_heartbeat(self, step_id: StepId) -> None:
        """Take this call as a sign of life of the step."""
        self._touched.append(step_id)

    # Recording

    def record(self, event: Event, **details: Json) -> None:
        """Close the changes so far into one audit entry."""
        self._entries.append(Entry(event, details, tuple(self._changes)))
        self._changes = []
        self.plan = self.plan._replace(seq=self.plan.seq + 1)

    def decide(self, reply: ReplyT, *, refusal: Refused | None = None) -> Decision[ReplyT]:
        """Hand back what was decided. Every change has been recorded by then."""
        if self._changes:
            unrecorded = [f"{change.entity}.{change.field}" for change in self._changes]
            raise AssertionError(f"changes without an audit entry: {unrecorded}")
        entries, touched = tuple(self._entries), tuple(self._touched)
        return Decision(reply, self.plan, entries, touched, refusal, self._texts)

    def _note(self, entity: Entity, row_id: str, field: str, old: Json, new: Json) -> None:
        self._changes.append(Change(entity, row_id, field, old, new))

    def _with_steps(self, steps: tuple[Step, ...]) -> None:
        self.plan = self.plan._replace(steps=steps)


def new_step(step_id: StepId, new: NewStep, order: int) -> Step:
    """A step nobody has worked on yet. Its first attempt is number 1."""
    return Step(
        id=step_id,
        order=order,
        type=new.type,
        title=new.title,
        status=StepStatus.PENDING,
        attempt=1,
        stall_seconds=new.stall_seconds,
        in_progress_since=None,
        last_seen_at=None,
        completed_at=None,
        held_by=None,
        held_session=None,
        fail_reason=None,
    )


def text_of(new: NewStep) -> StepText:
    return StepText(
        instructions=new.instructions,
        result_schema=new.result_schema,
        required_sources=new.required_sources,
    )


def step_row(step: Step, text: StepText) -> dict[str, Json]:
    """A step as a row: all but its id, and but its sign of life, which is telemetry."""
    names = [name for name in Step._fields if name not in {"id", "last_seen_at"}]
    row = {name: as_json(getattr(step, name)) for name in names}
    told = {"instructions": text.instructions, "result_schema": text.result_schema}
    return {**row, **told, **_required(text.required_sources)}


def condition_row(condition: Condition) -> dict[str, Json]:
    """A condition as a row: all but its id."""
    names = [f.name for f in fields(Condition) if f.name not in {"id", "steps"}]
    row = {name: as_json(getattr(condition, name)) for name in names}
    return {**row, "steps": [new_step_row(new) for new in condition.steps] or None}


def new_step_row(new: NewStep) -> dict[str, Json]:
    """A step to be, as it stands in its branch; it waits for nothing."""
    names = [f.name for f in fields(NewStep) if f.name not in {"depends_on", "required_sources"}]
    row = {name: as_json(getattr(new, name)) for name in names}
    return {**row, **_required(new.required_sources)}


def _required(sources: int | None) -> dict[str, Json]:
    """Nothing, where nothing is required: the rows of old audits have no such field."""
    return {} if sources is None else {"required_sources": sources}


def review_row(review: Review) -> dict[str, Json]:
    """A review as a row: all but its id."""
    return {f.name: as_json(getattr(review, f.name)) for f in fields(Review) if f.name != "id"}
