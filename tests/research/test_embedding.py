"""Embeddings of texts: deterministic, of length 1, and close for similar meanings."""

import struct
from importlib.resources import files
from math import isclose, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.research.embedding import (
    DIMENSIONS,
    MAX_TEXT_LENGTH,
    StaticEmbedder,
    cosine_similarity,
    embed,
    neutral_vector,
    term_weight,
)
from waybook.research.vocabulary import (
    BYTE_OFFSET,
    HEAD,
    MAGIC,
    ROW_ALIGNMENT,
    VERSION,
    builtin_word_vectors,
    parse_word_vectors,
)

texts = st.text(max_size=300) | st.lists(
    st.sampled_from(
        [
            *("river", "Fluss", "\u6cb3", "\U0001f30a", "\u0e19\u0e49\u0e33", "caf\u00e9", "'"),
            *("\n", "x" * 90),
        ]
    )
).map(" ".join)


@given(texts)
def test_embedding_of_any_text_is_a_deterministic_unit_vector(text: str) -> None:
    vector = embed(text)
    assert len(vector) == DIMENSIONS
    assert isclose(sqrt(sum(number * number for number in vector)), 1, rel_tol=1e-9)
    assert embed(text) == vector
    assert StaticEmbedder(builtin_word_vectors()).embed(text) == vector


@given(st.lists(st.sampled_from(["cold", "river", "tax", "law", "moraines"]), min_size=1))
def test_embedding_ignores_word_order_and_case(words: list[str]) -> None:
    turned = embed(" ".join(reversed(words)).upper())
    assert all(
        isclose(a, b, abs_tol=1e-12) for a, b in zip(embed(" ".join(words)), turned, strict=True)
    )


@pytest.mark.parametrize("text", ["", " \n\t", "!?...", "\U0001f600\U0001f680", "x" * 41])
def test_text_without_words_has_a_fixed_neutral_embedding(text: str) -> None:
    assert embed(text) == neutral_vector(DIMENSIONS)


def test_words_in_an_unknown_script_have_different_embeddings() -> None:
    word, other = "\u1c5a\u1c5b", "\u1c5c\u1c5d"
    assert embed(word) == embed(f"{word}!")
    assert embed(word) != embed(other)


def test_embedding_of_a_long_text_uses_only_the_beginning() -> None:
    text = "river bank " * 100_000
    assert embed(text) == embed(text[:MAX_TEXT_LENGTH])


def test_embedding_ignores_accents_and_case() -> None:
    assert embed("CAF\u00c9") == embed("cafe\u0301") == embed("cafe")


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("a cold river", "icy stream", "tax law"),
        ("vaccination of children", "immune response to a virus", "suspension bridge"),
        ("the engine was repaired", "fixing motors", "poetry in ancient Greece"),
    ],
)
def test_cosine_similarity_is_higher_for_related_than_unrelated_texts(
    text: str, near: str, far: str
) -> None:
    assert (
        cosine_similarity(embed(text), embed(near))
        > cosine_similarity(embed(text), embed(far)) + 0.15
    )


def test_optimized_embedding_equals_a_plain_sum_of_word_vectors() -> None:
    table = builtin_word_vectors()
    names = [name for name in table.numbers if name.isalpha()][:3_000]
    text = " ".join(names + names[:40] * 9)
    counts = {name: 10 if name in names[:40] else 1 for name in names}
    plain = [0.0] * DIMENSIONS
    for name, count in counts.items():
        for place, byte in enumerate(table.row(table.numbers[name])):
            plain[place] += term_weight(count) * (byte - BYTE_OFFSET) * table.scale[place]
    length = sqrt(sum(number * number for number in plain))
    made = embed(text)
    assert all(isclose(a, b / length, abs_tol=1e-9) for a, b in zip(made, plain, strict=True))


def make_table(magic: bytes = MAGIC, version: int = VERSION) -> bytes:
    words = b"river\nlaw"
    body = HEAD.pack(magic, version, 4, 2, len(words)) + struct.pack("<4f", 1, 1, 1, 1) + words
    return (
        body
        + b"\0" * (-len(body) % ROW_ALIGNMENT)
        + bytes([129, 128, 128, 128, 128, 129, 128, 128])
    )


def test_word_vector_parser_reads_a_table_from_bytes() -> None:
    table = parse_word_vectors(make_table())
    assert StaticEmbedder(table).embed("river") == (1, 0, 0, 0)
    assert StaticEmbedder(table).embed("law") == (0, 1, 0, 0)


@pytest.mark.parametrize("data", [make_table(magic=b"????"), make_table(version=99)])
def test_word_vector_parser_refuses_wrong_magic_or_version(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a table of words"):
        parse_word_vectors(data)


def test_builtin_word_vectors_are_ordered_by_word_frequency() -> None:
    numbers = builtin_word_vectors().numbers
    assert numbers["the"] < numbers["river"] < numbers["moraine"]
    assert sorted(numbers.values()) == list(range(len(numbers)))


def test_notice_file_of_the_word_vectors_names_sources_and_licenses() -> None:
    notice = files("waybook.research").joinpath("words.NOTICE").read_text("utf-8")
    for name in ("all-MiniLM-L6-v2", "Apache License, Version 2.0", "SymSpell", "MIT License"):
        assert name in notice
