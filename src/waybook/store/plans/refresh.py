"""Reads that bring the copy of a plan in the cache up to date, without a lock.

Calls on a plan may reach several processes in turn, so that each process finds that others have
changed the plan since. Every change of a plan is in its audit, so the copy of a process can be
updated from the audit entries that follow the last one that the copy contains. If there is no copy,
or if the entries contain a change that is not applied here, the whole plan is read.

A decision on a plan that was read without a lock is committed only if the plan still has the same
audit number and hash; see `lock_if_unchanged` in `plans/load.sql`.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from waybook.core.changes import Entity
from waybook.core.replay import ChangedFields, ReplayError, changed_rows, new_value
from waybook.core.usage import totals_from_json
from waybook.plan.draft import RESULT_FIELDS
from waybook.plan.model import Plan, Step, StepId, StepType
from waybook.plan.states import PlanStatus, StepStatus
from waybook.store.audit import ChainHead
from waybook.store.driver.queries import Statement, load
from waybook.store.plans.load import LoadedPlan, PlanRequest, build_plan, read_text
from waybook.store.plans.rows import ChangeRow, PlanRow

SQL = load("plans/refresh", changes_since=ChangeRow)

#: Maximum number of audit entries that are applied to a copy; after more, the plan is read.
MAX_ENTRIES: Final = 16
#: Maximum stored size in bytes of an audit entry whose details are read.
MAX_DETAILS_BYTES: Final = 32_768

#: Function that converts a value of the audit to the type of a field.
Convert: TypeAlias = Callable[[Any], object]


class Field(NamedTuple):
    """Field of a plan or step: its place in the named tuple, and the conversion of its values."""

    place: int
    #: Conversion of values other than null; None if they need none.
    convert: Convert | None = None


@lru_cache(maxsize=4_096)
def _time(text: str) -> datetime:
    """Convert a time. It is cached, because a plan is read many times with the same times."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is UTC else at.astimezone(UTC)


STEP_TYPES: Final = {str(step_type): step_type for step_type in StepType}
STEP_STATUSES: Final = {str(status): status for status in StepStatus}
PLAN_STATUSES: Final = {str(status): status for status in PlanStatus}

#: Fields of a plan and of its steps that the calls of agents change. A change of another field
#: needs the whole plan.
PLAN_FIELDS: Final[Mapping[str, Field]] = {
    "status": Field(Plan._fields.index("status"), PLAN_STATUSES.__getitem__),
    "revision": Field(Plan._fields.index("revision")),
    "resumed_at": Field(Plan._fields.index("resumed_at"), _time),
    "fail_reason": Field(Plan._fields.index("fail_reason")),
    "usage": Field(Plan._fields.index("usage"), totals_from_json),
}
STEP_FIELDS: Final[Mapping[str, Field]] = {
    "status": Field(Step._fields.index("status"), STEP_STATUSES.__getitem__),
    "attempt": Field(Step._fields.index("attempt")),
    "in_progress_since": Field(Step._fields.index("in_progress_since"), _time),
    "completed_at": Field(Step._fields.index("completed_at"), _time),
    "held_by": Field(Step._fields.index("held_by")),
    "held_session": Field(Step._fields.index("held_session")),
    "fail_reason": Field(Step._fields.index("fail_reason")),
    "silent_holders": Field(Step._fields.index("silent_holders")),
}
#: Rows and fields that are not part of the class `Plan`.
OTHER_ROWS: Final = frozenset(
    map(str, (Entity.ARTIFACT, Entity.SOURCE, Entity.ARTIFACT_SOURCE, Entity.USAGE))
)
OTHER_PLAN_FIELDS: Final = frozenset({"completed_at"})
OTHER_STEP_FIELDS: Final = frozenset(RESULT_FIELDS)


def changes_statement(loaded: LoadedPlan) -> Statement:
    """Select the audit entries since a plan was cached, and the last entry before them."""
    plan, now, head = loaded
    return SQL["changes_since"](
        plan_id=plan.id,
        seq=head.seq,
        at=head.at or now,
        longest=MAX_DETAILS_BYTES,
        most=MAX_ENTRIES + 2,
    )


def apply_entries(loaded: LoadedPlan, rows: list[ChangeRow]) -> LoadedPlan | None:
    """Return a cached plan with the changes of the selected audit entries.

    Return None if the audit no longer contains the last entry of the cached plan, or if the plan
    has changed in another way, or more often, than can be applied.
    """
    plan, _, head = loaded
    if not 0 < len(rows) <= MAX_ENTRIES + 1:
        return None
    first, last = rows[0], rows[-1]
    if (first.seq, first.hash) != (head.seq, head.hash):
        return None
    if last is not first:
        try:
            plan = _apply(plan, rows[1:])
        except ReplayError:
            return None
        head = ChainHead(last.seq, last.hash, last.at.astimezone(UTC))
    return LoadedPlan(plan, last.now.astimezone(UTC), head)


