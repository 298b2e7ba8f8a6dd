from datetime import timedelta

import pytest

from dag_builders import make_dag, make_stage, make_step
from plan_builders import ANN, BOB, NOON
from run_env import RunEnv, make_run, make_stage_run
from waybook.core.decision_context import Actor, Channel
from waybook.dag.model import JobStatus, RunState, Strategy
from waybook.run.model import MAX_ATTEMPTS
from waybook.run.next_job import (
    AwaitingFeedback,
    JobReady,
    StageFailed,
    next_job,
)

J = JobStatus


def single_job() -> RunEnv:
    return make_run(make_stage_run(make_step("a", Strategy.ALL_TO_ONE)))


def details(world: RunEnv) -> dict[str, object]:
    """Return the details of the only audit entry that the last call wrote."""
    assert world.decision is not None
    (entry,) = world.decision.entries
    return dict(entry.details)


def test_claiming_a_job_assigns_the_job_to_the_caller() -> None:
    world = single_job()
    world.pass_time(timedelta(minutes=1))
    reply = world.ask(ANN)
    assert isinstance(reply, JobReady)
    assert not reply.resumed
    job = world.job(reply.job)
    assert (job.status, job.attempt, job.tries) == (J.PROCESSING, 1, 1)
    assert (job.held_by, job.held_session) == ("ann", "a")
    assert job.started_at == NOON + timedelta(minutes=1)
    assert world.records.seen[job.id] == world.records.now


def test_claiming_a_job_writes_a_step_started_audit_entry() -> None:
    world = single_job()
    job = world.claim()
    assert world.events() == ["step_started"]
    assert details(world) == {
        "jobId": job.id,
        "stageSlug": "only",
        "stepKey": "a",
        "attempt": 1,
        "takenFrom": None,
    }


def test_session_that_holds_a_job_gets_the_same_job_again() -> None:
    world = make_run(make_stage_run(make_step("a")))
    held = world.claim(ANN)
    world.pass_time(timedelta(minutes=1))
    reply = world.ask(ANN)
    assert reply == JobReady(held, resumed=True)
    assert world.events() == []
    assert world.records.seen[held.id] == world.records.now


def test_claim_never_returns_a_job_that_another_user_holds() -> None:
    world = make_run(make_stage_run(make_step("a", Strategy.ALL_TO_ONE), make_step("b")))
    held = world.claim(Actor("ann", Channel.MCP, "main"))
    decided = next_job(
        world.run,
        world.chart,
        world.moment(Actor("bob", Channel.MCP, "main")),
        held=held,
        candidate=world.records.free(),
        is_open=False,
    )
    assert isinstance(decided.reply, JobReady)
    assert decided.reply.job.id != held.id


def test_claiming_a_job_after_a_failure_records_no_previous_holder() -> None:
    world = single_job()
    world.fail(world.claim(ANN))
    world.pass_time()
    world.claim(BOB)
    assert details(world)["takenFrom"] is None


def test_job_fails_when_the_lease_of_the_last_attempt_expires() -> None:
    world = single_job()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert world.claim(BOB).attempt == attempt
        world.pass_time()
    (job,) = world.jobs("a")
    assert world.ask(ANN) is None
    job = world.job(job)
    assert (job.status, job.attempt) == (J.RETRY_LOOP_FAILED, MAX_ATTEMPTS)
    assert job.completed_at == world.records.now
    assert job.error == "the last holder's lease expired and no attempts are left"
    assert world.step("a").failed == 1
    assert world.events() == ["step_failed"]
    assert world.ask(ANN) == StageFailed("only", ("a",))


def test_run_is_in_progress_if_all_open_jobs_are_held() -> None:
    world = single_job()
    job = world.claim(ANN)
    assert world.ask(BOB) is RunState.IN_PROGRESS
    assert world.job(job).held_by == "ann"


def test_get_next_job_reports_a_failed_stage_if_no_job_is_open() -> None:
    world = make_run(make_stage_run(make_step("a"), make_step("b")))
    for _ in range(3):
        world.fail(world.claim(), retryable=False)
    assert isinstance(world.ask(), JobReady)
    world.fail(world.claim(another=False), retryable=False)
    assert world.ask() == StageFailed("only", ("a", "b"))


def test_get_next_job_reports_awaiting_feedback_after_a_completed_stage() -> None:
    world = make_run(make_dag(make_stage("one"), make_stage("two")))
    world.work()
    assert world.ask() == AwaitingFeedback(("one",))
    world.feedback("one")
    assert isinstance(world.ask(), JobReady)


def test_get_next_job_lists_both_completed_stages_that_await_feedback() -> None:
    ways = [("top", "left"), ("top", "right"), ("left", "end"), ("right", "end")]
    stages = map(make_stage, ("top", "left", "right", "end"))
    world = make_run(make_dag(*stages, transitions=ways))
    world.work()
    world.feedback("top")
    world.work()
    assert world.ask() == AwaitingFeedback(("left", "right"))
    world.feedback("left")
    assert world.ask() == AwaitingFeedback(("right",))


@pytest.mark.parametrize("slug", ["left", "right"])
def test_failed_stage_is_reported_before_stage_awaiting_feedback(slug: str) -> None:
    ways = [("top", "left"), ("top", "right"), ("left", "end"), ("right", "end")]
    stages = map(make_stage, ("top", "left", "right", "end"))
    world = make_run(make_dag(*stages, transitions=ways), ["alpha"])
    world.work()
    world.feedback("top")
    (job,) = world.jobs(f"{slug}-work")
    world.fail(world.claimed(job), retryable=False)
    world.work()
    assert world.ask() == StageFailed(slug, (f"{slug}-work",))


def test_regeneration_job_of_a_completed_run_can_be_claimed() -> None:
    world = single_job()
    world.work()
    new_job = world.regenerate(world.documents("a")[0].id)
    assert world.claim(BOB).id == new_job.id
    assert world.ask(ANN) is RunState.IN_PROGRESS
    world.fail(world.job(new_job), retryable=False)
    assert world.ask() is RunState.COMPLETED
