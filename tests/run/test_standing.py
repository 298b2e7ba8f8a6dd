from dag_builders import a_dag, a_stage
from run_worlds import RunWorld, a_run
from waybook.run.status import RunState, awaiting_feedback, run_state


def two_stages() -> RunWorld:
    return a_run(a_dag(a_stage("one"), a_stage("two")))


def state_of(world: RunWorld) -> RunState:
    return run_state(world.run, world.chart)


def test_a_run_is_in_progress_from_its_start() -> None:
    world = two_stages()
    assert state_of(world) is RunState.IN_PROGRESS
    world.submit(world.claim(), "text")
    assert state_of(world) is RunState.IN_PROGRESS
    assert awaiting_feedback(world.run, world.chart) is None


def test_a_run_is_failed_while_a_step_is_whatever_else_goes_on() -> None:
    world = two_stages()
    world.fail(world.claim(), retryable=False)
    world.claim()
    assert state_of(world) is RunState.FAILED
    world.retry("one")
    assert state_of(world) is RunState.IN_PROGRESS


def test_a_run_waits_for_a_person_between_its_stages() -> None:
    world = two_stages()
    world.work()
    assert state_of(world) is RunState.AWAITING_FEEDBACK
    assert awaiting_feedback(world.run, world.chart) == "one"
    world.feedback("one")
    assert state_of(world) is RunState.IN_PROGRESS


def test_a_run_does_not_wait_for_a_person_while_another_stage_is_worked_on() -> None:
    ways = [("top", "left"), ("top", "right"), ("left", "end"), ("right", "end")]
    stages = map(a_stage, ("top", "left", "right", "end"))
    world = a_run(a_dag(*stages, transitions=ways))
    world.work()
    world.feedback("top")
    world.work("left-work")
    assert state_of(world) is RunState.IN_PROGRESS
    world.work()
    assert awaiting_feedback(world.run, world.chart) == "left"
    world.feedback("left")
    assert awaiting_feedback(world.run, world.chart) == "right"


def test_a_run_is_completed_with_its_last_stage() -> None:
    world = two_stages()
    world.work()
    world.feedback("one")
    world.work()
    assert state_of(world) is RunState.COMPLETED
    assert awaiting_feedback(world.run, world.chart) is None


def test_what_fails_after_the_end_changes_nothing_in_that() -> None:
    world = a_run(a_stage("only"))
    world.work()
    world.regenerate(world.documents("only-work")[0].id)
    world.fail(world.claim(), retryable=False)
    assert state_of(world) is RunState.COMPLETED
