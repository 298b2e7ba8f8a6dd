from hypothesis import given
from hypothesis import strategies as st

from dag_runs import origins_of
from waybook.dag.expansion.units import Origins, ProducedDocument, entry_origins, merge_origins

NAMES = st.sampled_from("abcd")
MADE = st.lists(st.builds(ProducedDocument, NAMES, st.sampled_from(["l/1", "l/2", "l/3"])))


def test_model_listed_twice_starts_a_single_document_lineage() -> None:
    assert entry_origins(["b", "a", "b"]) == Origins(
        first_author={"entry/b": "b", "entry/a": "a"}, authors=("b", "a")
    )


def test_document_lineage_records_the_first_author() -> None:
    left = origins_of(
        [ProducedDocument("a", "x"), ProducedDocument("b", "x"), ProducedDocument("b", "y")]
    )
    assert tuple(left.lineages) == ("x", "y")
    assert left.authors == ("a", "b")
    assert left.first_author == {"x": "a", "y": "b"}


@given(st.lists(MADE))
def test_lineages_of_merged_groups_equal_lineages_of_all_documents(
    parts: list[list[ProducedDocument]],
) -> None:
    together = merge_origins(map(origins_of, parts))
    assert together == origins_of(made for part in parts for made in part)
