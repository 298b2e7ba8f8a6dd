"""Excerpts for search hits: the sentence with the most query words, of limited length."""

import pytest

from waybook.research.excerpts import mark_words, matching_sentence, parse_words

FILLER = "Nothing of interest happened here. " * 60


def text_of(text: str, search: str, longest: int = 240) -> str:
    return "".join(piece.text for piece in matching_sentence(text, parse_words(search), longest))


def marked(text: str, search: str) -> list[str]:
    return [piece.text for piece in mark_words(text, parse_words(search)) if piece.is_match]


def test_excerpt_is_the_sentence_with_most_query_words() -> None:
    wanted = (
        "The moraine dam failed twice in the spring of that year, and the lake ran dry at once."
    )
    text = f"A dam is a wall.\n\n{FILLER}{wanted} {FILLER}"
    assert text_of(text, "moraine dams fail") == wanted


def test_short_sentence_in_an_excerpt_is_extended_by_next_sentence() -> None:
    assert text_of("Rain. Dams broke. The valley flooded.", "dam") == (
        "Dams broke. The valley flooded."
    )


def test_long_sentence_is_cut_around_the_first_match() -> None:
    text = "word " * 150 + "moraine " + "word " * 20
    shown = text_of(text, "moraine", 100)
    assert "moraine" in shown
    assert shown.startswith("…word")
    assert shown.endswith("word…")
    assert len(shown) <= 102


@pytest.mark.parametrize("text", ["", "  \n ", "\n\n"])
def test_search_excerpt_of_an_empty_text_is_empty(text: str) -> None:
    assert matching_sentence(text, parse_words("dam")) == ()


def test_excerpt_without_a_match_is_the_beginning() -> None:
    assert text_of("First. Second.", "zebra") == "First. Second."


@pytest.mark.parametrize(
    ("text", "search", "expected"),
    [
        ("Lakes and a lake", "lake", ["Lakes", "lake"]),
        ("Glacier, glacial", "glac", ["Glacier", "glacial"]),
        ("Über die Brücke", "uber brucke", ["Über", "Brücke"]),
        ("the dam of the lake", "the dam", ["dam"]),
        ("to be or not", "to be", ["to", "be"]),
        ("<b>dam</b>", "b", ["b", "b"]),
        ("a_dam-b", "dam", ["dam"]),
    ],
)
def test_search_marks_words_with_the_stem_of_the_query(
    text: str, search: str, expected: list[str]
) -> None:
    assert marked(text, search) == expected
    assert "".join(piece.text for piece in mark_words(text, parse_words(search))) == text
