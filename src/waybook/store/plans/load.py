"""Queries that load plans, locked for a decision or as a snapshot for reading."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from waybook.core.decision_context import Channel
from waybook.core.holder import Holder
from waybook.core.replay import Rows as PlanRows
from waybook.core.usage import totals_from_json
from waybook.plan.model import (
    BranchAction,
    BranchOutcome,
    Budget,
    Condition,
    ConditionId,
    DecisionKind,
    NewStep,
    Plan,
    PlanId,
    Review,
    ReviewId,
    Step,
    StepId,
    StepText,
    StepType,
    StoredSource,
)
from waybook.plan.states import PlanStatus, StepStatus
from waybook.store import calls
from waybook.store.audit import ChainHead
from waybook.store.calls import Key, StoredAnswer
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Ids, Statement, load

SQL = load("plans/load")

NO_SESSIONS: frozenset[str] = frozenset()
TIMES = frozenset(
    {
        "resumed_at",
        "completed_at",
        "created_at",
        "in_progress_since",
        "requested_at",
        "decided_at",
        "seen_at",
        "retrieved_at",
        "at",
    }
)


class LoadedPlan(NamedTuple):
    """A plan, the database time, and the head of the plan's audit chain."""

    plan: Plan
    now: datetime
    head: ChainHead

    def to_decide(self) -> "LoadedPlan":
        """Return the plan with a time that is not before its last audit entry."""
        return self._replace(now=self.head.after(self.now))


class PlanRequest(NamedTuple):
    """Id of the plan to load, and the parts of it that are needed."""

    plan_id: str
    #: Steps to load with their texts.
    texts: tuple[str, ...] = ()
    #: Whether to load the texts of the steps that the caller could get next.
    candidates: bool = False
    #: User and session of the caller, if any.
    holder: Holder = Holder("")
    #: Whether to load the last review.
    review: bool = True


LOAD_PLAN = SQL["load_plan"]
LOCK_PLAN = LOAD_PLAN.for_update("p")


def lock_statements(wanted: PlanRequest, key: Key | None = None) -> list[Statement]:
    """Lock the plan, then load it, together with the stored answer to a repeated call."""
    return [LOCK_PLAN(plan_id=wanted.plan_id), *_rest(wanted, key)]


def snapshot_statements(wanted: PlanRequest) -> list[Statement]:
    """Load the plan without a lock."""
    return [LOAD_PLAN(plan_id=wanted.plan_id), *_rest(wanted, None)]


def _rest(wanted: PlanRequest, key: Key | None) -> list[Statement]:
    plan_id, texts = wanted.plan_id, Ids(wanted.texts)
    user, session = wanted.holder
    rest = [
        SQL["load_candidates"](plan_id=plan_id, wanted=texts, holder=user, session=session)
        if wanted.candidates
        else SQL["load_steps"](plan_id=plan_id, wanted=texts),
        SQL["load_call"](
            plan_id=plan_id,
            session=session,
            tool=key.tool if key else None,
            key=key.key if key else None,
        ),
    ]
    rest.append(SQL["load_conditions"](plan_id=plan_id))
    if wanted.review:
        rest.append(review_statement(plan_id))
    return rest


def lock_if_unchanged_statement(loaded: LoadedPlan) -> Statement:
    """Lock a cached plan if it is unchanged; otherwise fail the whole message."""
    plan, now, head = loaded
    return SQL["lock_if_unchanged"](plan_id=plan.id, seq=head.seq, hash=head.hash, now=now)


def review_statement(plan_id: str) -> Statement:
    """Select the last review of a plan."""
    return SQL["load_review"](plan_id=plan_id)


def plan_of_step_statement(step_id: str) -> Statement:
    """Select the plan that a step belongs to."""
    return SQL["plan_of_step"](step_id=step_id)


def brief_statement(plan_id: str | None) -> Statement:
    """Select the immutable columns of a plan."""
    return SQL["brief"](plan_id=plan_id)


def results_within_statement(plan_id: str | None, most: int) -> Statement:
    """Select the sizes of a plan's results, and the results if they total at most `most` bytes."""
    return SQL["results_within"](plan_id=plan_id, most=most)


def results_cut_statement(plan_id: str | None, most: int) -> Statement:
    """Select the results of a plan's steps, each cut to its first `most` characters of JSON."""
    return SQL["results_cut"](plan_id=plan_id, most=most)


