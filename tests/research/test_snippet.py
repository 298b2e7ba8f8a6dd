"""Search snippets: short, literal excerpts around the matching words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.research.query import Snippet, build_snippet, parse_query

pieces = st.sampled_from(
    ["dam", "Dams", "river", "**", "\n", "x" * 50, "caf\u00e9", "\U0001f30a", ".", "\u6cb3"]
)
texts = st.text(max_size=200) | st.lists(pieces, max_size=60).map(" ".join)
TEXT = (
    "Rain fell for days. " * 30 + "Then the old dams on the river broke at night. " + "Sun. " * 60
)


@given(texts, st.sampled_from(["dam river", "caf\u00e9", "", "nothing of it"]), st.integers(1, 120))
def test_snippet_of_any_text_is_a_bounded_verbatim_excerpt(
    text: str, query: str, longest: int
) -> None:
    made = build_snippet(text, parse_query(query), longest)
    assert made.text in text
    assert len(made.text) <= longest
    assert (
        not text.strip() or made.cut_before or made.cut_after or made.text.strip() == text.strip()
    )


@given(texts, st.integers(10, 120))
def test_highlighted_ranges_are_sorted_and_contain_only_words(text: str, longest: int) -> None:
    made = build_snippet(text, parse_query("dam river caf\u00e9"), longest)
    ends = [place for mark in made.marks for place in mark]
    assert ends == sorted(ends)
    assert all(made.text[start:end].isalnum() for start, end in made.marks)


@given(texts)
def test_highlighted_snippet_equals_snippet_if_markers_are_removed(text: str) -> None:
    made = build_snippet(text, parse_query("dam river"))
    plain_text = made.highlight("\x01", "\x02").replace("\x01", "").replace("\x02", "")
    if not set(text) & set("\x01\x02"):
        assert plain_text == ("…" * made.cut_before) + made.text + ("…" * made.cut_after)


def test_snippet_shows_the_part_with_most_query_terms() -> None:
    made = build_snippet(TEXT, parse_query("dam on a river"), 100)
    assert "**dams**" in made.highlight()
    assert "**river**" in made.highlight()
    assert (made.cut_before, made.cut_after) == (True, True)


def test_snippet_highlights_words_with_the_same_stem_as_the_query() -> None:
    made = build_snippet("They were flooding; a flood came.", parse_query("floods"))
    assert made.highlight() == "They were **flooding**; a **flood** came."


def test_snippet_highlights_the_corrected_word_of_a_misspelled_query() -> None:
    assert "**vaccine**" in build_snippet("A vaccine for all.", parse_query("vacine")).highlight()


def test_snippet_without_a_match_shows_the_beginning_of_the_text() -> None:
    made = build_snippet(TEXT, parse_query("glacier"), 30)
    assert TEXT.startswith(made.text)
    assert made == Snippet(made.text, (), cut_before=False, cut_after=True)


@pytest.mark.parametrize("marks", [("**", "**"), ("<b>", "</b>")])
def test_snippet_highlights_matches_with_the_given_markers(marks: tuple[str, str]) -> None:
    assert (
        build_snippet("A dam.", parse_query("dam")).highlight(*marks)
        == f"A {marks[0]}dam{marks[1]}."
    )
