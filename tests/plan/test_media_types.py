"""Media types: text types, and their file names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.errors import InvalidInput
from waybook.plan.output import (
    FILE_EXTENSIONS,
    SYNTAX,
    TEXT_TYPES,
    file_extension,
    is_json,
    parse_text_type,
)


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("text/markdown", "text/markdown"),
        (" Text/HTML ; charset=UTF-8", "text/html"),
        ("application/json", "application/json"),
        ("application/ld+json", "application/ld+json"),
        ("image/svg+xml", "image/svg+xml"),
        ("text/x-anything.at-all", "text/x-anything.at-all"),
    ],
)
def test_the_type_of_a_text_is_kept_in_small_letters_and_alone(told: str, kept: str) -> None:
    assert parse_text_type(told) == kept


@pytest.mark.parametrize(
    "told", ["", "markdown", "text/", "/html", "text/a/b", "text/ä", "text/a b", "a\nb/c", "*/*"]
)
def test_what_is_no_media_type_is_refused_with_an_example(told: str) -> None:
    with pytest.raises(InvalidInput, match="such as text/markdown"):
        parse_text_type(told)


@pytest.mark.parametrize("told", ["image/png", "application/pdf", "application/octet-stream"])
def test_only_texts_are_kept(told: str) -> None:
    with pytest.raises(InvalidInput, match="only texts are kept"):
        parse_text_type(told)


def test_json_is_known_by_its_name_or_its_suffix() -> None:
    assert is_json("application/json")
    assert is_json("application/geo+json")
    assert not is_json("application/jsonl")
    assert not is_json("text/markdown")


def test_every_ending_is_that_of_a_text() -> None:
    assert [kind for kind in (*FILE_EXTENSIONS, *TEXT_TYPES) if parse_text_type(kind) != kind] == []


NAMES = st.text("abz09!#$&^_.+-", min_size=1, max_size=12)


@given(st.builds("{}/{}".format, NAMES, NAMES | st.builds("{}+json".format, NAMES)))
def test_the_ending_of_any_type_is_safe_in_a_file_s_name(kind: str) -> None:
    if SYNTAX.fullmatch(kind):
        assert re.fullmatch("[a-z]{1,6}", file_extension(kind))
