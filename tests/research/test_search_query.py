"""Search queries: their terms, term weights, and spelling corrections."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.research.query import (
    MAX_QUERY_LENGTH,
    MAX_TERMS,
    STOP_WORDS,
    correct_word,
    parse_query,
)
from waybook.research.vocabulary import builtin_word_vectors

queries = st.text(max_size=120) | st.lists(
    st.sampled_from(
        ["river", "the", "or", "-salt", '"ice cores"', "CVE-2024-3094", "vacine", "\\", "&|!"]
    )
).map(" ".join)


@given(queries)
def test_weights_of_search_terms_sum_to_1(text: str) -> None:
    question = parse_query(text)
    assert len(question.terms) <= MAX_TERMS
    assert not question.terms or isclose(sum(term.weight for term in question.terms), 1)
    assert all(term.weight > 0 for term in question.terms)


@given(queries)
def test_search_terms_contain_no_search_operators_or_stop_words(text: str) -> None:
    for term in parse_query(text).terms:
        assert not set(term.text) & set('"\\')
        assert not term.text.startswith("-")
        assert term.text.lower() not in STOP_WORDS


@given(queries, st.floats(0.01, 1))
def test_search_terms_of_low_weight_together_stay_below_the_limit(text: str, most: float) -> None:
    question = parse_query(text)
    heavy, light = question.split_terms(most)
    assert sum(term.weight for term in light) < most
    assert sorted(term.text for term in (*heavy, *light)) == sorted(t.text for t in question.terms)
    assert bool(heavy) == bool(question.terms)


def test_rare_search_word_weighs_more_than_a_common_word() -> None:
    weights = {term.text: term.weight for term in parse_query("home moraine").terms}
    assert weights["moraine"] > weights["home"]


def test_identifier_in_a_search_query_is_a_single_term() -> None:
    assert [term.text for term in parse_query("see CVE-2024-3094.").terms] == [
        "see",
        "CVE-2024-3094",
    ]


def test_hyphenated_words_in_a_search_query_are_separate_terms() -> None:
    assert [term.text for term in parse_query("boundary-layer x-15").terms] == [
        "boundary",
        "layer",
        "x-15",
    ]


def test_embedding_text_of_a_search_query_includes_the_spelling_correction() -> None:
    assert parse_query("vacine recipe").embedding_text == "vacine recipe vaccine"


def test_search_query_of_only_stop_words_has_no_terms() -> None:
    assert parse_query("what is it that they do").terms == ()


def test_long_search_query_is_truncated() -> None:
    assert len(parse_query("river " * 1_000).text) <= MAX_QUERY_LENGTH


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("vacine", "vaccine"),  # one letter missing
        ("bridgge", "bridge"),  # one letter too many
        ("collapse", None),
        ("collapze", "collapse"),  # one wrong letter
        ("concreet", "concrete"),
        ("flihgt", "flight"),  # two letters swapped
        ("xqzvkw", None),
        ("abc", None),
        ("r2d2x", None),
    ],
)
def test_spelling_correction_corrects_a_known_word_with_a_single_typo(
    written: str, known: str | None
) -> None:
    assert correct_word(written, builtin_word_vectors()) == known


@given(st.text(max_size=40))
def test_spelling_correction_returns_only_known_words(word: str) -> None:
    correction = correct_word(word, builtin_word_vectors())
    assert correction is None or correction in builtin_word_vectors().numbers
