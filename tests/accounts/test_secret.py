"""Format of API tokens."""

import secrets

from hypothesis import given
from hypothesis import strategies as st

from waybook.accounts.model import (
    ALPHABET,
    LENGTH,
    PREFIX,
    generate_token,
    hash_token,
    looks_like_token,
)


def test_generate_token_returns_distinct_valid_tokens() -> None:
    first, second = generate_token(secrets.choice), generate_token(secrets.choice)
    assert looks_like_token(first)
    assert looks_like_token(second)
    assert first != second


@given(st.text(alphabet=ALPHABET, min_size=LENGTH, max_size=LENGTH))
def test_well_formed_text_is_recognized_as_token(letters: str) -> None:
    assert looks_like_token(PREFIX + letters)


@given(st.text(max_size=60))
def test_only_texts_in_token_format_are_recognized_as_tokens(text: str) -> None:
    ours = (
        text.startswith(PREFIX)
        and len(text) == len(PREFIX) + LENGTH
        and set(text[len(PREFIX) :]) <= set(ALPHABET)
    )
    assert looks_like_token(text) == ours


@given(
    st.text(alphabet=ALPHABET, min_size=LENGTH, max_size=LENGTH),
    st.integers(0, LENGTH - 1),
    st.characters(),
)
def test_text_with_character_outside_alphabet_is_not_a_token(
    letters: str, place: int, other: str
) -> None:
    changed = letters[:place] + other + letters[place + 1 :]
    assert looks_like_token(PREFIX + changed) == (other in ALPHABET)


@given(st.text(max_size=50), st.text(max_size=50))
def test_distinct_token_secrets_have_distinct_hashes(secret: str, other: str) -> None:
    assert (hash_token(secret) == hash_token(other)) == (secret == other)
    assert len(hash_token(secret)) == 32
