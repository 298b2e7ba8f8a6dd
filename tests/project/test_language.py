"""Limits on private idiom, vague names and British spellings; the limits may only decrease."""

import pytest

from project.language import Allowed, is_allowed, measures
from project.language_limits import ALLOWED, LIMITS

SHOWN = 10


@pytest.mark.parametrize("name", LIMITS)
def test_writing_style_violations_stay_within_limit(name: str) -> None:
    hits = next(measure.hits for measure in measures(allowed=ALLOWED) if measure.name == name)
    first = [f"{hit.file}:{hit.line}: {hit.text[:80]}" for hit in hits[:SHOWN]]
    assert len(hits) <= LIMITS[name], first


def test_every_writing_style_check_has_a_limit() -> None:
    assert [measure.name for measure in measures()] == [*LIMITS]


def test_every_writing_style_check_finds_texts_to_check() -> None:
    assert {measure.name for measure in measures() if not measure.total} == set()


@pytest.mark.parametrize("entry", ALLOWED, ids=lambda entry: entry.file)
def test_every_allowed_writing_style_exception_matches_an_existing_text(entry: Allowed) -> None:
    assert any(is_allowed(hit, [entry]) for measure in measures() for hit in measure.hits)
