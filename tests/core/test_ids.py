"""Ids with one wrong character or two swapped characters are recognized as invalid."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.core.ids import ALPHABET, LENGTH, IdSource, encode_id, is_id, normalize_id

numbers = st.integers(0, len(ALPHABET) ** (LENGTH - 1) - 1)


@given(numbers)
def test_id_with_capitals_or_surrounding_spaces_is_normalized(number: int) -> None:
    text = encode_id(number)
    assert len(text) == LENGTH
    assert set(text) <= set(ALPHABET)
    assert normalize_id(text) == normalize_id(f" {text.upper()}\n") == text
    assert is_id(text)


@given(numbers)
def test_id_with_one_wrong_character_is_not_accepted(number: int) -> None:
    text = encode_id(number)
    wrong = [
        f"{text[:place]}{other}{text[place + 1 :]}"
        for place in range(LENGTH)
        for other in ALPHABET
        if other != text[place]
    ]
    assert len(wrong) == LENGTH * (len(ALPHABET) - 1)
    assert list(filter(is_id, wrong)) == []


@given(numbers)
def test_id_with_two_swapped_characters_is_not_accepted(number: int) -> None:
    text = encode_id(number)
    for first, second in combinations(range(LENGTH), 2):
        swapped = list(text)
        swapped[first], swapped[second] = text[second], text[first]
        assert text[first] == text[second] or not is_id("".join(swapped))


@given(numbers, numbers)
def test_ids_sort_by_number(first: int, second: int) -> None:
    assert (encode_id(first) < encode_id(second)) == (first < second)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "22222222222",
        "2222222222222",
        "02222222222",
        "22222222222é",
        "222222222-22",
        "22 222222222",
    ],
)
def test_malformed_text_is_not_accepted_as_an_id(text: str) -> None:
    assert not is_id(text)
    assert normalize_id(text) == text


def test_new_ids_are_distinct_and_sort_by_creation() -> None:
    source = IdSource()
    ids = [source() for _ in range(5_000)]
    assert ids == sorted(set(ids))
    assert all(map(is_id, ids))
