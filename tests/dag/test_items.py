"""Steps with a job per list item: jobs, inputs, and the errors in definitions."""

import pytest

from dag_builders import make_chain, make_dag, make_input, make_plan_step, make_stage, make_step
from dag_runs import make_stage_run
from waybook.dag.definitions.checks import check_structure
from waybook.dag.expansion.inputs import (
    Document,
    index_documents,
    produced_documents,
    resolve_inputs,
)
from waybook.dag.expansion.units import MAX_ITEMS, ItemList, item_lists, read_items
from waybook.dag.model import Dag, RecipeStep, Strategy
from waybook.errors import InvalidInput, TooLarge
from waybook.json_values import Json

S = Strategy
FIND = make_plan_step("find", outputs=["clauses"])
READ = make_step("read", S.PER_ITEM, inputs=["clauses"])


def test_job_of_an_item_continues_the_lineage_of_the_item() -> None:
    stage = make_stage("s", make_step("read", S.PER_ITEM_AND_MODEL, inputs=["contracts"]))
    units = make_stage_run(stage, ["a", "b"]).units("read")
    assert [(unit.item, unit.model, unit.lineage) for unit in units] == [
        (item, model, f"contracts/{item}") for item in (1, 2, 3) for model in ("a", "b")
    ]


def test_jobs_of_items_are_assigned_to_the_models_in_turn() -> None:
    stage = make_stage("s", make_step("read", S.PER_ITEM, inputs=["contracts"]))
    units = make_stage_run(stage, ["a", "b"]).units("read")
    assert [unit.model for unit in units] == ["a", "b", "a"]


def test_step_with_a_job_per_item_has_as_many_jobs_as_items() -> None:
    by_document = make_step("read", S.PER_SOURCE_DOCUMENT, inputs=["contracts"])
    by_item = make_step("read", S.PER_ITEM, inputs=["contracts"])
    runs = [make_stage_run(make_stage("s", step), ["a", "b"]) for step in (by_document, by_item)]
    assert [len(run.units("read")) for run in runs] == [2, 3]


def test_job_for_an_item_gets_earlier_documents_of_the_same_item_only() -> None:
    steps = [
        make_step("read", S.PER_ITEM_AND_MODEL, inputs=["contracts"]),
        make_step("check", S.PER_ITEM_AND_MODEL, inputs=["contracts", "read"]),
    ]
    stage = make_stage("s", *steps, edges=[("read", "check")])
    run = make_stage_run(stage, ["a", "b"])
    documents = [doc for unit in run.units("read") for doc in run.documents(unit)]
    shelf, made = index_documents(documents), produced_documents(make_dag(stage))
    for unit in run.units("check"):
        item, reading = resolve_inputs(unit, "s", run.graph, shelf, made)
        assert (item.item, item.documents, item.external) == (unit.item, (), False)
        assert [(doc.model, doc.lineage) for doc in reading.documents] == [
            (unit.model, unit.lineage)
        ]


def test_all_to_one_step_receives_documents_of_the_jobs_of_all_items() -> None:
    steps = [
        make_step("read", S.PER_ITEM_AND_MODEL, inputs=["contracts"]),
        make_step("summary", S.ALL_TO_ONE, inputs=["read"]),
    ]
    stage = make_stage("s", *steps, edges=[("read", "summary")])
    run = make_stage_run(stage, ["a", "b"])
    documents: list[Document] = [doc for unit in run.units("read") for doc in run.documents(unit)]
    (unit,) = run.units("summary")
    shelf = index_documents(documents)
    (readings,) = resolve_inputs(unit, "s", run.graph, shelf, produced_documents(make_dag(stage)))
    assert [*readings.documents] == documents


def stage_of(*steps: RecipeStep) -> Dag:
    """Return a DAG with a single stage, whose steps form a chain."""
    edges = make_chain(*(step.key for step in steps))
    return make_dag(make_stage("one", *steps, edges=edges))


@pytest.mark.parametrize(
    ("dag", "expected"),
    [
        (stage_of(make_step("read", S.PER_ITEM)), "its first input must be the list"),
        (stage_of(make_step("read", S.PER_ITEM, inputs=["feedback"])), "is a text"),
        (
            stage_of(FIND, READ._replace(inputs=(make_input("clauses", required=False),))),
            "must be required",
        ),
        (
            stage_of(FIND, make_plan_step("more", outputs=["clauses"]), READ),
            "several steps produce that",
        ),
        (stage_of(make_step("find", S.ALL_TO_ONE, outputs=["clauses"]), READ), "PLAN step"),
        (stage_of(FIND._replace(strategy=S.PER_MODEL), READ), "must be an all_to_one PLAN step"),
        (
            make_dag(
                make_stage(
                    "one",
                    FIND,
                    READ,
                    make_step("each", S.PER_SOURCE_DOCUMENT, inputs=["clauses"]),
                    edges=[("find", "read"), ("find", "each")],
                )
            ),
            "once per model",
        ),
    ],
)
def test_step_with_a_job_per_item_needs_a_valid_list_as_first_input(
    dag: Dag, expected: str
) -> None:
    (error,) = check_structure(dag)[0]
    assert error.name == "item_list"
    assert error.at.startswith("stages[0].recipe.steps[")
    assert expected in error.message


def test_max_items_on_a_step_without_items_is_refused() -> None:
    (error,) = check_structure(stage_of(make_step("read", max_items=3)))[0]
    assert (error.name, error.at) == ("max_items", "stages[0].recipe.steps[0].maxItems")


def test_step_with_a_job_per_item_needs_an_edge_from_the_list_producer() -> None:
    (error,) = check_structure(make_dag(make_stage("one", FIND, READ)))[0]
    assert error.name == "hidden_dependency"


def test_smallest_max_items_applies_to_all_steps_using_the_list() -> None:
    steps = [READ._replace(max_items=9), READ._replace(key="look", max_items=4), READ]
    renamed = [steps[0], steps[1], steps[2]._replace(key="last")]
    lists = item_lists(stage_of(FIND, *renamed))
    assert {item_list.max_items for item_list in lists.values()} == {4}
    assert {item_list.name for item_list in lists.values()} == {"one/clauses"}


CONTRACTS = ItemList("contracts", "contracts", None, 3)


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ([], []),
        (["a", "a"], ["a", "a"]),
        ([1, {"file": "a.pdf"}, ["b"]], [1, {"file": "a.pdf"}, ["b"]]),
        ('["a", 0]', ["a", 0]),
        ('```json\n["a"]\n```', ["a"]),
    ],
)
def test_items_may_be_any_json_values_and_duplicates_are_kept(
    value: Json, items: list[Json]
) -> None:
    assert read_items(value, CONTRACTS) == items


@pytest.mark.parametrize("value", ["text", {"contracts": 1}, None, 3, '{"a": 1}', ["a", " "], [{}]])
def test_value_that_is_no_list_or_has_empty_items_is_refused(value: Json) -> None:
    with pytest.raises(InvalidInput, match="contracts"):
        read_items(value, CONTRACTS)


def test_list_with_more_items_than_allowed_is_refused() -> None:
    with pytest.raises(TooLarge, match="4 items; it may have at most 3"):
        read_items([1, 2, 3, 4], CONTRACTS)
    with pytest.raises(TooLarge, match="1,001 items; it may have at most 1,000"):
        read_items([1] * (MAX_ITEMS + 1), CONTRACTS._replace(max_items=None))
