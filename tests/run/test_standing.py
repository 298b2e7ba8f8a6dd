from dag_builders import make_dag, make_stage
from run_env import RunEnv, make_run
from waybook.dag.model import RunState
from waybook.run.status import awaiting_feedback, run_state


def two_stages() -> RunEnv:
    return make_run(make_dag(make_stage("one"), make_stage("two")))


def state_of(world: RunEnv) -> RunState:
    return run_state(world.run, world.chart)


def test_run_state_after_start_is_in_progress() -> None:
    world = two_stages()
    assert state_of(world) is RunState.IN_PROGRESS
    world.submit(world.claim(), "text")
    assert state_of(world) is RunState.IN_PROGRESS
    assert awaiting_feedback(world.run, world.chart) is None


def test_run_state_with_failed_step_is_failed_until_retry() -> None:
    world = two_stages()
    world.fail(world.claim(), retryable=False)
    world.claim()
    assert state_of(world) is RunState.FAILED
    world.retry("one")
    assert state_of(world) is RunState.IN_PROGRESS


def test_run_state_between_stages_is_awaiting_feedback() -> None:
    world = two_stages()
    world.work()
    assert state_of(world) is RunState.AWAITING_FEEDBACK
    assert awaiting_feedback(world.run, world.chart) == "one"
    world.feedback("one")
    assert state_of(world) is RunState.IN_PROGRESS


def test_run_with_stage_in_progress_is_not_awaiting_feedback() -> None:
    ways = [("top", "left"), ("top", "right"), ("left", "end"), ("right", "end")]
    stages = map(make_stage, ("top", "left", "right", "end"))
    world = make_run(make_dag(*stages, transitions=ways))
    world.work()
    world.feedback("top")
    world.work("left-work")
    assert state_of(world) is RunState.IN_PROGRESS
    world.work()
    assert awaiting_feedback(world.run, world.chart) == "left"
    world.feedback("left")
    assert awaiting_feedback(world.run, world.chart) == "right"


def test_run_is_completed_after_the_last_stage() -> None:
    world = two_stages()
    world.work()
    world.feedback("one")
    world.work()
    assert state_of(world) is RunState.COMPLETED
    assert awaiting_feedback(world.run, world.chart) is None


def test_completed_run_stays_completed_when_a_regeneration_fails() -> None:
    world = make_run(make_stage("only"))
    world.work()
    world.regenerate(world.documents("only-work")[0].id)
    world.fail(world.claim(), retryable=False)
    assert state_of(world) is RunState.COMPLETED
