"""Queries that load plans, with a lock for changes or as a snapshot for reading."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from waybook.core.decision_context import Channel, Holder
from waybook.core.usage import totals_from_json
from waybook.plan.model import (
    BranchAction,
    BranchOutcome,
    Budget,
    Condition,
    DecisionKind,
    NewCondition,
    NewStep,
    OnExhausted,
    Plan,
    PlanId,
    PlanStatus,
    Review,
    Step,
    StepId,
    StepStatus,
    StepText,
    StepType,
    StoredSource,
)
from waybook.store import calls
from waybook.store.audit import ChainHead
from waybook.store.calls import Key, StoredAnswer
from waybook.store.columns import TABLES
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Ids, Row, Statement, load

NO_SESSIONS: frozenset[str] = frozenset()


class StallCountRow(NamedTuple):
    plans: int = 0
    steps: int = 0


class PlanBrief(NamedTuple):
    """The fields of a plan that never change."""

    question: str
    formatting_notes: str | None
    created_at: datetime
    created_by: str
    output_media_type: str | None = None
    formatting_instructions: str | None = None
    skill: str | None = None
    skill_execution_id: str | None = None


class LoadedPlan(NamedTuple):
    plan: Plan
    now: datetime
    head: ChainHead

    def to_decide(self) -> "LoadedPlan":
        """Return the plan with a time that is not before the time of its last audit entry."""
        return self._replace(now=self.head.after(self.now))


class PlanRequest(NamedTuple):
    plan_id: str
    texts: tuple[str, ...] = ()
    candidates: bool = False
    holder: Holder = Holder("")
    review: bool = True


SQL = load("plans/load", load_review=Review, brief=PlanBrief, count_stalls=StallCountRow)

_READ_STEPS = TABLES["plan_step"].reader(
    Step,
    {
        "type": StepType,
        "status": StepStatus,
        "text[]": lambda ids: tuple(ids.split()) if ids else (),
    },
)
_CONDITION_FIELDS = [column.name for column in TABLES["branching_condition"].read]
_CONDITION_KINDS = {
    "action": BranchAction,
    "outcome": BranchOutcome,
    "on_exhausted": OnExhausted,
}.items()
_LOAD_PLAN = SQL["load_plan"]
_LOCK_PLAN = _LOAD_PLAN.for_update("p")


def load_statements(
    wanted: PlanRequest, key: Key | None = None, *, lock: bool = False
) -> list[Statement]:
    plan_id, texts, (user, session) = wanted.plan_id, Ids(wanted.texts), wanted.holder
    statements = [
        (_LOCK_PLAN if lock else _LOAD_PLAN)(plan_id=plan_id),
        SQL["load_candidates"](plan_id=plan_id, wanted=texts, holder=user, session=session)
        if wanted.candidates
        else SQL["load_steps"](plan_id=plan_id, wanted=texts),
        SQL["load_call"](
            plan_id=plan_id,
            session=session,
            tool=key.tool if key else None,
            key=key.stored if key else None,
        ),
    ]
    if wanted.review:
        statements.append(SQL["load_review"](plan_id=plan_id))
    return statements


def lock_if_unchanged_statement(loaded: LoadedPlan) -> Statement:
    """Lock a plan if its cached copy is current. Otherwise, the whole transaction fails."""
    plan, now, head = loaded
    return SQL["lock_if_unchanged"](plan_id=plan.id, seq=head.seq, hash=head.hash, now=now)


def texts_statement(plan_id: str, step_ids: Iterable[str]) -> Statement:
    return SQL["load_texts"](plan_id=plan_id, wanted=Ids(tuple(step_ids)))


def read_texts(rows: Iterable[tuple[str, list[Any]]]) -> dict[StepId, StepText]:
    return {StepId(step_id): read_text(text) for step_id, text in rows}


def read_plan(results: Results, wanted: PlanRequest) -> LoadedPlan | None:
    plans, steps, (call,), *reviews = results
    if not plans:
        return None
    session = wanted.holder.session if call.is_known_session else None
    texts = {StepId(step[0]): read_text(step[-1]) for step in steps if step[-1] is not None}
    loaded_steps = tuple([_step(step[:-1]) for step in steps])
    loaded = build_plan(plans[0], loaded_steps, texts, call.conditions, session)
    if not wanted.review:
        return loaded
    return loaded._replace(plan=loaded.plan._replace(review=read_review(reviews[0])))


def build_plan(
    row: Row,
    steps: tuple[Step, ...],
    texts: Mapping[StepId, StepText],
    conditions: list[list[Any]] | None,
    session: str | None,
) -> LoadedPlan:
    """Build a plan from its rows. `session` is the caller's session if the plan has recorded it."""
    plan = Plan(
        id=PlanId(row.id),
        name=row.name,
        status=PlanStatus(row.status),
        revision=row.revision,
        stall_seconds=row.stall_seconds,
        resumed_at=row.resumed_at,
        fail_reason=row.fail_reason,
        seq=row.audit_seq,
        steps=steps,
        texts=texts,
        conditions=tuple([read_condition(c) for c in conditions or ()]),
        sessions=frozenset((session,)) if session else NO_SESSIONS,
        usage=totals_from_json(row.usage),
        budget=Budget(**row.budget) if row.budget else None,
        created_by=row.created_by,
        created_at=row.created_at,
        copied_from=PlanId(row.copied_from) if row.copied_from else None,
        copied_seq=row.copied_seq,
        sequential=bool(row.sequential),
        canceled=row.canceled,
    )
    head = ChainHead(row.audit_seq, row.audit_hash, row.updated_at)
    return LoadedPlan(plan, row.now, head)


