from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given

from dag_builders import make_dag, make_input, make_stage, make_step
from dag_dialectic import dialectic
from dag_runs import runs, stage_runs
from waybook.dag.expansion.inputs import (
    ResolvedInput,
    index_documents,
    produced_documents,
    resolve_inputs,
)
from waybook.dag.expansion.units import ProducedDocument, Unit
from waybook.dag.model import Dag, RecipeStep, Stage, Strategy

S = Strategy
MODELS = ["a", "b"]


class ResolvedDag:
    """Documents that the stages of a workflow produce, and the inputs of all jobs."""

    def __init__(self, dag: Dag, models_of: Mapping[str, Sequence[str]] | None = None) -> None:
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

    def inputs_of(self, slug: str, unit: Unit) -> tuple[ResolvedInput, ...]:
        return resolve_inputs(unit, slug, self.runs[slug].graph, self.shelf, self.made)


def make_resolved_dag(*steps: RecipeStep, edges: Iterable[tuple[str, str]] = ()) -> ResolvedDag:
    return ResolvedDag(make_dag(make_stage("s", *steps, edges=list(edges))))


def authors(resolved_input: ResolvedInput) -> list[str]:
    return [document.model for document in resolved_input.documents]


def lineages(resolved_input: ResolvedInput) -> set[str]:
    return {document.lineage for document in resolved_input.documents}


def test_input_that_no_step_produces_is_external_and_not_missing() -> None:
    here = make_resolved_dag(
        make_step("x", S.ALL_TO_ONE, inputs=["brief", make_input("feedback", "elsewhere")])
    )
    [unit] = here.units("s", "x")
    assert [
        (resolved_input.external, resolved_input.documents, resolved_input.is_missing)
        for resolved_input in here.inputs_of("s", unit)
    ] == [(True, (), False), (True, (), False)]


def test_required_input_without_document_is_missing() -> None:
    here = make_resolved_dag(
        make_step("x", skip=True), make_step("y", inputs=["x"]), edges=[("x", "y")]
    )
    [resolved_input] = here.inputs_of("s", here.units("s", "y")[0])
    assert resolved_input.is_missing
    assert resolved_input.input.document_key == "x"


def test_per_model_job_receives_documents_of_same_model_and_stage() -> None:
    here = make_resolved_dag(make_step("x"), make_step("y", inputs=["x"]), edges=[("x", "y")])
    for unit in here.units("s", "y"):
        [resolved_input] = here.inputs_of("s", unit)
        assert authors(resolved_input) == [unit.model]


def test_per_model_job_receives_all_documents_of_an_earlier_stage() -> None:
    here = ResolvedDag(
        make_dag(
            make_stage("one", make_step("x")),
            make_stage("two", make_step("y", inputs=[make_input("x", "one")])),
        )
    )
    for unit in here.units("two", "y"):
        [resolved_input] = here.inputs_of("two", unit)
        assert authors(resolved_input) == MODELS


def test_model_without_own_documents_receives_documents_of_all_models() -> None:
    here = make_resolved_dag(
        make_step("x", S.ALL_TO_ONE), make_step("y", inputs=["x"]), edges=[("x", "y")]
    )
    for unit in here.units("s", "y"):
        [resolved_input] = here.inputs_of("s", unit)
        assert authors(resolved_input) == ["a"]


def test_first_input_of_per_document_job_comes_only_from_predecessor() -> None:
    maker = make_step("m", S.PER_SOURCE_GROUP, outputs=["text"])
    other = make_step("o", S.PER_SOURCE_GROUP, outputs=["text"])
    follower = make_step("f", S.PER_SOURCE_DOCUMENT, inputs=["text", "text"])
    here = make_resolved_dag(maker, other, follower, edges=[("o", "m"), ("m", "f")])
    for unit in here.units("s", "f"):
        first, second = here.inputs_of("s", unit)
        assert [doc.step_key for doc in first.documents] == ["m"]
        assert {doc.step_key for doc in second.documents} == {"m", "o"}


