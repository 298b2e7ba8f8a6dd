from dag_builders import make_dag, make_output, make_stage, make_step
from plan_builders import NOON
from run_env import make_run
from waybook.dag.progress.report import AvailableDocument
from waybook.dag.progress.structure import Evidence
from waybook.run.status import run_evidence

TIME = NOON.isoformat()


def test_progress_data_of_a_run_omits_unstarted_stages() -> None:
    world = make_run(make_dag(make_stage("one"), make_stage("two")))
    assert list(run_evidence(world.run)) == ["one"]
    assert world.report is not None
    assert world.report["stages"][1]["progress"] == {
        "completedSteps": 0,
        "totalSteps": 0,
        "failedSteps": 0,
    }


def test_progress_data_of_a_run_includes_only_opened_steps() -> None:
    steps = [make_step("a"), make_step("b"), make_step("c"), make_step("d")]
    world = make_run(make_dag(make_stage("one", *steps, edges=[("a", "c"), ("c", "d")])))
    world.work("a")
    world.fail(world.claimed(world.jobs("b")[0]), retryable=False)
    world.submit(world.claimed(world.jobs("b")[1]), "text")
    (evidence,) = run_evidence(world.run).values()
    assert evidence.steps == {
        "a": Evidence(closed=True, done=2, started_at=TIME, completed_at=TIME),
        "b": Evidence(done=1, failed=1, started_at=TIME),
        "c": Evidence(active=2, started_at=TIME),
    }
    assert evidence.models == ("alpha", "beta")


def test_progress_data_of_a_run_groups_documents_by_stage() -> None:
    stages = [
        make_stage(slug, make_step(slug, outputs=[make_output("t", "# T")])) for slug in ("x", "y")
    ]
    world = make_run(make_dag(*stages), ["alpha"])
    world.work()
    world.feedback("x")
    document, other = AvailableDocument("t", "alpha", "1"), AvailableDocument("t", "alpha", "2")
    evidence = run_evidence(world.run, [("y", document), ("x", other)])
    assert {slug: stage.documents for slug, stage in evidence.items()} == {
        "x": (other,),
        "y": (document,),
    }
