import pytest

from waybook.conditions.values import Json
from waybook.dag.templates.filters import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_INLINE_LENGTH,
    MAX_TABLE_COLUMNS,
    as_json,
    code_block,
    json_to_markdown,
    label,
)


def lines(*texts: str) -> str:
    return "\n".join(texts)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("# Text *is* Markdown\n", "# Text *is* Markdown"),
        (None, ""),
        (3, "3"),
        (True, "true"),
        ([], ""),
        ({}, ""),
        (["a", "b\nc", 3], lines("- a", "- b", "  c", "- 3")),
        ({"a": 1, "b": None, "c": []}, lines("- **A:** 1", "- **B:** —", "- **C:** —")),
        ({"a": "x", "b": {"c": 1}}, lines("- **A:** x", "", "## B", "", "- **C:** 1")),
        ({"a": {"c": 1}, "b": "x"}, lines("- **B:** x", "", "## A", "", "- **C:** 1")),
        ({"a": "one\ntwo"}, lines("## A", "", "one", "two")),
        (
            [{"a": 1, "b": "x|y"}, {"b": None, "a": "two\nlines"}],
            lines("| A | B |", "| --- | --- |", "| 1 | x\\|y |", "| two lines |  |"),
        ),
        ([{"a": 1}, {"b": 2}], lines("## 1.", "", "- **A:** 1", "", "## 2.", "", "- **B:** 2")),
        ([{"name": "Ann", "of": [1]}], lines("## 1. Ann", "", "### Of", "", "- 1")),
        ([["a"], "b"], lines("## 1.", "", "- a", "", "## 2.", "", "b")),
    ],
)
def test_json_values_become_markdown_lists_headings_and_tables(value: Json, expected: str) -> None:
    assert json_to_markdown(value) == expected


def test_markdown_headings_of_json_start_at_the_requested_level() -> None:
    nested: Json = {"a": {"b": {"c": ["d"]}}}
    assert json_to_markdown(nested, 5) == lines(
        "##### A", "", "###### B", "", "###### C", "", "- d"
    )


def test_long_text_in_json_gets_a_separate_markdown_heading() -> None:
    assert json_to_markdown({"a": "x" * MAX_INLINE_LENGTH}).startswith("- **A:**")
    assert json_to_markdown({"a": "x" * (MAX_INLINE_LENGTH + 1)}).startswith("## A\n")


def test_objects_with_too_many_keys_are_not_written_as_table() -> None:
    wide = {f"k{n}": n for n in range(MAX_TABLE_COLUMNS)}
    assert json_to_markdown([wide]).startswith("| K0 |")
    assert json_to_markdown([{**wide, "more": 1}]).startswith("## 1.")


def test_too_deeply_nested_json_is_shown_as_code() -> None:
    deep: Json = {"end": ["here"]}
    for _ in range(MAX_DEPTH):
        deep = {"in": deep}
    assert json_to_markdown(deep).endswith('###### End\n\n```json\n[\n  "here"\n]\n```')


def test_too_long_json_is_cut_with_a_note() -> None:
    text = json_to_markdown({f"k{n}": "word\n" * 50_000 for n in range(9)})
    assert len(text) < MAX_CHARACTERS + 100
    assert text.endswith("*The rest is left out: it is too long.*")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("riskLevel", "Risk level"),
        ("next_steps", "Next steps"),
        ("kebab-case key", "Kebab case key"),
        ("APIKey", "API key"),
        ("URL", "URL"),
        ("*[x](y)*", "\\*\\[x\\](y)\\*"),
        ("", "—"),
        ("__", "—"),
    ],
)
def test_json_key_is_shown_as_separate_words_in_markdown(key: str, expected: str) -> None:
    assert label(key) == expected


def test_code_fence_is_longer_than_any_fence_in_the_text() -> None:
    assert code_block("a") == "```\na\n```"
    assert code_block("````\nb") == "`````\n````\nb\n`````"


def test_too_large_number_is_shown_as_placeholder_in_json_text() -> None:
    assert as_json([10**5000]) == "a number too large to be written"
