"""Limits of the language measures, and texts that the repository must not contain."""

import re
from pathlib import Path

import pytest

from project.language import Allowed, is_allowed, measures
from project.language_limits import ALLOWED, LIMITS
from project.repository import ROOT, tracked

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


# Tests of forbidden text.


#: File paths of a developer's machine, which no file may contain. Paths that the product may use
#: are not matched.
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/[\w.]")

#: URLs of package indexes, which no file may contain: lock files identify packages by hash, and
#: users choose the index.
INDEXES = re.compile(
    r"(?:files\.pythonhosted|pypi\.org/simple|test\.pypi|registry\.npmjs|registry\.yarnpkg)",
    re.IGNORECASE,
)

#: Texts about how the project was written, which no file may contain: they must describe the
#: project itself.
MAKING = re.compile(
    r"\b(?:assistant session|ai assistant|as an ai|language model wrote|co-authored-by)\b",
    re.IGNORECASE,
)

THIS = Path(__file__).resolve()


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize(
    "forbidden",
    [
        pytest.param(MACHINE, id="machine paths"),
        pytest.param(INDEXES, id="package indexes"),
        pytest.param(MAKING, id="how it was made"),
    ],
)
def test_tracked_files_contain_no_forbidden_text(forbidden: re.Pattern[str]) -> None:
    matches = {
        str(path.relative_to(ROOT)): match.group()
        for path in tracked()
        if path != THIS
        and (text := text_of(path)) is not None
        and (match := forbidden.search(text)) is not None
    }
    assert matches == {}


def test_lock_files_contain_no_url() -> None:
    for lock in (ROOT / "requirements").glob("*.lock"):
        assert "://" not in lock.read_text(encoding="utf-8"), lock.name
