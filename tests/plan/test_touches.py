"""Overlap of the globs that steps touch, compared with an enumeration of paths."""

from collections.abc import Iterable
from itertools import product
from re import Pattern, escape
from re import compile as pattern

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.plan.touches import Comparison, normalized_touch, touch_fault

NAMES = ["".join(name) for n in range(1, 7) for name in product("ab", repeat=n)]
FOLDERS = [name for name in NAMES if len(name) <= 2]
#: Every path of up to four names of up to two characters.
PATHS = ["/".join(path) for n in range(1, 5) for path in product(FOLDERS, repeat=n)]

SEGMENTS = st.one_of(st.just("**"), st.text("ab*?", min_size=1, max_size=2))
GLOBS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)
#: Globs of one name. Two of them that share a name share one of at most six characters.
NAME_GLOBS = st.text("ab*?", min_size=1, max_size=4)


def expression(glob: str) -> Pattern[str]:
    """Return a regular expression that matches what a glob covers, with `/` at the end."""
    text = ""
    for segment in glob.split("/"):
        names = "".join({"*": "[^/]*", "?": "[^/]"}.get(c, escape(c)) for c in segment)
        text += "(?:[^/]+/)*" if segment == "**" else f"(?=[^/]){names}/"
    return pattern(f"{text}(?:[^/]+/)*")


def share(first: str, second: str, paths: Iterable[str]) -> bool:
    left, right = expression(first), expression(second)
    return any(left.fullmatch(f"{path}/") and right.fullmatch(f"{path}/") for path in paths)


def overlaps(first: str, second: str) -> bool:
    left, right = ((*glob.split("/"), "**") for glob in (first, second))
    return Comparison().overlaps(left, right)


@given(GLOBS, GLOBS)
def test_overlap_of_globs_equals_the_enumeration_of_paths(first: str, second: str) -> None:
    assert overlaps(first, second) == overlaps(second, first) == share(first, second, PATHS)


@given(NAME_GLOBS, NAME_GLOBS)
def test_overlap_of_names_equals_the_enumeration_of_names(first: str, second: str) -> None:
    assert overlaps(first, second) == share(first, second, NAMES)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("src/**", "src/a/*.py", True),
        ("src/api", "src/api/deep/x.py", True),
        ("src/*/x.py", "src/**/y.py", True),
        ("src/*.py", "src/*.md", False),
        ("a*b/x", "ac/x", False),
        ("src", "srcs", False),
        ("db:staging", "db:prod", False),
        ("db:*", "db:prod", True),
        ("app/[id]/page.tsx", "app/i/page.tsx", False),
    ],
)
def test_overlap_of_usual_globs_is_as_documented(
    first: str, second: str, *, expected: bool
) -> None:
    assert overlaps(first, second) is expected


def test_longest_touches_are_compared_within_the_limit_of_work() -> None:
    comparison = Comparison()
    long = "*a" * 100
    deep = "/".join("?*" for _ in range(66))
    comparison.overlaps((long, "**"), (f"{long}b", "**"))
    comparison.overlaps((*deep.split("/"), "**"), ("**", *deep.split("/"), "x", "**"))
    assert comparison.left > 0


@pytest.mark.parametrize("text", ["../a", "a\nb", "/", " ", "a\0b"])
def test_text_that_is_no_relative_path_is_refused(text: str) -> None:
    assert touch_fault(text) is not None


def test_touch_is_stored_without_empty_segments() -> None:
    assert normalized_touch(" ./src//a b/ ") == "src/a b"
