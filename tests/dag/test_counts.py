import pytest
from hypothesis import given

from dag_builders import (
    make_chain,
    make_dag,
    make_input,
    make_output,
    make_plan_step,
    make_stage,
    make_step,
    models,
    recipes,
)
from dag_dialectic import dialectic
from dag_runs import StageRun, dag_counts, graphs_of, make_stage_run, origins_of, runs, stage_runs
from waybook.dag.expansion.inputs import StageCounts, documents_expected, expected_counts
from waybook.dag.expansion.units import Origins, ProducedDocument, entry_origins, fans_out
from waybook.dag.graph import primary_source
from waybook.dag.model import Dag, JobType, Recipe, RecipeStep, Stage, Strategy

S = Strategy


def counts_of(run: StageRun) -> StageCounts:
    return expected_counts(run.stage, run.graph, run.models, run.prior, run.items)


def dialectic_counts(n: int) -> dict[str, StageCounts]:
    dag, names = dialectic(), [f"m{number}" for number in range(n)]
    return dict(dag_counts(dag, graphs_of(dag), {stage.slug: names for stage in dag.stages}))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_job_totals_of_dialectic_workflow_depend_on_number_of_models(n: int) -> None:
    totals = [counts.total for counts in dialectic_counts(n).values()]
    assert totals == [4 * n + 1, 7 * n**2, 4 * n**3 + 4 * n + 5, 3 * n + 1, 3 * n + 1]


def test_next_stage_gets_a_document_lineage_of_several_models_only_once() -> None:
    review = dialectic_counts(3)["review"]
    assert review.outputs["critique"] == 9
    assert tuple(review.leaves.lineages) == tuple(f"propose/header/m{n}" for n in range(3))
    assert review.leaves.authors == ("m0", "m1", "m2")


def test_each_last_step_of_merge_stage_starts_a_document_lineage() -> None:
    merge = dialectic_counts(3)["merge"]
    assert tuple(merge.leaves.lineages) == (
        "merge/requirements",
        "merge/architecture",
        "merge/stack",
    )
    assert merge.leaves.authors == ("m0",)


def documented_counts(run: StageRun, step: RecipeStep) -> tuple[int, int]:
    """Return the number of jobs and of outputs of a step, according to the documentation."""
    n, lineages, reviewers = len(run.models), len(run.prior.lineages), len(run.prior.authors)
    if step.skip:
        return 0, 0
    source = primary_source(step, run.stage.slug, run.graph)
    if source is not None:
        outputs = documented_counts(run, run.graph.steps[source])[1]
        return outputs, outputs
    if step.strategy is S.ALL_TO_ONE:
        return 1, n if fans_out(step, run.graph) else 1
    count = {
        S.PER_MODEL: n,
        S.PER_SOURCE_DOCUMENT: lineages,
        S.PER_SOURCE_DOCUMENT_BY_LINEAGE: n * lineages,
        S.PAIRWISE_BY_ORIGIN: lineages * reviewers * n,
        S.PER_SOURCE_GROUP: lineages,
        S.PER_ITEM: 3,
        S.PER_ITEM_AND_MODEL: 3 * n,
    }[step.strategy]
    return count, count


@given(recipes(), models(), models())
def test_job_and_output_counts_of_any_stage_are_as_documented(
    recipe: Recipe, now: list[str], before: list[str]
) -> None:
    run = make_stage_run(Stage("stage", "Stage", recipe), now, entry_origins(before))
    counts = counts_of(run)
    counts_by_step = {key: (counts.units[key], counts.outputs[key]) for key in run.graph.order}
    assert counts_by_step == {
        key: documented_counts(run, run.graph.steps[key]) for key in run.graph.order
    }
    assert counts.total == sum(units for units, _ in counts_by_step.values())


@given(runs())
def test_expected_counts_of_any_workflow_equal_the_created_jobs(
    drawn: tuple[Dag, dict[str, list[str]]],
) -> None:
    dag, models_of = drawn
    counts = dag_counts(dag, graphs_of(dag), models_of)
    assert list(counts) == [stage.slug for stage in dag.stages]
    for slug, run in stage_runs(dag, models_of).items():
        assert counts[slug] == counts_of(run)
        for key in run.graph.order:
            units = run.units(key)
            assert len(units) == counts[slug].units[key]
            assert sum(len(unit.makes) for unit in units) == counts[slug].outputs[key]
        assert counts[slug].leaves == run.leaves()


