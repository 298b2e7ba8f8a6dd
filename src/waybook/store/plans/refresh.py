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
from typing import Any, Final, TypeAlias

import orjson

from waybook.core.changes import Entity
from waybook.core.replay import ChangedFields, ReplayError, changed_rows
from waybook.core.usage import totals_from_json
from waybook.plan.draft import RESULT_FIELDS
from waybook.plan.model import Plan, Step
from waybook.plan.states import PlanStatus, StepStatus
from waybook.store.audit import ChainHead
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement, load
from waybook.store.plans.load import LoadedPlan, PlanRequest, build_plan, steps_statement
from waybook.store.plans.rows import ChangeRow, PlanRow

SQL = load("plans/refresh", changes_since=ChangeRow)

#: Maximum number of audit entries that are applied to a copy; after more, the plan is read.
MAX_ENTRIES: Final = 16
#: Maximum stored size in bytes of an audit entry whose details are read.
MAX_DETAILS_BYTES: Final = 32_768

#: Function that converts a value of the audit to the type of a field.
Convert: TypeAlias = Callable[[Any], object]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


#: Fields of a plan and of its steps that the calls of agents change. Values other than null are
#: converted, if there is a conversion. A change of another field needs the whole plan.
PLAN_FIELDS: Final[Mapping[str, Convert | None]] = {
    "status": {str(status): status for status in PlanStatus}.__getitem__,
    "revision": None,
    "resumed_at": _time,
    "fail_reason": None,
    "usage": totals_from_json,
}
STEP_FIELDS: Final[Mapping[str, Convert | None]] = {
    "status": {str(status): status for status in StepStatus}.__getitem__,
    "attempt": None,
    "in_progress_since": _time,
    "completed_at": _time,
    "held_by": None,
    "held_session": None,
    "fail_reason": None,
    "silent_holders": None,
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
    changed: dict[str, object] = {"seq": rows[-1].seq}
    changed_steps: dict[str, dict[str, object]] = {}
    for entity, row_id, fields in _changed_rows(plan.seq, rows):
        if entity == Entity.STEP:
            values = _new_values(fields, STEP_FIELDS, OTHER_STEP_FIELDS)
            changed_steps[row_id] = {**changed_steps.get(row_id, {}), **values}
        elif entity == Entity.PLAN:
            changed |= _new_values(fields, PLAN_FIELDS, OTHER_PLAN_FIELDS)
        elif entity == Entity.SESSION:
            sessions = changed.get("sessions", plan.sessions)
            changed["sessions"] = sessions | {row_id}  # type: ignore[operator]  # a set of names
        elif entity not in OTHER_ROWS:
            raise ReplayError(f"changes of the {entity} {row_id} are not applied")
    steps = _apply_to_steps(plan.steps, changed_steps) if changed_steps else plan.steps
    return plan._replace(steps=steps, **changed)  # type: ignore[arg-type]  # names are Plan's own


def _new_values(
    fields: ChangedFields, known: Mapping[str, Convert | None], other: frozenset[str]
) -> dict[str, object]:
    """Return the new values of the changed fields of a row, in the types of the class `Plan`."""
    values: dict[str, object] = {}
    for name, (*_, value) in fields.items():
        if name in known:
            convert = known[name]
            values[name] = value if convert is None or value is None else convert(value)
        elif name not in other:
            raise ReplayError(f"changes of the field {name} are not applied")
    return values


def _apply_to_steps(
    steps: tuple[Step, ...], changed: dict[str, dict[str, object]]
) -> tuple[Step, ...]:
    after = [
        step._replace(**changed.pop(step.id)) if step.id in changed else step  # type: ignore[arg-type]  # names are Step's own
        for step in steps
    ]
    if changed:
        raise ReplayError(f"there are no steps {list(changed)}")
    return tuple(after)


def _changed_rows(seq: int, rows: list[ChangeRow]) -> Iterator[tuple[str, str, ChangedFields]]:
    """Yield the rows that were changed by the audit entries that follow the one with this number.

    Raises:
        ReplayError: an entry is missing, or its details were not read or have another form.
    """
    for expected, row in enumerate(rows, seq + 1):
        if row.seq != expected or row.details is None:
            raise ReplayError(f"entry {expected} was not read")
        yield from changed_rows(orjson.loads(row.details))


def plan_statements(wanted: PlanRequest) -> list[Statement]:
    """Select a whole plan; each statement may see a later state than the one before."""
    current = SQL["current_plan"](plan_id=wanted.plan_id, session=wanted.holder.session)
    return [current, steps_statement(wanted)]


def read_plan(results: Results, wanted: PlanRequest) -> LoadedPlan | None:
    """Convert the selected rows to a plan.

    Return None if there is no such plan, if it has no steps, or if it changed between the
    statements.
    """
    plans, steps = results
    if not plans or not steps:
        return None
    *columns, is_known_session, conditions = plans[0]
    row = PlanRow(*columns)
    if steps[0].plan_seq != row.audit_seq:
        return None
    session = wanted.holder.session if is_known_session else None
    return build_plan(row, steps, conditions, session)
