from hypothesis import given

from dag_builders import models
from dag_runs import origins_of
from waybook.dag.expansion.units import ProducedDocument, entry_origins, lineage_owners

#: Documents of earlier stages: four by model `x` and one by model `y`, all of different lineages.
PRIOR = origins_of(
    [*[ProducedDocument("x", f"l/{number}") for number in range(4)], ProducedDocument("y", "l/4")]
)


def test_lineages_of_removed_models_are_reassigned_to_current_models() -> None:
    assert lineage_owners(["y", "z"], PRIOR) == {
        "l/0": "y",
        "l/1": "z",
        "l/2": "y",
        "l/3": "z",
        "l/4": "y",
    }


@given(models(), models())
def test_every_document_lineage_is_assigned_to_a_current_model(
    now: list[str], before: list[str]
) -> None:
    prior = entry_origins(before)
    owners = lineage_owners(now, prior)
    assert tuple(owners) == tuple(prior.lineages)
    assert set(owners.values()) <= set(now)
    stayed = {lineage: author for lineage, author in prior.first_author.items() if author in now}
    assert stayed.items() <= owners.items()
