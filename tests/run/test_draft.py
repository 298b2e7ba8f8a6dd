from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dag_builders import make_step
from plan_builders import ANN, NOON
from run_env import RunEnv, make_run, make_stage_run
from run_row_store import changes_of
from waybook.core.changes import Change, Entity, Event, text_hash
from waybook.dag.model import JobStatus
from waybook.run.model import MAX_CHANGES_PER_ENTRY, RunDraft


def make_world() -> RunEnv:
    return make_run(make_stage_run(make_step("a")))


def make_draft() -> RunDraft:
    world = make_world()
    return RunDraft(world.run, world.chart, world.moment(ANN))


def test_changing_a_run_without_an_audit_entry_raises_an_error() -> None:
    draft = make_draft()
    draft.set_stage("only", feedback="Go on.")
    with pytest.raises(AssertionError, match=r"without an audit entry: .*stage_run\.feedback"):
        draft.decide(None)


def test_audit_entries_of_one_change_of_a_run_have_consecutive_numbers() -> None:
    draft = make_draft()
    for number in range(3):
        draft.set_run(completed_at=NOON + timedelta(hours=number))
        draft.record(Event.PLAN_MODIFIED, action="test", number=number)
    decision = draft.decide("reply")
    assert decision.reply == "reply"
    assert decision.run.seq == 2 + 3
    assert [len(entry.changes) for entry in decision.entries] == [1, 1, 1]
    assert decision.run.completed_at == NOON + timedelta(hours=2)


def test_too_many_audit_changes_are_split_into_numbered_entries() -> None:
    draft = make_draft()
    for number in range(2 * MAX_CHANGES_PER_ENTRY + 1):
        draft.set_run(completed_at=NOON + timedelta(seconds=number))
    draft.record(Event.PLAN_MODIFIED, action="test")
    decision = draft.decide(None)
    most = MAX_CHANGES_PER_ENTRY
    assert [len(entry.changes) for entry in decision.entries] == [most, most, 1]
    assert [entry.details["part"] for entry in decision.entries] == [1, 2, 3]
    assert {entry.details["parts"] for entry in decision.entries} == {3}
    assert decision.run.seq == 2 + 3


def test_setting_the_same_value_records_no_change() -> None:
    draft = make_draft()
    draft.set_step(draft.steps["only/a"], done=0, failed=1)
    draft.record(Event.PLAN_MODIFIED)
    assert changes_of(draft.decide(None)) == [Change(Entity.STAGE_STEP, "only/a", "failed", 0, 1)]


def test_audited_run_changes_have_column_names_and_json_values() -> None:
    world = make_world()
    draft = RunDraft(world.run, world.chart, world.moment(ANN))
    job = world.jobs("a")[0]
    changed = draft.set_job(job, status=JobStatus.RETRYING, continues="x", document="y")
    draft.set_job(changed, ready_at=NOON + timedelta(seconds=1))
    draft.record(Event.PLAN_MODIFIED)
    decision = draft.decide(None)
    assert [change[2:] for change in changes_of(decision)] == [
        ("status", "pending", "retrying"),
        ("continues_id", None, "x"),
        ("document_id", None, "y"),
        ("ready_at", "2030-01-01T12:00:00+00:00", "2030-01-01T12:00:01+00:00"),
    ]
    assert decision.jobs[job.id].continues == "x"
    assert decision.jobs[job.id].ready_at == NOON + timedelta(seconds=1)


@given(st.text(), st.text())
def test_hash_of_two_texts_differs_from_hash_of_joined_text(text: str, other: str) -> None:
    assert text_hash(text, other) != text_hash(text + other)
    assert text_hash(text) == text_hash(text)
    assert len(text_hash(text, other)) == 64
