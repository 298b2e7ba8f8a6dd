from dag_builders import a_dag, a_stage, a_step, an_output
from decisions import decision
from plan_builders import NOON
from run_worlds import a_run
from waybook.dag.progress.documents import AvailableDocument
from waybook.dag.progress.overlay import Evidence
from waybook.run.status import run_evidence

TIME = NOON.isoformat()


@decision("B14")
def test_a_stage_that_has_not_been_started_is_not_told() -> None:
    world = a_run(a_dag(a_stage("one"), a_stage("two")))
    assert list(run_evidence(world.run)) == ["one"]
    assert world.report is not None
    assert world.report["stages"][1]["progress"] == {
        "completedSteps": 0,
        "totalSteps": 0,
        "failedSteps": 0,
    }


def test_a_step_is_told_by_its_counters_and_one_not_reached_not_at_all() -> None:
    steps = [a_step("a"), a_step("b"), a_step("c"), a_step("d")]
    world = a_run(a_dag(a_stage("one", *steps, edges=[("a", "c"), ("c", "d")])))
    world.work("a")
    world.fail(world.claimed(world.jobs("b")[0]), retryable=False)
    world.submit(world.claimed(world.jobs("b")[1]), "text")
    (told,) = run_evidence(world.run).values()
    assert told.steps == {
        "a": Evidence(closed=True, done=2, started_at=TIME, completed_at=TIME),
        "b": Evidence(done=1, failed=1, started_at=TIME),
        "c": Evidence(active=2, started_at=TIME),
    }
    assert told.models == ("alpha", "beta")


def test_documents_are_told_with_their_stage() -> None:
    stages = [a_stage(slug, a_step(slug, outputs=[an_output("t", "# T")])) for slug in ("x", "y")]
    world = a_run(a_dag(*stages), ["alpha"])
    world.work()
    world.feedback("x")
    one, other = AvailableDocument("t", "alpha", "1"), AvailableDocument("t", "alpha", "2")
    told = run_evidence(world.run, [("y", one), ("x", other)])
    assert {slug: stage.documents for slug, stage in told.items()} == {"x": (other,), "y": (one,)}
