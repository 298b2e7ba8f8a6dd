from hypothesis import given
from hypothesis import strategies as st

from waybook.dag.lineage import Made, Origins, distinct, entry_origins, joined, origins_of

NAMES = st.sampled_from("abcd")
MADE = st.lists(st.builds(Made, NAMES, st.sampled_from(["l/1", "l/2", "l/3"])))


def test_the_first_stage_starts_from_a_lineage_for_each_model() -> None:
    assert entry_origins(["b", "a", "b"]) == Origins(
        lineages=("entry/b", "entry/a"),
        authors=("b", "a"),
        first_author={"entry/b": "b", "entry/a": "a"},
    )


def test_a_lineage_remembers_who_wrote_it_first() -> None:
    left = origins_of([Made("a", "x"), Made("b", "x"), Made("b", "y")])
    assert left.lineages == ("x", "y")
    assert left.authors == ("a", "b")
    assert left.first_author == {"x": "a", "y": "b"}


def test_the_order_of_models_is_that_of_their_first_mention() -> None:
    assert distinct(["c", "a", "c", "b", "a"]) == ("c", "a", "b")


@given(st.lists(MADE))
def test_origins_joined_are_the_origins_of_everything_together(parts: list[list[Made]]) -> None:
    together = joined(map(origins_of, parts))
    assert together == origins_of(made for part in parts for made in part)
    assert together.lineages == tuple(together.first_author)


@given(MADE)
def test_joining_what_is_there_already_changes_nothing(made: list[Made]) -> None:
    origins = origins_of(made)
    assert joined([origins, origins]) == origins


def test_nothing_joined_is_nothing() -> None:
    assert joined([]) == Origins(lineages=(), authors=(), first_author={})
