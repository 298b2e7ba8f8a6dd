"""Fusion of ranked search results: scores are weighted sums, and no hit is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.research.fusion import WEIGHTS, RankedPassage, fuse

measures = st.floats(0.01, 1)
passages = st.lists(
    st.builds(RankedPassage, st.sampled_from("abcdefgh"), st.integers(1, 3), measures), max_size=12
).map(lambda made: sorted(made, key=lambda passage: -passage.measure))
lists = st.dictionaries(st.sampled_from([*WEIGHTS]), passages)


def ranked(**subjects: float) -> list[RankedPassage]:
    return [RankedPassage(subject, 1, measure) for subject, measure in subjects.items()]


@given(lists)
def test_fusion_returns_every_hit_once_sorted_by_score(
    rankings: dict[str, list[RankedPassage]],
) -> None:
    hits = fuse(rankings)
    assert sorted(hit.subject_id for hit in hits) == sorted(
        {passage.subject_id for made in rankings.values() for passage in made}
    )
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@given(lists)
def test_fused_hit_names_every_list_that_contains_the_hit(
    rankings: dict[str, list[RankedPassage]],
) -> None:
    for hit in fuse(rankings):
        assert {why.by for why in hit.why} == {
            by
            for by, made in rankings.items()
            if hit.subject_id in {passage.subject_id for passage in made}
        }


@given(lists)
def test_order_of_lists_does_not_change_the_fused_ranking(
    rankings: dict[str, list[RankedPassage]],
) -> None:
    back = fuse({by: rankings[by] for by in reversed(rankings)})
    assert [hit.subject_id for hit in fuse(rankings)] == [hit.subject_id for hit in back]


def test_fused_score_is_the_weighted_sum_of_both_lists() -> None:
    hits = fuse({"words": ranked(both=0.5, x=0.4), "meaning": ranked(y=0.6, both=0.3)})
    assert {hit.subject_id: hit.score for hit in hits} == {
        "both": pytest.approx(0.4 * 0.5 + 0.6 * 0.3),
        "y": pytest.approx(0.6 * 0.6),
        # The list `meaning` lacks `x`, so `x` gets the score of the last hit in this list.
        "x": pytest.approx(0.4 * 0.4 + 0.6 * 0.3),
    }


def test_fused_score_without_vector_hits_is_the_word_score() -> None:
    (hit,) = fuse({"words": ranked(x=0.7), "meaning": []})
    assert hit.score == pytest.approx(0.7)


def test_fused_score_without_word_hits_is_the_weighted_vector_score() -> None:
    (hit,) = fuse({"words": [], "meaning": ranked(x=0.5)})
    assert hit.score == pytest.approx(0.3)


def test_fusion_returns_only_the_best_passage_of_each_text() -> None:
    by_words = [RankedPassage("o", 1, 0.9), RankedPassage("b", 7, 0.8), RankedPassage("b", 8, 0.7)]
    hits = fuse({"words": by_words, "meaning": [RankedPassage("b", 3, 0.9), *ranked(x=0.1)]})
    assert (hits[0].subject_id, hits[0].part) == ("b", 3)
    assert [why.rank for why in hits[0].why] == [2, 1]
