"""Rank fusion: agreement is rewarded, order within a list is kept, no entry is dropped."""

from hypothesis import given
from hypothesis import strategies as st

from waybook.research.fusion import CONSTANT, RankedPassage, fuse


def found(*subjects: str, part: int = 1) -> list[RankedPassage]:
    return [RankedPassage(subject_id=subject, part=part, measure=0.5) for subject in subjects]


subjects = st.lists(st.sampled_from("abcdefgh"), max_size=12)
lists = st.dictionaries(st.sampled_from(["words", "meaning", "tags"]), subjects)


@given(lists)
def test_everything_found_is_there_once_best_first(told: dict[str, list[str]]) -> None:
    hits = fuse({by: found(*names) for by, names in told.items()})
    assert sorted(hit.subject_id for hit in hits) == sorted(
        {n for names in told.values() for n in names}
    )
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@given(lists)
def test_each_hit_says_where_it_stood(told: dict[str, list[str]]) -> None:
    for hit in fuse({by: found(*names) for by, names in told.items()}):
        assert {why.by for why in hit.why} == {
            b for b, names in told.items() if hit.subject_id in names
        }
        assert hit.score == sum(1 / (CONSTANT + why.rank) for why in hit.why)


@given(subjects)
def test_one_list_alone_stays_in_its_order(names: list[str]) -> None:
    assert [hit.subject_id for hit in fuse({"words": found(*names)})] == list(dict.fromkeys(names))


@given(lists)
def test_the_order_in_which_lists_are_named_changes_nothing_but_the_reasons(
    told: dict[str, list[str]],
) -> None:
    forth = fuse({by: found(*names) for by, names in told.items()})
    back = fuse({by: found(*told[by]) for by in reversed(told)})
    assert [hit.subject_id for hit in forth] == [hit.subject_id for hit in back]


def test_what_two_lists_agree_on_comes_before_what_one_has_first() -> None:
    hits = fuse({"words": found("x", "both"), "meaning": found("y", "both")})
    assert hits[0].subject_id == "both"


def test_the_best_passage_stands_for_its_subject() -> None:
    by_words = [*found("other"), *found("book", part=7), *found("book", part=8)]
    hits = fuse({"words": by_words, "meaning": found("book", part=3)})
    assert (hits[0].subject_id, hits[0].part) == ("book", 3)
    assert [why.rank for why in hits[0].why] == [2, 1]
