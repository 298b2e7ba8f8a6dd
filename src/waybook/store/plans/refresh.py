"""Brings the cached copy of a plan up to date by applying new audit entries, without a lock.

If an entry cannot be applied, the whole plan is read again.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from waybook.core.changes import ChangedFields, Entity, ReplayError, changed_rows, new_value
from waybook.core.usage import totals_from_json
from waybook.plan.draft import RESULT_FIELDS
from waybook.plan.model import Plan, PlanStatus, Step, StepId, StepStatus, StepType
from waybook.store.audit import ChainHead
from waybook.store.columns import TABLES
from waybook.store.driver.queries import Statement, load
from waybook.store.plans.load import LoadedPlan, PlanRequest, build_plan, read_text


class ChangeRow(NamedTuple):
    seq: int
    at: datetime
    hash: bytes
    now: datetime
    #: Details of the audit entry as JSON text. None if they are too long.
    details: str | None


SQL = load("plans/refresh", changes_since=ChangeRow)

MAX_ENTRIES: Final = 16
MAX_DETAILS_BYTES: Final = 32_768

_Convert: TypeAlias = Callable[[Any], object] | None
#: For each field of a plan or step: its index in the named tuple and, if any, its converter.
_Fields: TypeAlias = Mapping[str, tuple[int, _Convert]]


@lru_cache(maxsize=4_096)
def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is UTC else at.astimezone(UTC)


STEP_TYPES: Final = {str(step_type): step_type for step_type in StepType}
STEP_STATUSES: Final = {str(status): status for status in StepStatus}
PLAN_STATUSES: Final = {str(status): status for status in PlanStatus}


def _fields(model: type[Plan | Step], **converters: _Convert) -> _Fields:
    return {name: (model._fields.index(name), convert) for name, convert in converters.items()}


#: Fields of a plan to which audit entries can be applied. If an entry changes another field, the
#: whole plan is read again.
_PLAN_FIELDS: Final = _fields(
    Plan,
    status=PLAN_STATUSES.__getitem__,
    revision=None,
    resumed_at=_time,
    fail_reason=None,
    usage=totals_from_json,
)
_STEP_FIELDS: Final = _fields(
    Step,
    status=STEP_STATUSES.__getitem__,
    attempt=None,
    in_progress_since=_time,
    completed_at=_time,
    held_by=None,
    held_session=None,
    fail_reason=None,
    silent_holders=None,
)
#: Rows whose changes are ignored, because the class `Plan` does not contain them.
OTHER_ROWS: Final = frozenset(
    map(
        str,
        (Entity.ARTIFACT, Entity.SOURCE, Entity.ARTIFACT_SOURCE, Entity.USAGE, Entity.COMMENT),
    )
)
OTHER_PLAN_FIELDS: Final = frozenset({"completed_at"})
OTHER_STEP_FIELDS: Final = frozenset(RESULT_FIELDS)

_STEP_ORDER: Final = itemgetter(1)
_READ_STEPS: Final = TABLES["plan_step"].reader(
    Step,
    {
        "type": STEP_TYPES.__getitem__,
        "status": STEP_STATUSES.__getitem__,
        "timestamptz": _time,
        "text[]": tuple,
    },
)

_SEQ: Final = Plan._fields.index("seq")
_STEPS: Final = Plan._fields.index("steps")
_SESSIONS: Final = Plan._fields.index("sessions")


def changes_statement(loaded: LoadedPlan) -> Statement:
    """Select the audit entry at which the plan was cached, and all entries after it."""
    plan, now, head = loaded
    return SQL["changes_since"](
        plan_id=plan.id,
        seq=head.seq,
        at=head.at or now,
        longest=MAX_DETAILS_BYTES,
        most=MAX_ENTRIES + 2,
    )


def apply_entries(loaded: LoadedPlan, rows: list[ChangeRow]) -> LoadedPlan | None:
    """Apply audit entries to a cached plan, or return None if the plan must be read again."""
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
        head = ChainHead(last.seq, last.hash, last.at)
    return LoadedPlan(plan, last.now, head)


def _apply(plan: Plan, rows: list[ChangeRow]) -> Plan:
    changed, steps = [*plan], [*plan.steps]
    for expected, row in enumerate(rows, plan.seq + 1):
        if row.seq != expected or row.details is None:
            raise ReplayError(f"audit entry {expected} is missing or was too long to read")
        _apply_changes(changed, steps, row.details)
    changed[_SEQ], changed[_STEPS] = rows[-1].seq, tuple(steps)
    return Plan._make(changed)


def _apply_changes(plan: list[Any], steps: list[Step], details: str) -> None:
    for entity, row_id, fields in changed_rows(orjson.loads(details)):
        if entity == Entity.STEP:
            place = next((n for n, step in enumerate(steps) if step.id == row_id), None)
            if place is None:
                raise ReplayError(f"there is no step {row_id}")
            values = [*steps[place]]
            _set_fields(values, fields, _STEP_FIELDS, OTHER_STEP_FIELDS)
            steps[place] = Step._make(values)
        elif entity == Entity.PLAN:
            _set_fields(plan, fields, _PLAN_FIELDS, OTHER_PLAN_FIELDS)
        elif entity == Entity.SESSION:
            plan[_SESSIONS] |= {row_id}
        elif entity not in OTHER_ROWS:
            raise ReplayError(f"changes of the {entity} {row_id} cannot be applied")


def _set_fields(
    row: list[Any], fields: ChangedFields, known: _Fields, other: frozenset[str]
) -> None:
    for name, values in fields.items():
        if name in known:
            (place, convert), value = known[name], new_value(values)
            row[place] = value if convert is None or value is None else convert(value)
        elif name not in other:
            raise ReplayError(f"changes of the field {name} cannot be applied")


def plan_statement(wanted: PlanRequest) -> Statement:
    user, session = wanted.holder
    plan_id = wanted.plan_id
    if wanted.candidates:
        return SQL["current_plan_to_claim"](plan_id=plan_id, session=session, holder=user)
    step_id = wanted.texts[0] if wanted.texts else None
    return SQL["current_plan"](plan_id=plan_id, session=session, step_id=step_id)


def read_plan(rows: list[tuple[Any, ...]], wanted: PlanRequest) -> LoadedPlan | None:
    if not rows:
        return None
    *_, is_known_session, conditions, step_rows, text = rows[0]
    if not step_rows:
        return None
    step_rows.sort(key=_STEP_ORDER)
    steps = tuple(_READ_STEPS(step_rows))
    texts = {}
    if text is not None and text[0] in [step.id for step in steps]:
        texts[StepId(text[0])] = read_text(text[1:])
    session = wanted.holder.session if is_known_session else None
    return build_plan(rows[0], steps, texts, conditions, session)
