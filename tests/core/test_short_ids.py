"""Short ids: every single wrong character and every swap of two characters is detected."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.core.short_ids import (
    ALPHABET,
    KEYS,
    LENGTH,
    encode_key,
    parse_short_id,
    short_id,
    short_key,
)

keys = st.integers(0, KEYS - 1)


@given(keys)
def test_short_id_is_parsed_back_to_the_same_key(key: int) -> None:
    text = encode_key(key)
    assert len(text) == LENGTH
    assert set(text) <= set(ALPHABET)
    assert parse_short_id(text) == parse_short_id(f" {text.upper()}\n") == key


@given(keys)
def test_short_id_with_one_wrong_character_is_not_accepted(key: int) -> None:
    text = encode_key(key)
    wrong = [
        f"{text[:place]}{other}{text[place + 1 :]}"
        for place in range(LENGTH)
        for other in ALPHABET
        if other != text[place]
    ]
    assert len(wrong) == LENGTH * (len(ALPHABET) - 1)
    assert [text for text in wrong if parse_short_id(text) is not None] == []


@given(keys)
def test_short_id_with_two_swapped_characters_is_not_accepted(key: int) -> None:
    text = encode_key(key)
    for first, second in combinations(range(LENGTH), 2):
        swapped = list(text)
        swapped[first], swapped[second] = text[second], text[first]
        assert text[first] == text[second] or parse_short_id("".join(swapped)) is None


@given(st.uuids())
def test_short_id_ignores_the_letter_case_of_a_uuid(uuid: object) -> None:
    text = str(uuid)
    assert short_id(text) == short_id(text.upper()) == encode_key(short_key(text))


@pytest.mark.parametrize(
    "text",
    ["", "9y79wg3e8", "9y79wg3e8xx", "0y79wg3e8x", "9y79wg3e8é", "9y79wg3e-x", "9y7 wg3e8x"],
)
def test_other_text_is_not_accepted_as_a_short_id(text: str) -> None:
    assert parse_short_id(text) is None


def test_short_id_of_known_uuid_never_changes() -> None:
    """Short ids are in notes, links and conversations, so no version may change them."""
    assert short_id("0199e5c4-7f2a-7c11-9d3b-5a1f0e2d4c6b") == KNOWN


#: Expected short id, as computed by the first version that had short ids.
KNOWN = "s2gnbvhvg5"
