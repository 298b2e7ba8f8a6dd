"""Tokens as texts."""

import secrets

from hypothesis import given
from hypothesis import strategies as st

from waybook.orgs.secret import LENGTH, LETTERS, PREFIX, hash_of, is_token, spelled


def test_a_new_token_is_one_and_no_other() -> None:
    first, second = spelled(secrets.choice), spelled(secrets.choice)
    assert is_token(first)
    assert is_token(second)
    assert first != second


@given(st.text(alphabet=LETTERS, min_size=LENGTH, max_size=LENGTH))
def test_every_text_of_the_form_is_one(letters: str) -> None:
    assert is_token(PREFIX + letters)


@given(st.text(max_size=60))
def test_nothing_else_is_one(text: str) -> None:
    ours = (
        text.startswith(PREFIX)
        and len(text) == len(PREFIX) + LENGTH
        and set(text[len(PREFIX) :]) <= set(LETTERS)
    )
    assert is_token(text) == ours


@given(
    st.text(alphabet=LETTERS, min_size=LENGTH, max_size=LENGTH),
    st.integers(0, LENGTH - 1),
    st.characters(),
)
def test_a_character_that_is_none_of_the_letters_makes_it_none(
    letters: str, place: int, other: str
) -> None:
    changed = letters[:place] + other + letters[place + 1 :]
    assert is_token(PREFIX + changed) == (other in LETTERS)


@given(st.text(max_size=50), st.text(max_size=50))
def test_two_secrets_are_known_by_two_hashes(one: str, other: str) -> None:
    assert (hash_of(one) == hash_of(other)) == (one == other)
    assert len(hash_of(one)) == 32
