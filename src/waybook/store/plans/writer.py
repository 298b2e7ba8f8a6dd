"""Turns the changes of a plan that a `Decision` contains into SQL statements."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from waybook.core.changes import Entity, Entry
from waybook.core.decision_context import Holder
from waybook.json_values import Json
from waybook.plan.draft import RESULT_FIELDS, Decision
from waybook.plan.model import Plan, StepId, StepStatus
from waybook.store.audit import (
    ChainHead,
    Patch,
    Patches,
    SealedEntry,
    WriteContext,
    audit_statements,
    sealed_entries,
)
from waybook.store.columns import TABLES
from waybook.store.comments import comment_statements
from waybook.store.driver.queries import (
    AsJson,
    Ids,
    Rows,
    Statement,
    Value,
    fill,
    load,
    new_row,
)

SQL = load("plans/writer")

#: The new statuses in the most frequent write: a call completes one step and claims the next one.
_PAIR = (StepStatus.COMPLETED, StepStatus.IN_PROGRESS)
_COMPLETED_FIELDS = {"status", "completed_at"}
_STARTED_FIELDS = {"status", "in_progress_since", "held_by"}
_SESSION_FIELDS = {"held_session"}

_OWN_COLUMNS = [column.field for column in TABLES["plan_step"].inserted if column.role != "parent"]
_OWN_VALUES = attrgetter(*_OWN_COLUMNS)
_DEPENDS_ON = 1 + _OWN_COLUMNS.index("depends_on")


def statements(
    before: Plan | None,
    decision: Decision[object],
    write_context: WriteContext,
    *,
    is_cached: bool = False,
) -> tuple[list[Statement], ChainHead]:
    """Return the SQL statements that write a decision's changes, and the audit chain's new end.

    For a cached plan, the first statement fails if the plan has changed in the database.
    """
    if not decision.entries and not decision.touched:
        return [], write_context.head
    patches = Patches([change for entry in decision.entries for change in entry.changes])
    sealed = sealed_entries(decision.entries, ("plan", decision.plan.id), write_context)
    written = _plan(before, decision.plan, patches, sealed, write_context, is_cached=is_cached)
    if conditions := patches.deletes[Entity.CONDITION]:
        written.append(SQL["delete_conditions"](ids=Ids(conditions)))
    written += _steps(before, decision, patches, write_context)
    # These rows refer to the plan or its steps, so they are written last.
    written += _children(decision.plan, patches)
    if Entity.ARTIFACT in patches.entities:
        for patch in patches.inserts[Entity.ARTIFACT]:
            # The audit changes have only the hash of a long text, so the text comes from `texts`.
            texts = decision.texts.get(patch.id)
            values = {**patch.values, "content": texts[0]} if texts else patch.values
            of_plan = {"plan_id": decision.plan.id, "audit_seq": None, "audit_hash": None}
            written.append(_artifact(patch.id, values, **of_plan))
        written += _origins(patches, write_context)
    head = (
        ChainHead(sealed[-1].seq, sealed[-1].hash, sealed[-1].at) if sealed else write_context.head
    )
    return written + audit_statements(sealed), head


def _steps(
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
            **new._asdict(),
            plan_id=before.id,
            old_status=old.status,
            seen_at=write_context.now if step_id in decision.touched else None,
        )
    if "title" in values:
        yield SQL["update_title"](plan_id=before.id, id=step_id, title=new.title)
    if "depends_on" in values:
        before_it = Ids(new.depends_on)
        yield SQL["update_dependencies"](plan_id=before.id, id=step_id, depends_on=before_it)
    if "touches" in values:
        yield SQL["update_touches"](plan_id=before.id, id=step_id, touches=new.touches)
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


def write_skill(
    row: dict[str, Json], skill_id: str, entry: Entry, write_context: WriteContext
) -> list[Statement]:
    """Insert the execution of a skill or, if it has audit entries already, complete it."""
    is_new = not write_context.head.seq
    query = SQL["insert_skill_execution"] if is_new else SQL["complete_skill_execution"]
    sealed = sealed_entries((entry,), ("skill_execution", skill_id), write_context)
    return [fill(query, row, id=skill_id, **_head(sealed)), *audit_statements(sealed)]


def store_standalone(
    artifact_id: str, entry: Entry, write_context: WriteContext
) -> list[Statement]:
    patches = Patches(entry.changes)
    sealed = sealed_entries((entry,), ("artifact", artifact_id), write_context)
    (made,) = patches.inserts[Entity.ARTIFACT]
    return [
        _artifact(made.id, made.values, plan_id=None, **_head(sealed)),
        *_origins(patches, write_context),
        *audit_statements(sealed),
    ]


def _head(sealed: list[SealedEntry]) -> dict[str, Value]:
    return {"audit_seq": sealed[-1].seq, "audit_hash": sealed[-1].hash}


def _plan(
    before: Plan | None,
    plan: Plan,
    patches: Patches,
    sealed: list[SealedEntry],
    write_context: WriteContext,
    *,
    is_cached: bool,
) -> list[Statement]:
    if before is None:
        (made,) = patches.inserts[Entity.PLAN]
        return [
            fill(
                SQL["insert_plan"],
                made.values,
                id=plan.id,
                updated_at=write_context.now,
                **_head(sealed),
            ),
            SQL["insert_plan_words"](id=plan.id),
            fill(SQL["insert_plan_brief"], made.values, plan_id=plan.id),
        ]
    if not sealed:
        return []
    changes = patches.updates[Entity.PLAN]
    values: dict[str, Any] = changes[0].values if changes else {}
    update = SQL["update_plan_if_unchanged"] if is_cached else SQL["update_plan"]
    changed = update(
        id=plan.id,
        status=plan.status,
        revision=plan.revision,
        resumed_at=plan.resumed_at,
        completed_at=values.get("completed_at"),
        fail_reason=plan.fail_reason,
        canceled=plan.canceled,
        usage=AsJson(values.get("usage")),
        now=write_context.now,
        old_status=before.status,
        old_seq=write_context.head.seq,
        old_hash=write_context.head.hash,
        has_new_steps=bool(patches.inserts[Entity.STEP]),
        **_head(sealed),
    )
    if "budget" not in values:
        return [changed]
    return [changed, SQL["update_budget"](id=plan.id, budget=AsJson(values["budget"]))]


def _children(plan: Plan, patches: Patches) -> Iterator[Statement]:
    inserts, updates, plan_id = patches.inserts, patches.updates, plan.id
    if made := inserts[Entity.CONDITION]:
        table = TABLES["branching_condition"]
        rows = [new_row(table, patch.values, id=patch.id, plan_id=plan_id) for patch in made]
        yield SQL["insert_conditions"](rows=Rows(rows))
    for patch in inserts[Entity.SESSION]:
        yield fill(SQL["insert_session"], patch.values, plan_id=plan_id, session=patch.id)
    for patches_of, entity, query in (
        (updates, Entity.CONDITION, SQL["update_condition"]),
        (inserts, Entity.REVIEW, SQL["insert_review"]),
        (updates, Entity.REVIEW, SQL["decide_review"]),
        (inserts, Entity.USAGE, SQL["insert_usage"]),
    ):
        for patch in patches_of[entity]:
            yield fill(query, patch.values, id=patch.id, plan_id=plan_id)
    yield from comment_statements(patches, plan_id=plan_id, run_id=None)


def _artifact(artifact_id: str, values: dict[str, Json], **extra_values: Value) -> Statement:
    tagged = {**values, "tags": values.get("tags") or []}
    return fill(SQL["insert_artifact"], tagged, id=artifact_id, **extra_values)


def _origins(patches: Patches, write_context: WriteContext) -> Iterator[Statement]:
    sources, links = patches.inserts[Entity.SOURCE], patches.inserts[Entity.ARTIFACT_SOURCE]
    created: dict[str, Value] = {
        "created_at": write_context.now,
        "created_by": write_context.actor.user,
    }
    if sources:
        rows = [
            new_row(TABLES["source"], patch.values, id=patch.id, **created) for patch in sources
        ]
        yield SQL["insert_sources"](rows=Rows(rows))
    if links:
        rows = [new_row(TABLES["artifact_source"], patch.values) for patch in links]
        yield SQL["insert_links"](rows=Rows(rows))


def latest_skill_statement(holder: Holder) -> Statement:
    return SQL["latest"](user=holder.user, session=holder.session)
