from hypothesis import given
from hypothesis import strategies as st

from dag_runs import origins_of
from waybook.dag.expansion.lineage import (
    Origins,
    ProducedDocument,
    distinct,
    entry_origins,
    merge_origins,
)

NAMES = st.sampled_from("abcd")
MADE = st.lists(st.builds(ProducedDocument, NAMES, st.sampled_from(["l/1", "l/2", "l/3"])))


def test_entry_origins_creates_one_lineage_per_model() -> None:
    assert entry_origins(["b", "a", "b"]) == Origins(
        lineages=("entry/b", "entry/a"),
        authors=("b", "a"),
        first_author={"entry/b": "b", "entry/a": "a"},
    )


def test_origins_of_lineage_with_two_authors_stores_first_author() -> None:
    left = origins_of(
        [ProducedDocument("a", "x"), ProducedDocument("b", "x"), ProducedDocument("b", "y")]
    )
    assert left.lineages == ("x", "y")
    assert left.authors == ("a", "b")
    assert left.first_author == {"x": "a", "y": "b"}


def test_distinct_keeps_order_of_first_occurrence() -> None:
    assert distinct(["c", "a", "c", "b", "a"]) == ("c", "a", "b")


@given(st.lists(MADE))
def test_merge_origins_equals_origins_of_concatenated_documents(
    parts: list[list[ProducedDocument]],
) -> None:
    together = merge_origins(map(origins_of, parts))
    assert together == origins_of(made for part in parts for made in part)
    assert together.lineages == tuple(together.first_author)


@given(MADE)
def test_merge_origins_identical_origins_returns_same_origins(made: list[ProducedDocument]) -> None:
    origins = origins_of(made)
    assert merge_origins([origins, origins]) == origins


def test_merge_origins_empty_list_returns_empty() -> None:
    assert merge_origins([]) == Origins(lineages=(), authors=(), first_author={})
