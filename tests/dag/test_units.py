import pytest
from hypothesis import given
from hypothesis import strategies as st

from dag_builders import make_chain, make_plan_step, make_stage, make_step, models, recipes
from dag_runs import StageRun, make_stage_run, origins_of
from waybook.dag.expansion.inputs import expected_counts
from waybook.dag.expansion.units import NO_MODEL, ProducedDocument, Unit, entry_origins
from waybook.dag.model import Recipe, Stage, Strategy

S = Strategy


def outputs_of(units: tuple[Unit, ...]) -> list[ProducedDocument]:
    return [made for unit in units for made in unit.makes]


def any_stage_run() -> st.SearchStrategy[StageRun]:
    stages = st.builds(Stage, st.just("stage"), st.just("Stage"), recipes())
    return st.builds(make_stage_run, stages, models(), st.builds(entry_origins, models()))


@given(any_stage_run())
def test_jobs_of_a_step_are_numbered_and_assigned_to_models(run: StageRun) -> None:
    for key in run.graph.order:
        units = run.units(key)
        assert [unit.number for unit in units] == list(range(1, len(units) + 1))
        assert {unit.step_key for unit in units} <= {key}
        assert {unit.model for unit in units} <= set(run.models)
        assert {made.model for made in outputs_of(units)} <= set(run.models)


@given(any_stage_run())
def test_jobs_of_a_step_produce_distinct_documents(run: StageRun) -> None:
    for key in run.graph.order:
        made = outputs_of(run.units(key))
        assert len(made) == len(set(made))


@given(any_stage_run())
def test_job_adds_a_document_to_the_lineage_of_the_source_document(run: StageRun) -> None:
    for key in run.graph.order:
        for unit in run.units(key):
            if unit.lineage is not None:
                assert unit.makes == (ProducedDocument(unit.model, unit.lineage, unit.reviewer),)
            if unit.source is not None:
                assert unit.makes == (unit.source,)


def test_plan_job_has_an_output_per_model_if_a_per_document_step_follows() -> None:
    steps = [make_plan_step("p"), make_step("c", S.PER_SOURCE_DOCUMENT)]
    run = make_stage_run(make_stage("s", *steps, edges=[("p", "c")]), ["a", "b"])
    [plan] = run.units("p")
    assert plan.model == "a"
    assert plan.makes == (ProducedDocument("a", "s/p/a"), ProducedDocument("b", "s/p/b"))
    assert [(unit.model, unit.source) for unit in run.units("c")] == [
        ("a", ProducedDocument("a", "s/p/a")),
        ("b", ProducedDocument("b", "s/p/b")),
    ]


def test_pairwise_step_combines_every_lineage_reviewer_and_model() -> None:
    prior = origins_of([ProducedDocument("r", "l/1"), ProducedDocument("q", "l/2")])
    units = make_stage_run(
        make_stage("s", make_step("x", S.PAIRWISE_BY_ORIGIN)), ["m"], prior
    ).units("x")
    assert [(unit.lineage, unit.reviewer, unit.model) for unit in units] == [
        ("l/1", "r", "m"),
        ("l/1", "q", "m"),
        ("l/2", "r", "m"),
        ("l/2", "q", "m"),
    ]


def test_job_on_a_document_of_a_pairwise_step_keeps_the_reviewer() -> None:
    steps = [make_step("x", S.PAIRWISE_BY_ORIGIN), make_step("y", S.PER_SOURCE_DOCUMENT)]
    run = make_stage_run(make_stage("s", *steps, edges=[("x", "y")]))
    pairs = outputs_of(run.units("x"))
    assert [unit.source for unit in run.units("y")] == pairs
    assert [unit.reviewer for unit in run.units("y")] == [pair.reviewer for pair in pairs]


@pytest.mark.parametrize("strategy", [S.PER_SOURCE_DOCUMENT, S.PER_SOURCE_GROUP])
def test_job_goes_to_the_model_that_wrote_the_document(strategy: Strategy) -> None:
    prior = origins_of(
        [
            ProducedDocument("gone", "l/1"),
            ProducedDocument("b", "l/2"),
            ProducedDocument("gone", "l/3"),
        ]
    )
    units = make_stage_run(make_stage("s", make_step("x", strategy)), ["a", "b"], prior).units("x")
    assert [(unit.lineage, unit.model) for unit in units] == [
        ("l/1", "a"),
        ("l/2", "b"),
        ("l/3", "a"),
    ]


def test_10000_chained_steps_continue_the_lineages_of_the_first_step() -> None:
    keys = [f"s{number}" for number in range(10_000)]
    steps = [make_step(key, S.PER_SOURCE_DOCUMENT) for key in keys]
    run = make_stage_run(make_stage("s", *steps, edges=make_chain(*keys)))
    assert [unit.lineage for unit in run.units(keys[-1])] == ["entry/a", "entry/b", "entry/c"]


@given(recipes(), models())
def test_stage_without_models_has_the_expected_numbers_of_jobs(
    recipe: Recipe, before: list[str]
) -> None:
    run = make_stage_run(Stage("stage", "Stage", recipe), [], entry_origins(before))
    counts = expected_counts(run.stage, run.graph, [], run.prior, run.items)
    for key in run.graph.order:
        units = run.units(key)
        assert len(units) == counts.units[key]
        assert len(outputs_of(units)) == counts.outputs[key]
        assert {unit.model for unit in units} <= {NO_MODEL}
    assert counts.leaves == run.leaves()
