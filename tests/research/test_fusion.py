"""Rank fusion of search results: hits in several lists rank higher, and no hit is dropped."""

from hypothesis import given
from hypothesis import strategies as st

from waybook.research.fusion import CONSTANT, RankedPassage, fuse


def ranked(*subjects: str, part: int = 1) -> list[RankedPassage]:
    return [RankedPassage(subject_id=subject, part=part, measure=0.5) for subject in subjects]


subjects = st.lists(st.sampled_from("abcdefgh"), max_size=12)
lists = st.dictionaries(st.sampled_from(["words", "meaning", "tags"]), subjects)


@given(lists)
def test_rank_fusion_returns_every_hit_once_by_score(
    rankings: dict[str, list[str]],
) -> None:
    hits = fuse({by: ranked(*names) for by, names in rankings.items()})
    assert sorted(hit.subject_id for hit in hits) == sorted(
        {n for names in rankings.values() for n in names}
    )
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@given(lists)
def test_fused_hit_contains_the_rank_in_every_list(
    rankings: dict[str, list[str]],
) -> None:
    for hit in fuse({by: ranked(*names) for by, names in rankings.items()}):
        assert {why.by for why in hit.why} == {
            b for b, names in rankings.items() if hit.subject_id in names
        }
        assert hit.score == sum(1 / (CONSTANT + why.rank) for why in hit.why)


@given(subjects)
def test_rank_fusion_of_a_single_list_preserves_the_order(names: list[str]) -> None:
    assert [hit.subject_id for hit in fuse({"words": ranked(*names)})] == list(dict.fromkeys(names))


@given(lists)
def test_order_of_lists_does_not_change_the_fused_ranking(
    rankings: dict[str, list[str]],
) -> None:
    forth = fuse({by: ranked(*names) for by, names in rankings.items()})
    back = fuse({by: ranked(*rankings[by]) for by in reversed(rankings)})
    assert [hit.subject_id for hit in forth] == [hit.subject_id for hit in back]


def test_hit_in_two_lists_ranks_above_top_of_one_list() -> None:
    hits = fuse({"words": ranked("x", "both"), "meaning": ranked("y", "both")})
    assert hits[0].subject_id == "both"


def test_rank_fusion_returns_only_the_best_passage_of_each_document() -> None:
    by_words = [*ranked("other"), *ranked("book", part=7), *ranked("book", part=8)]
    hits = fuse({"words": by_words, "meaning": ranked("book", part=3)})
    assert (hits[0].subject_id, hits[0].part) == ("book", 3)
    assert [why.rank for why in hits[0].why] == [2, 1]
