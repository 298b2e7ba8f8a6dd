"""Cancellation of runs: documents are kept, and later calls are refused."""

import pytest

from dag_builders import make_plan_step
from plan_builders import PAT
from run_env import RunEnv, make_run, make_stage_run
from waybook.core.changes import Entity, differences, replay
from waybook.dag.model import JobStatus, RunState, Strategy
from waybook.errors import InvalidTransition, RunCanceled
from waybook.run.failure import cancel_run
from waybook.run.start import give_feedback, start_open_stage
from waybook.run.status import awaiting_feedback, run_notifications, run_state

REASON = "The question has changed."


@pytest.fixture
def world() -> RunEnv:
    return make_run(make_stage_run(make_plan_step("a", Strategy.PER_MODEL)), ("alpha", "beta"))


def cancel(world: RunEnv) -> None:
    world.keep(cancel_run(world.run, world.chart, REASON, world.moment(PAT)))


def test_canceling_a_run_writes_an_audit_entry_with_reason(world: RunEnv) -> None:
    cancel(world)
    run = world.run
    assert (run.canceled_by, run.canceled_at, run.cancel_reason) == (
        PAT.user,
        world.records.now,
        REASON,
    )
    (entry,) = world.decision.entries if world.decision else ()
    assert dict(entry.details) == {"action": "cancel_run", "reason": REASON}
    assert {change.field for change in entry.changes} == {
        "canceled_at",
        "canceled_by",
        "cancel_reason",
    }
    assert differences(replay(world.changes), world.records.rows()) == []


def test_canceling_a_run_changes_no_job(world: RunEnv) -> None:
    before = dict(world.records.jobs)
    cancel(world)
    assert world.records.jobs == before
    assert run_state(world.run, world.chart) is RunState.CANCELED
    assert awaiting_feedback(world.run, world.chart) is None


def test_holder_of_a_job_in_canceled_run_gets_run_canceled(world: RunEnv) -> None:
    world.claim()
    cancel(world)
    reply = world.ask()
    assert reply is RunState.CANCELED


def test_late_result_for_a_canceled_run_is_refused_but_stored(world: RunEnv) -> None:
    held = world.claim()
    cancel(world)
    with pytest.raises(RunCanceled, match="pat canceled this run") as refused:
        world.submit(held, "text")
    assert refused.value.details["canceledBy"] == PAT.user
    assert refused.value.details["reason"] == REASON
    assert refused.value.details["jobId"] == held.id
    assert [entity for entity, _ in world.records.texts] == [Entity.LATE_RESULT]
    assert world.records.jobs[held.id].status is JobStatus.PROCESSING


def test_every_change_of_canceled_run_raises_run_canceled(world: RunEnv) -> None:
    held = world.claim()
    cancel(world)
    now = (world.run, world.chart)
    calls = (
        lambda: cancel_run(*now, REASON, world.moment(PAT)),
        lambda: give_feedback(*now, "only", "Go on.", None, world.moment(PAT)),
        lambda: start_open_stage(*now, "only", None, world.moment(PAT)),
        lambda: world.fail(held),
        lambda: world.retry("only"),
    )
    for call in calls:
        with pytest.raises(RunCanceled):
            call()


def test_canceling_a_completed_run_raises_invalid_transition(world: RunEnv) -> None:
    world.work()
    with pytest.raises(InvalidTransition, match="already completed and cannot be canceled"):
        cancel(world)


def test_canceling_a_run_sends_a_notification_with_the_reason(world: RunEnv) -> None:
    before = world.run
    cancel(world)
    (notice,) = run_notifications(before, world.run, world.chart)
    assert (str(notice.kind), notice.data["reason"]) == ("run.canceled", REASON)
    assert [*run_notifications(world.run, world.run, world.chart)] == []