def test_step_without_declared_inputs_receives_outputs_of_predecessors() -> None:
    steps = [make_step("x", outputs=["one", "two"]), make_step("y"), make_step("z", S.ALL_TO_ONE)]
    here = make_resolved_dag(*steps, edges=[("x", "z"), ("y", "z")])
    [unit] = here.units("s", "z")
    document_counts = {
        resolved_input.input.document_key: len(resolved_input.documents)
        for resolved_input in here.inputs_of("s", unit)
    }
    assert document_counts == {"one": 2, "two": 2, "y": 2}
    assert here.inputs_of("s", here.units("s", "x")[0]) == ()


def test_jobs_of_stages_review_and_merge_get_documents_of_one_lineage() -> None:
    here = ResolvedDag(dialectic())
    for unit in here.units("review", "critique"):
        header, *proposals = here.inputs_of("review", unit)
        assert authors(header) == [unit.model]
        assert [lineages(resolved_input) for resolved_input in proposals] == [{unit.lineage}] * 4
        assert [len(resolved_input.documents) for resolved_input in proposals] == [1] * 4
    for unit in here.units("merge", "pair-case"):
        _, proposal, reviewed = here.inputs_of("merge", unit)
        assert lineages(proposal) == lineages(reviewed) == {unit.lineage}
        assert authors(reviewed) == [unit.reviewer]


def all_inputs(
    page_context: ResolvedDag,
) -> Iterable[tuple[Stage, RecipeStep, Unit, ResolvedInput]]:
    for slug, run in page_context.runs.items():
        for key, step in run.graph.steps.items():
            for unit in run.units(key):
                for resolved_input in page_context.inputs_of(slug, unit):
                    yield run.stage, step, unit, resolved_input


@given(runs())
def test_documents_of_an_input_match_the_declared_stage_and_key(
    drawn: tuple[Dag, dict[str, list[str]]],
) -> None:
    here = ResolvedDag(*drawn)
    for stage, _, _, resolved_input in all_inputs(here):
        slot = (resolved_input.input.stage or stage.slug, resolved_input.input.document_key)
        assert {(doc.stage, doc.document_key) for doc in resolved_input.documents} <= {slot}
        is_item = resolved_input.item is not None
        assert resolved_input.external == (slot not in here.made and not is_item)


@given(runs())
def test_job_with_a_source_document_receives_exactly_that_document(
    drawn: tuple[Dag, dict[str, list[str]]],
) -> None:
    here = ResolvedDag(*drawn)
    for stage, step, unit, resolved_input in all_inputs(here):
        if unit.source is not None and step.inputs and resolved_input.input is step.inputs[0]:
            [document] = resolved_input.documents
            assert (
                ProducedDocument(document.model, document.lineage, document.reviewer) == unit.source
            )
            maker = here.runs[stage.slug].graph.predecessors[step.key]
            assert document.step_key in maker


@given(runs())
def test_input_with_existing_document_is_never_reported_as_missing(
    drawn: tuple[Dag, dict[str, list[str]]],
) -> None:
    here = ResolvedDag(*drawn)
    there = {(document.stage, document.document_key) for document in here.documents}
    for stage, _, _, resolved_input in all_inputs(here):
        if resolved_input.is_missing:
            assert (
                resolved_input.input.stage or stage.slug,
                resolved_input.input.document_key,
            ) not in there


def test_job_gets_no_documents_of_unconnected_steps() -> None:
    here = make_resolved_dag(
        make_step("maker", outputs=["notes"]),
        make_step("beside", outputs=["notes"]),
        make_step("reader", S.ALL_TO_ONE, inputs=["notes"]),
        edges=[("maker", "reader")],
    )
    [unit] = here.units("s", "reader")
    [resolved_input] = here.inputs_of("s", unit)
    assert {document.step_key for document in resolved_input.documents} == {"maker"}
