import pytest

from plan_builders import (
    changes_of,
    make_context,
    make_new_plan,
    make_new_step,
    make_plan,
    make_step,
    step_id,
)
from plan_invariants import known_rows, rows_of
from waybook.core.changes import (
    Change,
    Entity,
    ReplayError,
    Rows,
    changes_from_json,
    differences,
    group_changes,
    replay,
)
from waybook.json_values import Json
from waybook.plan.create import create
from waybook.plan.modify import RemoveStep, modify
from waybook.plan.next_step import next_step
from waybook.plan.submit import Submission, submit

MADE = Change(Entity.STEP, "s", "*", None, {"status": "pending"})


def test_plan_audit_replays_to_the_same_rows() -> None:
    made = create(make_new_plan(make_new_step(), make_new_step(), make_new_step()), make_context())
    gone = modify(made.plan, (RemoveStep(made.plan.steps[1].id),), make_context())
    taken = next_step(gone.plan, make_context())
    step = taken.plan.steps[0].id
    done = submit(taken.plan, step, Submission(result_summary={"found": 3}), make_context())
    rows = replay([c for d in (made, gone, taken, done) for c in changes_of(d)])
    assert known_rows(rows) == rows_of(done.plan)
    assert rows["step"][step]["result_summary"] == {"found": 3}
    assert rows["session"] == {"a": {"seen_at": "2030-01-01T12:00:00+00:00"}}


def test_replay_of_an_inserted_and_deleted_row_returns_no_row() -> None:
    assert replay([MADE, Change(Entity.STEP, "s", "*", {"status": "pending"}, None)]) == {}


@pytest.mark.parametrize(
    "forged",
    [
        Change(Entity.STEP, "s", "status", "failed", "pending"),
        Change(Entity.STEP, "other", "status", "pending", "failed"),
        Change(Entity.STEP, "s", "*", None, {"status": "failed"}),
        Change(Entity.STEP, "new", "*", {"status": "pending"}, {"status": "failed"}),
        Change(Entity.STEP, "s", "*", {"status": "failed"}, None),
        Change(Entity.STEP, "new", "*", None, None),
        Change(Entity.STEP, "new", "*", None, "a row"),
    ],
)
def test_replay_of_an_inconsistent_change_raises_replay_error(forged: Change) -> None:
    with pytest.raises(ReplayError):
        replay([MADE, forged])


def test_comparison_of_replayed_and_stored_rows_lists_every_difference() -> None:
    replayed: Rows = {
        "step": {"s1": {"status": "pending"}, "s2": {"status": "failed", "title": None}}
    }
    stored: Rows = {"step": {"s2": {"status": "pending"}, "s3": {}}, "plan": {}}
    assert differences(replayed, stored) == [
        "step s1: the audit made it, but it is not stored",
        "step s2: status is 'pending', the audit says 'failed'",
        "step s3: stored, but no audit entry made it",
    ]
    assert differences(stored, stored) == []


def test_audited_rows_of_a_plan_omit_the_last_seen_time() -> None:
    plan = make_plan(make_step())
    assert "last_seen_at" not in rows_of(plan)["step"][step_id(1)]


def test_grouping_audit_changes_preserves_changes_and_order() -> None:
    changes = [
        Change(Entity.STEP, "1", "status", "pending", "in_progress"),
        Change(Entity.STEP, "1", "held_by", None, "ann"),
        Change(Entity.STEP, "1", "status", "in_progress", "completed"),
        Change(Entity.PLAN, "1", "*", {"name": "x"}, None),
        Change(Entity.PLAN, "2", "*", None, {"name": None}),
        Change(Entity.STEP, "1", "title", "x", None),
        Change(Entity.STEP, "1", "report", None, None),
    ]
    groups = group_changes(changes)
    assert len(groups) == 5
    assert [change for group in groups for change in changes_from_json(group)] == changes


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "x",
        {},
        [],
        ["step", "1"],
        ["river", "1", {}],
        ["step", 1, {}],
        ["step", "1", {"a": []}],
    ],
)
def test_malformed_change_group_raises_replay_error(raw: Json) -> None:
    with pytest.raises(ReplayError):
        list(changes_from_json(raw))
