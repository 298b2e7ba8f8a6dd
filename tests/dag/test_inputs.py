from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given

from dag_builders import a_chain, a_dag, a_plan_step, a_stage, a_step, an_input
from dag_dialectic import dialectic
from dag_runs import runs, stage_runs
from decisions import decision
from waybook.dag.expansion.inputs import (
    ResolvedInput,
    index_documents,
    produced_documents,
    resolve_inputs,
)
from waybook.dag.expansion.lineage import ProducedDocument
from waybook.dag.expansion.units import Unit
from waybook.dag.model import Dag, RecipeStep, Stage, Strategy

S = Strategy
MODELS = ["a", "b"]


class Desk:
    """A DAG with all documents made, and the inputs of its units."""

    def __init__(self, dag: Dag, models_of: Mapping[str, Sequence[str]] | None = None) -> None:
        """Use two models in each stage unless others are given."""
        self.made = produced_documents(dag)
        self.runs = stage_runs(dag, models_of or {stage.slug: MODELS for stage in dag.stages})
        self.documents = [
            document
            for run in self.runs.values()
            for key in run.graph.order
            for unit in run.units(key)
            for document in run.documents(unit)
        ]
        self.shelf = index_documents(self.documents)

    def units(self, slug: str, key: str) -> tuple[Unit, ...]:
        return self.runs[slug].units(key)

    def given(self, slug: str, unit: Unit) -> tuple[ResolvedInput, ...]:
        return resolve_inputs(unit, slug, self.runs[slug].graph, self.shelf, self.made)


def desk(*steps: RecipeStep, edges: Iterable[tuple[str, str]] = ()) -> Desk:
    return Desk(a_dag(a_stage("s", *steps, edges=list(edges))))


def authors(given: ResolvedInput) -> list[str]:
    return [document.model for document in given.documents]


def lineages(given: ResolvedInput) -> set[str]:
    return {document.lineage for document in given.documents}


def test_what_no_step_makes_comes_from_outside() -> None:
    here = desk(a_step("x", S.ALL_TO_ONE, inputs=["brief", an_input("feedback", "elsewhere")]))
    [unit] = here.units("s", "x")
    assert [(one.external, one.documents, one.is_missing) for one in here.given("s", unit)] == [
        (True, (), False),
        (True, (), False),
    ]


def test_what_is_needed_and_not_there_is_named_as_missing() -> None:
    here = desk(a_step("x", skip=True), a_step("y", inputs=["x"]), edges=[("x", "y")])
    [given] = here.given("s", here.units("s", "y")[0])
    assert given.is_missing
    assert given.input.document_key == "x"


def test_what_is_not_needed_and_not_there_is_left_out() -> None:
    here = desk(a_step("x", skip=True), a_step("y", inputs=[an_input("x", required=False)]))
    assert here.given("s", here.units("s", "y")[0]) == ()


def test_one_for_all_takes_everything() -> None:
    here = desk(a_step("x"), a_step("y", S.ALL_TO_ONE, inputs=["x"]), edges=[("x", "y")])
    [given] = here.given("s", here.units("s", "y")[0])
    assert authors(given) == MODELS


def test_a_model_takes_its_own_documents_of_the_same_stage() -> None:
    here = desk(a_step("x"), a_step("y", inputs=["x"]), edges=[("x", "y")])
    for unit in here.units("s", "y"):
        [given] = here.given("s", unit)
        assert authors(given) == [unit.model]


def test_a_model_takes_all_documents_of_an_earlier_stage() -> None:
    here = Desk(
        a_dag(
            a_stage("one", a_step("x")), a_stage("two", a_step("y", inputs=[an_input("x", "one")]))
        )
    )
    for unit in here.units("two", "y"):
        [given] = here.given("two", unit)
        assert authors(given) == MODELS


def test_a_model_without_documents_of_its_own_takes_all() -> None:
    here = desk(a_step("x", S.ALL_TO_ONE), a_step("y", inputs=["x"]), edges=[("x", "y")])
    for unit in here.units("s", "y"):
        [given] = here.given("s", unit)
        assert authors(given) == ["a"]


@decision("B12")
def test_a_unit_per_source_document_is_given_that_document_alone() -> None:
    steps = [a_plan_step("p"), a_step("c", S.PER_SOURCE_DOCUMENT, inputs=["p"])]
    here = desk(*steps, edges=[("p", "c")])
    for unit in here.units("s", "c"):
        [given] = here.given("s", unit)
        assert [ProducedDocument(doc.model, doc.lineage) for doc in given.documents] == [
            unit.source
        ]


