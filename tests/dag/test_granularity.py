from hypothesis import given

from dag_builders import models
from dag_runs import origins_of
from waybook.dag.expansion.units import (
    GRANULARITY,
    NO_MODEL,
    Axis,
    Descent,
    ProducedDocument,
    Worker,
    entry_origins,
    first_of,
    lineage_owners,
)
from waybook.dag.model import Strategy

#: Origins that earlier documents pass on: five lineages of documents, by two authors.
PRIOR = origins_of(
    [*[ProducedDocument("x", f"l/{number}") for number in range(4)], ProducedDocument("y", "l/4")]
)


def test_every_strategy_has_a_rule_for_the_number_of_jobs() -> None:
    assert set(GRANULARITY) == set(Strategy)


def test_fields_of_every_strategy_are_consistent() -> None:
    for row in GRANULARITY.values():
        assert (row.descent is Descent.INHERITED) == (Axis.LINEAGE in row.axes)
        assert (row.worker is Worker.EACH) == (Axis.MODEL in row.axes)


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