def read_answer(results: Results, key: Key) -> StoredAnswer | None:
    call: Row
    (call,) = results[2]
    return None if call.answer is None else calls.read_answer(call.answer, key)


@lru_cache(maxsize=8_000)
def _step(columns: tuple[Any, ...]) -> Step:
    """Convert a row to a step. The result is cached, because most steps rarely change."""
    (step,) = _READ_STEPS((columns,))
    return step


def read_text(row: list[Any]) -> StepText:
    instructions, result_schema, required, *rest = row
    stored = rest[0] if rest else None
    return StepText(
        instructions=instructions,
        result_schema=result_schema,
        required_sources=required,
        sources=tuple(StoredSource(id=i, title=t, url=u) for i, t, u in stored or ()),
    )


def read_review(rows: Iterable[Review]) -> Review | None:
    return next(iter(read_reviews(rows)), None)


def read_reviews(rows: Iterable[Review]) -> list[Review]:
    return [
        row._replace(
            questions=tuple(row.questions),
            decision=DecisionKind(row.decision) if row.decision else None,
            decided_via=Channel(row.decided_via) if row.decided_via else None,
        )
        for row in rows
    ]


def read_condition(row: Sequence[Any]) -> Condition:
    """Convert the columns of a condition, which are in the order of the column list."""
    fields = dict(zip(_CONDITION_FIELDS, row, strict=True))
    kinds = {name: kind(fields[name]) for name, kind in _CONDITION_KINDS if fields[name]}
    steps = tuple(map(_new_step, fields["steps"] or ()))
    return Condition(**{**fields, **kinds, "steps": steps})


def _new_step(fields: dict[str, Any]) -> NewStep:
    conditions = []
    for condition in fields.get("conditions", ()):
        steps, then = map(_new_step, condition.get("steps", ())), condition.get("on_exhausted")
        typed = {"action": BranchAction(condition["action"]), "steps": tuple(steps)}
        exhausted = {"on_exhausted": OnExhausted(then) if then else None}
        conditions.append(NewCondition(**{**condition, **typed, **exhausted}))
    before = tuple(map(StepId, fields.get("depends_on_ids", ())))
    rest = {"type": StepType(fields["type"]), "depends_on_ids": before}
    return NewStep(**{**fields, **rest, "conditions": tuple(conditions)})
