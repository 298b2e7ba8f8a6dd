import pytest
from hypothesis import given

from dag_builders import make_plan_step, make_stage, make_step, models
from dag_runs import make_stage_run, origins_of
from decision_proofs import decision
from waybook.dag.expansion.units import (
    GRANULARITY,
    NO_MODEL,
    Axis,
    Descent,
    ProducedDocument,
    Worker,
    entry_origins,
    fans_out,
    first_of,
    lineage_owners,
    unit_count,
)
from waybook.dag.model import RecipeStep, Strategy

S = Strategy
#: Origins that earlier documents pass on: five lineages of documents, by two authors.
PRIOR = origins_of(
    [*[ProducedDocument("x", f"l/{number}") for number in range(4)], ProducedDocument("y", "l/4")]
)


def test_every_strategy_has_a_rule_for_the_number_of_jobs() -> None:
    assert set(GRANULARITY) == set(Strategy)


@pytest.mark.parametrize(
    ("strategy", "count"),
    [
        (S.ALL_TO_ONE, 1),
        (S.PER_MODEL, 3),
        (S.PER_SOURCE_DOCUMENT, 5),
        (S.PER_SOURCE_DOCUMENT_BY_LINEAGE, 3 * 5),
        (S.PAIRWISE_BY_ORIGIN, 5 * 2 * 3),
        (S.PER_SOURCE_GROUP, 5),
        (S.PER_ITEM, 5),
        (S.PER_ITEM_AND_MODEL, 5 * 3),
    ],
)
def test_number_of_jobs_of_a_step_depends_on_the_strategy(strategy: Strategy, count: int) -> None:
    assert unit_count(strategy, ["a", "b", "c"], PRIOR) == count


def test_fields_of_every_strategy_are_consistent() -> None:
    for row in GRANULARITY.values():
        assert (row.descent is Descent.INHERITED) == (Axis.LINEAGE in row.axes)
        assert (row.worker is Worker.EACH) == (Axis.MODEL in row.axes)


@decision("B13")
@pytest.mark.parametrize(
    ("step", "child", "fans"),
    [
        (make_plan_step("p"), make_step("c", S.PER_SOURCE_DOCUMENT), True),
        (make_plan_step("p"), make_step("c", S.PER_MODEL), False),
        (make_step("p", S.ALL_TO_ONE), make_step("c", S.PER_SOURCE_DOCUMENT), False),
        (make_plan_step("p", S.PER_MODEL), make_step("c", S.PER_SOURCE_DOCUMENT), False),
    ],
)
def test_only_plan_jobs_before_per_document_steps_have_several_documents(
    step: RecipeStep, child: RecipeStep, *, fans: bool
) -> None:
    run = make_stage_run(make_stage("s", step, child, edges=[("p", "c")]))
    assert fans_out(step, run.graph) == fans


@decision("B13")
def test_indirect_per_document_step_does_not_add_plan_outputs() -> None:
    steps = [make_plan_step("p"), make_step("c"), make_step("d", S.PER_SOURCE_DOCUMENT)]
    run = make_stage_run(make_stage("s", *steps, edges=[("p", "c"), ("c", "d")]))
    assert not fans_out(steps[0], run.graph)


def test_lineages_of_removed_models_are_divided_among_current_models() -> None:
    assert lineage_owners(["y", "z"], PRIOR) == {
        "l/0": "y",
        "l/1": "z",
        "l/2": "y",
        "l/3": "z",
        "l/4": "y",
    }


@given(models(), models())
def test_every_lineage_is_assigned_to_a_current_model(now: list[str], before: list[str]) -> None:
    prior = entry_origins(before)
    owners = lineage_owners(now, prior)
    assert tuple(owners) == prior.lineages
    assert set(owners.values()) <= set(now)
    stayed = {lineage: author for lineage, author in prior.first_author.items() if author in now}
    assert stayed.items() <= owners.items()


def test_document_lineages_have_no_model_in_stage_without_models() -> None:
    assert first_of([]) == NO_MODEL
    assert set(lineage_owners([], PRIOR).values()) == {NO_MODEL}