def test_stage_with_only_skipped_steps_gives_next_stage_no_documents() -> None:
    dag = make_dag(
        make_stage("one", make_step("a", skip=True)),
        make_stage("two", make_step("b", S.PER_SOURCE_GROUP), make_step("c", S.PER_MODEL)),
    )
    counts = dag_counts(dag, graphs_of(dag), {"one": ["m"], "two": ["m"]})
    assert counts["one"].leaves == Origins(first_author={}, authors=())
    assert counts["two"].units == {"b": 0, "c": 1}


def test_stage_receives_documents_of_all_preceding_stages() -> None:
    group = make_step("d", S.PER_SOURCE_GROUP)
    dag = make_dag(
        make_stage("end", group),
        make_stage("start"),
        make_stage("right", make_step("r", S.PER_MODEL)),
        make_stage("left", make_step("l", S.ALL_TO_ONE)),
        transitions=[("left", "end"), ("right", "end"), ("start", "left"), ("start", "right")],
    )
    models_of = {"start": ["m"], "left": ["m"], "right": ["m", "k"], "end": ["k"]}
    counts = dag_counts(dag, graphs_of(dag), models_of)
    assert counts["end"].units == {"d": 3}
    assert tuple(counts["end"].leaves.lineages) == ("right/r/m", "right/r/k", "left/l")


@pytest.mark.parametrize("strategy", [S.PAIRWISE_BY_ORIGIN, S.PER_MODEL])
def test_job_total_of_10000_steps_and_100_models_is_exact(strategy: Strategy) -> None:
    keys = [f"s{number}" for number in range(10_000)]
    followers = [make_step(key, S.PER_SOURCE_DOCUMENT) for key in keys[1:5_000]]
    others = [make_step(key, strategy) for key in keys[5_000:]]
    edges = [*make_chain(*keys[:5_000]), *[(keys[0], key) for key in keys[5_000:]]]
    stage = make_stage("s", make_plan_step(keys[0]), *followers, *others, edges=edges)
    names = [f"m{number}" for number in range(100)]
    counts = counts_of(make_stage_run(stage, names))
    each = 100**3 if strategy is S.PAIRWISE_BY_ORIGIN else 100
    assert counts.total == 1 + 4_999 * 100 + 5_000 * each


def test_next_stage_gets_each_lineage_once_from_10000_steps() -> None:
    prior = origins_of(ProducedDocument("x", f"l/{number}") for number in range(10_000))
    steps = [make_step(f"s{number}", S.PER_SOURCE_GROUP) for number in range(10_000)]
    counts = counts_of(make_stage_run(make_stage("s", *steps), ["x"], prior))
    assert counts.total == 100_000_000
    assert counts.leaves.lineages == prior.lineages


def test_only_distinct_outputs_with_templates_are_expected_documents() -> None:
    text = make_output("text", "# {{ body }}")
    both = [text, text, make_output("data")]
    stage = make_stage("s", make_step("a", outputs=both), make_step("b"), make_plan_step("c"))
    assert documents_expected(stage, counts_of(make_stage_run(stage))) == 3


def test_outputs_of_execute_jobs_are_documents_if_no_output_has_template() -> None:
    twice = [make_output("text"), make_output("text"), make_output("data")]
    stage = make_stage(
        "s", make_step("a", outputs=twice), make_step("b", skip=True), make_plan_step("c")
    )
    assert documents_expected(stage, counts_of(make_stage_run(stage))) == 2 * 3


def test_output_of_plan_job_with_template_is_an_expected_document() -> None:
    plan = make_plan_step("p", outputs=[make_output("plan", "# Plan")])
    child = make_step("c", S.PER_SOURCE_DOCUMENT, inputs=[make_input("plan")])
    stage = make_stage("s", plan, child, edges=[("p", "c")])
    assert plan.job_type is JobType.PLAN
    assert documents_expected(stage, counts_of(make_stage_run(stage))) == 3
