import pytest

from dag_builders import make_chain, make_dag, make_input, make_plan_step, make_stage, make_step
from dag_dialectic import dialectic
from plan_builders import NOON
from run_env import MODELS, make_run, make_stage_run
from run_invariants import check_end
from waybook.dag.model import JobType, Stage, Strategy
from waybook.errors import TooLarge
from waybook.run import stages
from waybook.run.model import MAX_STEPS

S = Strategy


def make_fork() -> Stage:
    """Return a stage with a PLAN step, two parallel steps after it, and a step after both."""
    left, right = (make_step(key, S.PER_SOURCE_DOCUMENT) for key in ("left", "right"))
    ends = make_step("end", S.ALL_TO_ONE, inputs=["left", "right"])
    edges = [*make_chain("plan", "left", "end"), *make_chain("plan", "right", "end")]
    return make_stage_run(make_plan_step("plan"), left, right, ends, edges=edges)


def test_starting_a_stage_creates_the_jobs_of_steps_without_predecessors() -> None:
    world = make_run(
        make_stage_run(
            make_step("a"), make_step("b", S.ALL_TO_ONE), make_step("c"), edges=[("a", "c")]
        )
    )
    assert world.reached() == ["a", "b"]
    assert [job.model for job in world.jobs("a")] == list(MODELS)
    assert [job.model for job in world.jobs("b")] == ["alpha"]
    assert world.step("a").total == 2
    assert world.step("a").opened_at == NOON


def test_job_has_stage_step_type_and_model_of_the_step() -> None:
    world = make_run(make_fork())
    (job,) = world.jobs("plan")
    assert (job.stage, job.step_key, job.job_type, job.model) == ("only", "plan", "PLAN", "alpha")
    assert job.unit is not None
    assert [made.model for made in job.unit.makes] == list(MODELS)
    assert (job.part, job.counted, job.document, job.continues) == (1, True, None, None)


def test_last_job_of_step_closes_step_and_opens_successors() -> None:
    world = make_run(make_fork())
    world.work("plan")
    assert world.step("plan").closed_at == NOON
    assert world.reached() == ["plan", "left", "right"]
    assert [len(world.jobs(key)) for key in ("left", "right")] == [2, 2]


def test_step_with_two_predecessors_opens_after_both_close() -> None:
    world = make_run(make_fork())
    world.work("plan", "left")
    assert "end" not in world.reached()
    world.work("right")
    assert "end" in world.reached()


def test_parallel_paths_of_steps_in_a_stage_advance_independently() -> None:
    steps = [make_step(key) for key in ("a", "b", "x", "y")]
    world = make_run(make_stage_run(*steps, edges=[("a", "b"), ("x", "y")]))
    world.work("a")
    assert world.reached() == ["a", "x", "b"]


def test_skipped_step_opens_the_successors_when_the_predecessor_closes() -> None:
    steps = [make_step("a"), make_step("b", skip=True), make_step("c", skip=True), make_step("d")]
    world = make_run(make_stage_run(*steps, edges=make_chain("a", "b", "c", "d")))
    assert world.reached() == ["a"]
    world.work("a")
    assert world.reached() == ["a", "b", "c", "d"]
    assert world.step("b").closed_at == world.step("c").closed_at == NOON
    assert world.step("b").total == 0


def test_step_without_any_jobs_closes_immediately() -> None:
    nothing = make_stage("one", make_step("rest", skip=True))
    group = make_step("group", S.PER_SOURCE_GROUP)
    world = make_run(
        make_dag(nothing, make_stage("two", group, make_step("end"), edges=[("group", "end")]))
    )
    world.feedback("one")
    assert world.step("group").total == 0
    assert world.step("group").closed_at == NOON
    assert len(world.jobs("end")) == 2


def test_last_step_completes_stage_and_last_stage_completes_run() -> None:
    world = make_run(make_dag(make_stage("one"), make_stage("two")))
    world.work()
    assert world.stage("one").completed_at == NOON
    assert world.run.completed_at is None
    world.feedback("one")
    world.work()
    assert world.stage("two").completed_at == world.run.completed_at == NOON


def test_jobs_of_a_pairwise_step_use_documents_of_the_previous_stage() -> None:
    review = make_step("review", S.PAIRWISE_BY_ORIGIN, inputs=[make_input("one-work", "one")])
    world = make_run(make_dag(make_stage("one"), make_stage("two", review)))
    world.work()
    world.feedback("one", models=["alpha", "beta", "gamma"])
    assert tuple(world.stage("two").prior.lineages) == ("one/one-work/alpha", "one/one-work/beta")
    assert world.step("review").total == 2 * 2 * 3
    units = [job.unit for job in world.jobs("review")]
    assert {(unit.lineage, unit.reviewer, unit.model) for unit in units if unit} == {
        (f"one/one-work/{author}", reviewer, model)
        for author in MODELS
        for reviewer in MODELS
        for model in ("alpha", "beta", "gamma")
    }


def test_dialectic_workflow_with_three_models_creates_221_claimable_jobs() -> None:
    world = make_run(dialectic(), ["alpha", "beta", "gamma"])
    made = []
    for slug in world.chart.order:
        world.work()
        jobs = [job for job in world.records.jobs.values() if job.job_type is not JobType.RENDER]
        made.append(sum(job.stage == slug for job in jobs))
        world.feedback(slug)
    assert made == [13, 63, 125, 10, 10]
    world.render(most=1_000)
    check_end(world.records, world.changes)


def test_stage_with_too_many_steps_is_refused() -> None:
    steps = [make_step(f"s{number}", S.ALL_TO_ONE) for number in range(MAX_STEPS + 1)]
    assert len(make_run(make_stage_run(*steps[:-1])).run.steps) == MAX_STEPS
    with pytest.raises(TooLarge, match="has 501 steps; a stage may have at most 500") as refusal:
        make_run(make_stage_run(*steps))
    assert refusal.value.details == {"limit": MAX_STEPS, "stageSlug": "only"}


def test_stage_with_too_many_jobs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_JOBS", 4)
    both = make_stage_run(make_step("a"), make_step("b"), edges=[("a", "b")])
    assert make_run(both, ["x", "y"]).run.steps
    with pytest.raises(TooLarge, match="would have 6 jobs with these 3 models") as refusal:
        make_run(both, ["x", "y", "z"])
    assert refusal.value.details == {"limit": 4}