def _apply(plan: Plan, rows: list[ChangeRow]) -> Plan:
    """Return the plan after these audit entries.

    Raises:
        ReplayError: a change cannot be applied.
    """
    changed, sessions = [*plan], plan.sessions
    changed_steps: dict[str, list[Any]] = {}
    for entity, row_id, fields in _changed_rows(plan.seq, rows):
        if entity == Entity.STEP:
            if row_id not in changed_steps:
                changed_steps[row_id] = [*_step(plan, row_id)]
            _set_fields(changed_steps[row_id], fields, STEP_FIELDS, OTHER_STEP_FIELDS)
        elif entity == Entity.PLAN:
            _set_fields(changed, fields, PLAN_FIELDS, OTHER_PLAN_FIELDS)
        elif entity == Entity.SESSION:
            sessions |= {row_id}
        elif entity not in OTHER_ROWS:
            raise ReplayError(f"changes of the {entity} {row_id} are not applied")
    steps = plan.steps
    if changed_steps:
        after = {step_id: Step._make(values) for step_id, values in changed_steps.items()}
        steps = tuple([after.get(step.id, step) for step in steps])
    return Plan._make(changed)._replace(seq=rows[-1].seq, steps=steps, sessions=sessions)


def _step(plan: Plan, step_id: str) -> Step:
    for step in plan.steps:
        if step.id == step_id:
            return step
    raise ReplayError(f"there is no step {step_id}")


def _set_fields(
    row: list[Any], fields: ChangedFields, known: Mapping[str, Field], other: frozenset[str]
) -> None:
    """Set the changed fields of a row to their new values, in the types of the class `Plan`."""
    for name, values in fields.items():
        field = known.get(name)
        if field is not None:
            value = new_value(values)
            convert = field.convert
            row[field.place] = value if convert is None or value is None else convert(value)
        elif name not in other:
            raise ReplayError(f"changes of the field {name} are not applied")


def _changed_rows(seq: int, rows: list[ChangeRow]) -> Iterator[tuple[str, str, ChangedFields]]:
    """Yield the rows that were changed by the audit entries that follow the one with this number.

    Raises:
        ReplayError: an entry is missing, or its details were not read or have another form.
    """
    for expected, row in enumerate(rows, seq + 1):
        if row.seq != expected or row.details is None:
            raise ReplayError(f"entry {expected} was not read")
        yield from changed_rows(orjson.loads(row.details))


def plan_statement(wanted: PlanRequest) -> Statement:
    """Select a whole plan, with the texts of at most one step."""
    user, session = wanted.holder
    plan_id = wanted.plan_id
    if wanted.candidates:
        return SQL["current_plan_to_claim"](plan_id=plan_id, session=session, holder=user)
    step_id = wanted.texts[0] if wanted.texts else None
    return SQL["current_plan"](plan_id=plan_id, session=session, step_id=step_id)


def read_plan(rows: list[tuple[Any, ...]], wanted: PlanRequest) -> LoadedPlan | None:
    """Convert the selected row to a plan; return None if there is no such plan with steps."""
    if not rows:
        return None
    *columns, is_known_session, conditions, step_rows, text = rows[0]
    if not step_rows:
        return None
    steps = _read_steps(step_rows)
    texts = {}
    if text is not None and text[0] in [step.id for step in steps]:
        texts[StepId(text[0])] = read_text(text[1:])
    session = wanted.holder.session if is_known_session else None
    return build_plan(PlanRow(*columns), steps, texts, conditions, session)


def _read_steps(rows: list[list[Any]]) -> tuple[Step, ...]:
    """Convert the lists of columns that `step_list_of_plan` selects to steps."""
    # One expression without function calls, because this is most of the work of reading a plan.
    return tuple(
        [
            Step(
                step_id,
                order,
                STEP_TYPES[step_type],
                title,
                STEP_STATUSES[status],
                attempt,
                stall_seconds,
                since and _time(since),
                seen and _time(seen),
                completed and _time(completed),
                held_by,
                held_session,
                fail_reason,
                tuple(depends_on) if depends_on else (),
                max_attempts,
                silent_holders,
                copied_from,
            )
            for (
                step_id,
                order,
                step_type,
                title,
                status,
                attempt,
                stall_seconds,
                since,
                seen,
                completed,
                held_by,
                held_session,
                fail_reason,
                depends_on,
                max_attempts,
                silent_holders,
                copied_from,
            ) in rows
        ]
    )
