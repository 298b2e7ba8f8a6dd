"""Cancellation of runs: documents are kept, and later calls are refused."""

import pytest

from dag_builders import make_plan_step
from plan_builders import PAT
from run_env import RunEnv, make_run, make_stage_run
from waybook.core.changes import differences, replay
from waybook.dag.model import Strategy
from waybook.errors import RunCanceled
from waybook.run.failure import cancel_run
from waybook.run.start import give_feedback, start_open_stage
from waybook.run.status import run_notifications

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


def test_canceling_a_run_sends_a_notification_with_the_reason(world: RunEnv) -> None:
    before = world.run
    cancel(world)
    (notice,) = run_notifications(before, world.run, world.chart)
    assert (str(notice.kind), notice.data["reason"]) == ("run.canceled", REASON)
    assert [*run_notifications(world.run, world.run, world.chart)] == []
