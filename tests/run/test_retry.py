from datetime import timedelta

import pytest

from dag_builders import make_dag, make_input, make_plan_step, make_stage, make_step
from plan_builders import NOON
from run_env import RUN, RunEnv, make_run, make_stage_run
from waybook.dag.model import JobStatus, Strategy
from waybook.errors import InvalidTransition, NotFound
from waybook.run.model import MAX_ATTEMPTS

J = JobStatus
S = Strategy


def two_steps() -> RunEnv:
    return make_run(make_stage_run(make_step("a"), make_step("b"), edges=[("a", "b")]))


def test_retry_resets_every_failed_job_of_a_stage_to_pending() -> None:
    world = two_steps()
    failed = [world.fail(world.claim(), retryable=False) for _ in range(2)]
    assert world.step("a").failed == 2
    world.pass_time(timedelta(minutes=1))
    brought = world.retry("only")
    assert [job.id for job in brought] == [job.id for job in failed]
    for job in brought:
        assert (job.status, job.tries, job.attempt) == (J.PENDING, 0, 1)
        assert (job.held_by, job.held_session, job.completed_at) == (None, None, None)
        assert job.ready_at == world.records.now
        assert job.error == "no luck"
    assert world.step("a").failed == 0
    assert world.events() == ["plan_modified"]
    assert world.details() == [{"action": "retry_failed", "stageSlug": "only", "jobs": 2}]
    world.work()
    assert world.run.completed_at is not None


def test_retried_job_has_the_full_number_of_attempts_again() -> None:
    world = make_run(make_stage_run(make_step("a", S.ALL_TO_ONE)))
    for _ in range(MAX_ATTEMPTS):
        world.fail(world.claim())
        world.pass_time()
    assert world.jobs("a")[0].status is J.RETRY_LOOP_FAILED
    world.retry("only")
    attempts = []
    for _ in range(MAX_ATTEMPTS):
        attempts.append(world.claim().attempt)
        world.fail(world.jobs("a")[0])
        world.pass_time()
    assert attempts == [5, 6, 7, 8]
    assert world.jobs("a")[0].status is J.RETRY_LOOP_FAILED


def test_retry_of_a_step_leaves_other_failed_jobs_unchanged() -> None:
    world = make_run(make_stage_run(make_step("a"), make_step("b")))
    for _ in range(4):
        world.fail(world.claim(), retryable=False)
    assert {job.step_key for job in world.retry("only", "b")} == {"b"}
    assert (world.step("a").failed, world.step("b").failed) == (2, 0)


def test_retry_of_a_stage_without_failed_jobs_changes_nothing() -> None:
    world = two_steps()
    assert world.retry("only") == ()
    assert world.events() == []


def test_retry_of_an_unknown_stage_is_refused() -> None:
    with pytest.raises(NotFound, match="no stage 'other'; it has only"):
        two_steps().retry("other")


def test_retry_of_an_unknown_step_is_refused() -> None:
    with pytest.raises(NotFound, match="the stage 'only' has no step 'c'") as refusal:
        two_steps().retry("only", "c")
    assert refusal.value.details == {"stepKey": "c", "steps": ["a", "b"]}


def test_retry_of_an_unstarted_stage_returns_no_jobs() -> None:
    world = make_run(make_dag(make_stage("one"), make_stage("two")))
    assert world.retry("two") == ()


def test_retry_of_a_failed_regeneration_leaves_step_counts_unchanged() -> None:
    world = make_run(make_stage_run(make_step("a", S.ALL_TO_ONE)))
    world.work()
    world.regenerate(world.documents("a")[0].id)
    world.fail(world.claim(), retryable=False)
    assert len(world.retry("only")) == 1
    world.submit(world.claim(), "new")
    assert [(document.version, document.content) for document in world.documents("a")] == [
        (1, "text"),
        (2, "new"),
    ]
    assert (world.step("a").done, world.step("a").failed) == (1, 0)


def test_regenerating_document_of_open_step_lowers_number_of_done_jobs() -> None:
    world = two_steps()
    world.submit(world.claim(), "old")
    fresh = world.regenerate(world.documents("a")[0].id)
    assert fresh.counted
    assert world.step("a").done == 0
    world.submit(world.claimed(fresh), "new")
    assert (world.step("a").done, world.step("a").closed_at) == (1, None)
    world.work()
    assert world.run.completed_at == NOON


def test_step_stays_open_until_the_regenerated_document_is_submitted() -> None:
    world = two_steps()
    world.submit(world.claim(), "old")
    fresh = world.regenerate(world.documents("a")[0].id)
    other = next(job for job in world.jobs("a") if job.status is J.PENDING and job != fresh)
    world.submit(world.claimed(other), "text")
    assert world.step("a").closed_at is None
    assert world.reached() == ["a"]
    world.submit(world.claimed(fresh), "new")
    assert world.step("a").closed_at == NOON


def test_regeneration_rewrites_all_documents_of_the_job() -> None:
    plan = make_plan_step("plan", outputs=["goals", "means"])
    work = make_step("work", S.PER_SOURCE_DOCUMENT, inputs=[make_input("goals")])
    world = make_run(make_stage_run(plan, work, edges=[("plan", "work")]))
    world.work("plan")
    world.regenerate(world.documents("plan")[3].id)
    world.work("plan", text="new")
    assert [document.version for document in world.documents("plan")] == [1, 1, 1, 1, 2, 2, 2, 2]


def test_document_regenerated_in_parts_contains_only_new_text() -> None:
    world = two_steps()
    world.submit(world.claim(), "Old, ", continues=True)
    world.work("a", text="older.")
    document = next(
        candidate for candidate in world.documents("a") if candidate.content == "Old, older."
    )
    fresh = world.regenerate(document.id)
    assert (fresh.part, fresh.continues) == (1, None)
    world.submit(world.claimed(fresh), "New, ", continues=True)
    following = world.jobs("a")[-1]
    assert (following.document, following.counted) == (document.id, False)
    world.submit(world.claimed(following), "newer.")
    newest = world.records.latest(document.id)
    assert (newest.version, newest.content) == (2, "New, newer.")


@pytest.mark.parametrize("units", [1, 2])
def test_document_cannot_be_regenerated_while_regeneration_is_open(units: int) -> None:
    world = two_steps()
    for _ in range(units):
        world.submit(world.claim(), "text")
    document = world.documents("a")[0]
    world.regenerate(document.id)
    with pytest.raises(InvalidTransition, match="is superseded; only a completed one") as refusal:
        world.regenerate(document.id)
    assert refusal.value.details == {"from": "superseded", "to": "superseded"}
    assert refusal.value.next_call is not None
    assert refusal.value.next_call.tool == "get_run_progress"
    assert refusal.value.next_call.args == {"runId": RUN}


def test_regenerating_a_document_writes_an_audit_entry() -> None:
    world = two_steps()
    world.work()
    document = world.documents("b")[0]
    fresh = world.regenerate(document.id)
    assert world.decision is not None
    (entry,) = world.decision.entries
    assert entry.event == "plan_modified"
    assert entry.details == {
        "action": "regenerate",
        "jobId": document.job_id,
        "newJobId": fresh.id,
        "documentId": document.id,
    }
    assert world.run.completed_at == NOON
