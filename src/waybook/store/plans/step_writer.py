"""Writes the steps of plans, and their results."""

from collections.abc import Iterator
from operator import attrgetter

from waybook.core.changes import Entity
from waybook.plan.draft import RESULT_FIELDS, Decision
from waybook.plan.model import Plan, StepId, StepStatus
from waybook.store.audit import Patch, Patches, WriteContext
from waybook.store.columns import TABLES
from waybook.store.driver.queries import Ids, Rows, Statement, Value, fill, load, new_row

SQL = load("plans/step_writer")

#: The new statuses in the most frequent write: a call completes one step and claims the next one.
_PAIR = (StepStatus.COMPLETED, StepStatus.IN_PROGRESS)
_COMPLETED_FIELDS = {"status", "completed_at"}
_STARTED_FIELDS = {"status", "in_progress_since", "held_by"}
_SESSION_FIELDS = {"held_session"}

_OWN_COLUMNS = [column.field for column in TABLES["plan_step"].inserted if column.role != "parent"]
_OWN_VALUES = attrgetter(*_OWN_COLUMNS)
_DEPENDS_ON = 1 + _OWN_COLUMNS.index("depends_on")


def step_statements(
    before: Plan | None, decision: Decision[object], patches: Patches, write_context: WriteContext
) -> list[Statement]:
    written: list[Statement] = []
    if made := patches.inserts[Entity.STEP]:
        written += _new_steps(decision.plan, made)
    if before is None:
        return written
    match patches.updates[Entity.STEP]:
        case [completed, started] if _is_pair(completed, started, decision.touched):
            written += _completed_and_started(
                before, decision.plan, completed, started, write_context
            )
        case updates:
            for patch in updates:
                written += _changed_step(before, decision, patch, write_context)
    if removed := patches.deletes[Entity.STEP]:
        written += (
            SQL["delete_step_briefs"](ids=Ids(removed)),
            SQL["delete_steps"](ids=Ids(removed)),
        )
    if decision.touched:
        old = {step.id: step for step in before.steps}
        same = [i for i in decision.touched if old.get(i) is decision.plan.step(i)]
        if same:
            written.append(SQL["touch_steps"](ids=Ids(same), now=write_context.now))
    return written


def _new_steps(plan: Plan, made: list[Patch]) -> list[Statement]:
    rows = []
    for patch in made:
        step = plan.step(StepId(patch.id))
        row: list[Value] = [plan.id, *_OWN_VALUES(step)]
        row[_DEPENDS_ON] = Ids(step.depends_on) if step.depends_on else None
        rows.append(tuple(row))
    carried = [patch for patch in made if not patch.values.keys().isdisjoint(RESULT_FIELDS)]
    return [
        SQL["insert_steps"](rows=Rows(rows)),
        SQL["insert_step_briefs"](
            rows=Rows(
                [new_row(TABLES["step_brief"], patch.values, step_id=patch.id) for patch in made]
            )
        ),
        *map(_new_result, carried),
    ]


def _changed_step(
    before: Plan, decision: Decision[object], patch: Patch, write_context: WriteContext
) -> Iterator[Statement]:
    step_id, values = StepId(patch.id), patch.values
    old, new = before.step(step_id), decision.plan.step(step_id)
    if new is not old:
        yield SQL["update_step"](
            plan_id=before.id,
            id=step_id,
            old_status=old.status,
            step_order=new.order,
            status=new.status,
            attempt=new.attempt,
            in_progress_since=new.in_progress_since,
            seen_at=write_context.now if step_id in decision.touched else None,
            completed_at=new.completed_at,
            held_by=new.held_by,
            held_session=new.held_session,
            fail_reason=new.fail_reason,
            silent_holders=new.silent_holders,
            answers_revision=new.answers_revision,
        )
    if "title" in values:
        yield SQL["update_title"](plan_id=before.id, id=step_id, title=new.title)
    if "depends_on" in values:
        before_it = Ids(new.depends_on)
        yield SQL["update_dependencies"](plan_id=before.id, id=step_id, depends_on=before_it)
    if "instructions" in values:
        yield fill(SQL["update_instructions"], values, step_id=step_id)
    if not values.keys().isdisjoint(RESULT_FIELDS):
        yield _new_result(patch)


def _is_pair(completed: Patch, started: Patch, touched: tuple[StepId, ...]) -> bool:
    """Return whether the write completes one step, starts another, and changes nothing else."""
    return (
        (completed.values.get("status"), started.values.get("status")) == _PAIR
        and started.values.keys() - _SESSION_FIELDS == _STARTED_FIELDS
        and completed.values.keys() - RESULT_FIELDS == _COMPLETED_FIELDS
        and "result_summary" in completed.values
        and touched == (started.id,)
    )


def _completed_and_started(
    before: Plan, plan: Plan, completed: Patch, started: Patch, write_context: WriteContext
) -> list[Statement]:
    first, second = StepId(completed.id), StepId(started.id)
    taken = plan.step(second)
    return [
        SQL["complete_and_start"](
            plan_id=plan.id,
            completed=first,
            old_completed=before.step(first).status,
            completed_at=plan.step(first).completed_at,
            started=second,
            old_started=before.step(second).status,
            started_at=taken.in_progress_since,
            seen_at=write_context.now,
            held_by=taken.held_by,
            held_session=taken.held_session,
        ),
        _new_result(completed),
    ]


def _new_result(patch: Patch) -> Statement:
    row = new_row(TABLES["step_result"], patch.values, step_id=patch.id)
    return SQL["insert_result"](merged_rows=Rows([row]))