@decision("B12")
def test_the_primary_document_is_that_of_the_predecessor_though_others_make_its_like() -> None:
    maker = a_step("m", S.PER_SOURCE_GROUP, outputs=["text"])
    other = a_step("o", S.PER_SOURCE_GROUP, outputs=["text"])
    follower = a_step("f", S.PER_SOURCE_DOCUMENT, inputs=["text", "text"])
    here = desk(maker, other, follower, edges=[("o", "m"), ("m", "f")])
    for unit in here.units("s", "f"):
        first, second = here.given("s", unit)
        assert [doc.step_key for doc in first.documents] == ["m"]
        assert {doc.step_key for doc in second.documents} == {"m", "o"}


def test_what_follows_a_pair_is_given_the_very_pair() -> None:
    steps = [a_step("x", S.PAIRWISE_BY_ORIGIN), a_step("y", S.PER_SOURCE_DOCUMENT, inputs=["x"])]
    here = desk(*steps, edges=[("x", "y")])
    given = [here.given("s", unit)[0].documents for unit in here.units("s", "y")]
    assert [documents for (documents,) in given] == here.documents[:8]


def test_a_step_that_says_nothing_of_inputs_is_given_what_its_predecessors_make() -> None:
    steps = [a_step("x", outputs=["one", "two"]), a_step("y"), a_step("z", S.ALL_TO_ONE)]
    here = desk(*steps, edges=[("x", "z"), ("y", "z")])
    [unit] = here.units("s", "z")
    told = {one.input.document_key: len(one.documents) for one in here.given("s", unit)}
    assert told == {"one": 2, "two": 2, "y": 2}
    assert here.given("s", here.units("s", "x")[0]) == ()


def test_a_follower_that_says_nothing_of_inputs_is_given_its_source_alone() -> None:
    source = a_step("x", S.PER_SOURCE_DOCUMENT_BY_LINEAGE, outputs=["one", "two"])
    here = desk(source, a_step("y", S.PER_SOURCE_DOCUMENT), edges=a_chain("x", "y"))
    for unit in here.units("s", "y"):
        assert [authors(one) for one in here.given("s", unit)] == [[unit.model], [unit.model]]


def test_a_review_reads_one_proposal_and_a_merger_one_review_of_it() -> None:
    here = Desk(dialectic())
    for unit in here.units("review", "critique"):
        header, *proposals = here.given("review", unit)
        assert authors(header) == [unit.model]
        assert [lineages(one) for one in proposals] == [{unit.lineage}] * 4
        assert [len(one.documents) for one in proposals] == [1] * 4
    for unit in here.units("merge", "pair-case"):
        _, proposal, reviewed = here.given("merge", unit)
        assert lineages(proposal) == lineages(reviewed) == {unit.lineage}
        assert authors(reviewed) == [unit.reviewer]


def all_given(desk: Desk) -> Iterable[tuple[Stage, RecipeStep, Unit, ResolvedInput]]:
    for slug, run in desk.runs.items():
        for key, step in run.graph.steps.items():
            for unit in run.units(key):
                for one in desk.given(slug, unit):
                    yield run.stage, step, unit, one


@given(runs())
def test_any_unit_is_given_of_each_input_what_the_input_names(
    drawn: tuple[Dag, dict[str, list[str]]],
) -> None:
    here = Desk(*drawn)
    for stage, _, _, one in all_given(here):
        asked = (one.input.stage or stage.slug, one.input.document_key)
        assert {(doc.stage, doc.document_key) for doc in one.documents} <= {asked}
        assert one.external == (asked not in here.made)


@decision("B12")
@given(runs())
def test_any_unit_with_a_source_is_given_exactly_that(
    drawn: tuple[Dag, dict[str, list[str]]],
) -> None:
    here = Desk(*drawn)
    for stage, step, unit, one in all_given(here):
        if unit.source is not None and step.inputs and one.input is step.inputs[0]:
            [document] = one.documents
            assert (
                ProducedDocument(document.model, document.lineage, document.reviewer) == unit.source
            )
            maker = here.runs[stage.slug].graph.predecessors[step.key]
            assert document.step_key in maker


@given(runs())
def test_nothing_is_missing_whose_maker_made_anything(
    drawn: tuple[Dag, dict[str, list[str]]],
) -> None:
    here = Desk(*drawn)
    there = {(document.stage, document.document_key) for document in here.documents}
    for stage, _, _, one in all_given(here):
        if one.is_missing:
            assert (one.input.stage or stage.slug, one.input.document_key) not in there


def test_a_unit_reads_only_what_steps_before_it_have_made() -> None:
    here = desk(
        a_step("maker", outputs=["notes"]),
        a_step("beside", outputs=["notes"]),
        a_step("reader", S.ALL_TO_ONE, inputs=["notes"]),
        edges=[("maker", "reader")],
    )
    [unit] = here.units("s", "reader")
    [given] = here.given("s", unit)
    assert {document.step_key for document in given.documents} == {"maker"}