def read_plan(results: Results, wanted: PlanRequest) -> LoadedPlan | None:
    """Return the loaded plan, or None if it does not exist."""
    plans, steps, ((known, _),), *rest = results
    session = wanted.holder.session
    if not plans:
        return None
    (row,) = plans
    plan_id, name, status, revision, stall_seconds, resumed_at, fail_reason, *rest_of_it = row
    seq, digest, now, usage, budget, created_by, created_at, written_at = rest_of_it
    plan = Plan(
        id=PlanId(plan_id),
        name=name,
        status=PlanStatus(status),
        revision=revision,
        stall_seconds=stall_seconds,
        resumed_at=_in_utc(resumed_at),
        fail_reason=fail_reason,
        seq=seq,
        steps=tuple([_step(row[:-1]) for row in steps]),
        texts={StepId(row[0]): _text(row[-1]) for row in steps if row[-1] is not None},
        conditions=tuple([read_condition(row) for row in rest[0]]),
        review=read_review(rest[1]) if wanted.review else None,
        sessions=frozenset((session,)) if known and session else NO_SESSIONS,
        usage=totals_from_json(usage),
        budget=Budget(**budget) if budget else None,
        created_by=created_by,
        created_at=_in_utc(created_at),
    )
    head = ChainHead(seq, digest, written_at.astimezone(UTC))
    return LoadedPlan(plan, now.astimezone(UTC), head)


def read_answer(results: Results, key: Key) -> StoredAnswer | None:
    """Return the stored answer to a repeated call, if one was found."""
    row = results[2][0][1]
    return None if row is None else calls.read_answer(row, key)


def stored_rows_statement(plan_id: str) -> Statement:
    """Select the rows that a plan's audit accounts for."""
    return SQL["stored_rows"](plan_id=plan_id)


def open_reviews_statement(plan_id: str | None, most: int) -> Statement:
    """Select the open reviews of one plan or of all, longest waiting first."""
    return SQL["open_reviews"](plan_id=plan_id, most=most)


def read_stored_rows(rows: Iterable[tuple[Any, ...]]) -> PlanRows:
    """Return the selected rows in the form that a replay produces, where null means no value."""
    by_entity: PlanRows = {}
    for entity, row_id, row in rows:
        by_entity.setdefault(entity, {})[row_id] = {
            name: _utc(value).isoformat() if name in TIMES and value else value
            for name, value in row.items()
        }
    return by_entity


@lru_cache(maxsize=8_000)
def _step(row: tuple[Any, ...]) -> Step:
    """Return a step from its row. Cached: most steps of a plan are the same as at the last call."""
    step_id, order, step_type, title, status, attempt, stall_seconds, *rest = row
    since, seen, completed, held_by, held_session, fail_reason, depends_on = rest
    return Step(
        StepId(step_id),
        order,
        StepType(step_type),
        title,
        StepStatus(status),
        attempt,
        stall_seconds,
        _in_utc(since),
        _in_utc(seen),
        _in_utc(completed),
        held_by,
        held_session,
        fail_reason,
        tuple(map(StepId, depends_on.split())) if depends_on else (),
    )


def _text(row: list[Any]) -> StepText:
    instructions, result_schema, required, *rest = row
    stored = rest[0] if rest else None
    return StepText(
        instructions=instructions,
        result_schema=result_schema,
        required_sources=required,
        sources=tuple(StoredSource(id=i, title=t, url=u) for i, t, u in stored or ()),
    )


def read_condition(row: tuple[Any, ...]) -> Condition:
    """Return a condition from its row."""
    return Condition(
        id=ConditionId(row[0]),
        step_id=StepId(row[1]),
        position=row[2],
        expression=row[3],
        action=BranchAction(row[4]),
        target_step_id=StepId(row[5]) if row[5] else None,
        steps=tuple(_new_step(new) for new in row[6] or ()),
        reason=row[7],
        outcome=BranchOutcome(row[8]) if row[8] else None,
    )


def _new_step(fields: dict[str, Any]) -> NewStep:
    return NewStep(**{**fields, "type": StepType(fields["type"])})


def read_review(rows: list[tuple[Any, ...]]) -> Review | None:
    """Return the review that `review_statement` selected, if any."""
    if not rows:
        return None
    (row,) = rows
    return Review(
        id=ReviewId(row[0]),
        step_id=StepId(row[1]),
        summary=row[2],
        questions=tuple(row[3]),
        result_summary=row[4],
        requested_at=row[5].astimezone(UTC),
        requested_by=row[6],
        decision=DecisionKind(row[7]) if row[7] else None,
        feedback=row[8],
        decided_at=_in_utc(row[9]),
        decided_by=row[10],
        decided_via=Channel(row[11]) if row[11] else None,
        requested_as=row[12],
        decided_as=row[13],
    )


def _in_utc(at: datetime | None) -> datetime | None:
    return at.astimezone(UTC) if at is not None else None


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
