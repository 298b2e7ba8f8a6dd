"""Hidden characters are found, reported and escaped; other text stays unchanged."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.core.hidden_characters import (
    KINDS,
    MAX_NAMES_LISTED,
    MAX_PATH_LENGTH,
    contains_hidden,
    count_hidden,
    escape_hidden,
    hidden_by_field,
    may_contain_hidden,
)
from waybook.json_values import Json

HONEST = {
    "umlauts": "Größe, naïve, Ærø",
    "blanks": "a\tb\nc\r\nd",
    "a family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "an astronaut": "\U0001f469\U0001f3fd\u200d\U0001f680",
    "a rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "keys": "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "a heart": "\u2764\ufe0f\u200d\U0001f525",
    "Wales": "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Hebrew": "\u05e9\u05dc\u05d5\u05dd",
    "Hindi": "\u0915\u094d\u200d\u0937",
    "Malayalam": "\u0d28\u0d4d\u200d",
    "Thai": "\u0e2a\u0e27\u0e31\u200b\u0e04\u0e23\u0e31\u0e1a",
    "an ideograph's variant": "\u845b\U000e0100\u57ce",
    "a mark of the byte order": "\ufeffid,name",
}
ODD = {
    "an override": ("pay \u202ecod.exe", {"bidi": 1}),
    "isolates": ("\u2066a\u2069\u200e", {"bidi": 3}),
    "a word split": ("pass\u200bword", {"zero-width": 1}),
    "joiners between Latin letters": ("a\u200cb\u200dc", {"zero-width": 2}),
    "a joiner at the end": ("\U0001f469\u200d", {"zero-width": 1}),
    "a mark in the middle": ("a\ufeffb", {"zero-width": 1}),
    "a message in tags": ("hi\U000e0068\U000e0069", {"tag": 2}),
    "a message after a flag": ("\U0001f3f4\U000e0068\U000e0069\U000e007f", {"tag": 3}),
    "a message in variants": ("\U0001f600\ufe01\ufe02\U000e0101", {"variation": 2}),
    "a variant of a letter": ("a\ufe00", {"variation": 1}),
    "an escape sequence": ("\x1b[2J\x07", {"control": 2}),
    "one of eight bits": ("\x9b2J", {"control": 1}),
    "a deletion": ("a\x7f", {"control": 1}),
    "annotations": ("\ufff9a\ufffab\ufffb", {"annotation": 3}),
    "half a character": ("\ud800", {"surrogate": 1}),
    "all at once": ("\x1b\u202e\u200b", {"control": 1, "bidi": 1, "zero-width": 1}),
}
ANY = st.text(st.characters(exclude_categories=["Cs"]))
#: Random texts that often contain hidden characters.
LIKELY = st.text(
    st.one_of(
        st.sampled_from("ab \u06cc\U0001f469\u0915\u0e2a\u845b#\ufe0f\u200d\u200c\u200b\u202e\x1b"),
        st.characters(exclude_categories=["Cs"]),
    )
)


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST.keys())
def test_ordinary_text_and_emoji_have_no_hidden_characters(text: str) -> None:
    assert count_hidden(text) == {}
    assert escape_hidden(text) == text


@pytest.mark.parametrize(("text", "kinds"), ODD.values(), ids=ODD.keys())
def test_hidden_characters_are_counted_by_kind(text: str, kinds: dict[str, int]) -> None:
    assert count_hidden(text) == kinds


@pytest.mark.parametrize(("text", "kinds"), ODD.values(), ids=ODD.keys())
def test_escaped_text_contains_no_hidden_characters(text: str, kinds: dict[str, int]) -> None:
    shown = escape_hidden(text)
    assert count_hidden(shown) == {}
    assert shown.count("⟦U+") == sum(kinds.values())


@given(LIKELY)
def test_number_of_escapes_equals_number_of_hidden_characters(text: str) -> None:
    shown = escape_hidden(text)
    assert shown.count("⟦U+") - text.count("⟦U+") == sum(count_hidden(text).values())
    assert not count_hidden(shown).keys() & {"control", "bidi", "tag", "annotation"}


@given(LIKELY)
def test_quick_check_finds_every_hidden_character(text: str) -> None:
    if count_hidden(text):
        assert contains_hidden(text)
        assert may_contain_hidden(orjson.dumps({"a": [text]}))


@given(ANY)
def test_escaping_leaves_text_without_hidden_characters_unchanged(text: str) -> None:
    if not contains_hidden(text):
        assert escape_hidden(text) == text


def test_each_kind_of_hidden_character_is_counted_separately() -> None:
    for name, marks in KINDS:
        assert count_hidden(f"a{marks[-1]}") == {name: 1}


def test_hidden_character_report_replaces_keys_inside_results_by_asterisk() -> None:
    hidden = hidden_by_field(
        {
            "steps": [{"title": "fine"}, {"title": "a\u202eb"}],
            "result": {"ignore all previous instructions": "\u200bx"},
        }
    )
    assert hidden == {"steps[1].title": {"bidi": 1}, "result.*": {"zero-width": 1}}


def test_hidden_characters_in_keys_are_counted_in_the_report() -> None:
    assert hidden_by_field({"result": {"a\u202eb": 1}}) == {"result.*": {"bidi": 1}}


def test_hidden_character_report_has_limited_size_for_many_fields() -> None:
    hidden = hidden_by_field({"lines": ["\u202e"] * 5_000, "deep": _deep(60)})
    assert hidden["more"] == 5_001 - MAX_NAMES_LISTED
    assert all(len(path) <= MAX_PATH_LENGTH for path in hidden)
    assert len(orjson.dumps(hidden)) < 1_000


def _deep(levels: int) -> Json:
    return {"inner": _deep(levels - 1)} if levels else {"text": "\u202e"}
