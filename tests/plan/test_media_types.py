"""Media types: those that count as text, and the file extension for each."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.errors import InvalidInput
from waybook.plan.store_output import (
    FILE_EXTENSIONS,
    SYNTAX,
    TEXT_TYPES,
    file_extension,
    is_json,
    parse_text_type,
)


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("text/markdown", "text/markdown"),
        (" Text/HTML ; charset=UTF-8", "text/html"),
        ("application/json", "application/json"),
        ("application/ld+json", "application/ld+json"),
        ("image/svg+xml", "image/svg+xml"),
        ("text/x-anything.at-all", "text/x-anything.at-all"),
    ],
)
def test_media_type_of_text_is_read_in_lowercase_without_parameters(
    media_type: str, expected: str
) -> None:
    assert parse_text_type(media_type) == expected


@pytest.mark.parametrize(
    "media_type",
    ["", "markdown", "text/", "/html", "text/a/b", "text/ä", "text/a b", "a\nb/c", "*/*"],
)
def test_invalid_media_type_is_refused_with_an_example(media_type: str) -> None:
    with pytest.raises(InvalidInput, match="such as text/markdown"):
        parse_text_type(media_type)


@pytest.mark.parametrize("media_type", ["image/png", "application/pdf", "application/octet-stream"])
def test_binary_media_type_is_refused(media_type: str) -> None:
    with pytest.raises(InvalidInput, match="only text can be stored"):
        parse_text_type(media_type)


def test_json_media_type_is_recognized_by_name_and_suffix() -> None:
    assert is_json("application/json")
    assert is_json("application/geo+json")
    assert not is_json("application/jsonl")
    assert not is_json("text/markdown")


def test_every_known_media_type_is_accepted_as_text_type() -> None:
    assert [kind for kind in (*FILE_EXTENSIONS, *TEXT_TYPES) if parse_text_type(kind) != kind] == []


NAMES = st.text("abz09!#$&^_.+-", min_size=1, max_size=12)


@given(st.builds("{}/{}".format, NAMES, NAMES | st.builds("{}+json".format, NAMES)))
def test_file_extension_of_any_media_type_is_short_lowercase(kind: str) -> None:
    if SYNTAX.fullmatch(kind):
        assert re.fullmatch("[a-z]{1,6}", file_extension(kind))
