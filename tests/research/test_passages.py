"""Passages and sources: passages contain the whole text, and equal sources have equal ids."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from any_json import EXACT_SCALARS, any_json
from waybook.research.passages import (
    MAX_DEPTH,
    MAX_PASSAGE_LENGTH,
    MAX_PASSAGES,
    json_to_text,
    passages,
    source_hash,
    source_id,
)

texts = st.lists(
    st.sampled_from(["One thought. ", "Another, longer one; ", "\n\n", "\n", "word ", "x" * 700]),
    max_size=80,
).map("".join) | st.text(max_size=400)
values = any_json(scalars=EXACT_SCALARS)
maybe = st.none() | st.text(max_size=8)


@given(texts)
def test_passages_preserve_text_and_order_within_the_length_limit(text: str) -> None:
    made = passages(text)
    assert all(0 < len(passage) <= MAX_PASSAGE_LENGTH for passage in made)
    assert "".join("".join(made).split()) == "".join(text.split())


def test_text_is_split_into_passages_at_paragraph_boundaries() -> None:
    first, second = passages(
        "A sentence of some length. " * 30 + "\n\n" + "The next paragraph. " * 30
    )
    assert first.endswith(".")
    assert second.startswith("The next paragraph.")


def test_long_text_is_split_into_limited_number_of_passages() -> None:
    made = passages("Many words. " * 90_000)
    assert len(made) == MAX_PASSAGES
    assert sum(map(len, made)) <= MAX_PASSAGES * MAX_PASSAGE_LENGTH


@given(values)
def test_any_json_value_can_be_converted_to_text(value: object) -> None:
    assert isinstance(json_to_text(value), str)


def test_json_to_text_omits_values_nested_too_deeply() -> None:
    value: object = "bottom"
    for _ in range(MAX_DEPTH + 2):
        value = [value]
    assert json_to_text(value) == ""


@given(maybe, st.text(max_size=8), maybe, maybe, st.text(max_size=8), maybe)
def test_source_id_depends_on_url_title_and_quote(
    url: str | None,
    title: str,
    quote: str | None,
    url2: str | None,
    title2: str,
    quote2: str | None,
) -> None:
    source = source_id(source_hash(url=url, title=title, quote=quote))
    other = source_id(source_hash(url=url2, title=title2, quote=quote2))
    assert (source == other) == ((url, title, quote) == (url2, title2, quote2))
    assert UUID(source).version == 8
