"""Published figures: copied from the measurements, with a reason for each missed goal."""

import re

import pytest

from project.repository import DOCS, README, prose_lines, read
from tools.published_figures import PAGES, Figure, read_cell, render, render_table

TABLE = """\
| figure | value | verdict |
| --- | ---: | --- |
| rate | 0.5 | goal not reached |
"""
MAX_WORDS = 1_000
NUMBER = (
    r"\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|"
    r"eigh|nine)teen|(?:twen|thir|for)ty(?:-\w+)?"
)


@pytest.mark.parametrize("name", PAGES)
def test_published_figures_equal_the_measured_figures(name: str) -> None:
    assert render(name) == read(name), "run `python -m tools.published_figures`"


def test_published_figure_with_missed_goal_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="no reason is given"):
        render_table((Figure("Is it fast?", "rate", "value"),), TABLE)
    figure = Figure("Is it fast?", "rate", "value", remark="the disk is slow")
    assert render_table((figure,), TABLE).endswith("| Is it fast? | 0.5 | the disk is slow |")


def test_published_figure_without_measurement_is_refused() -> None:
    with pytest.raises(LookupError):
        read_cell(TABLE, "rate", "noise")


def test_docs_page_for_fleet_operators_stays_short() -> None:
    assert len(read("operate.md").split()) <= MAX_WORDS


def test_guides_state_no_number_of_tools() -> None:
    stated = re.compile(rf"\b(?:{NUMBER})(?: \w+)? tools\b", re.IGNORECASE)
    lines = [
        f"{page.name}: {line}"
        for page in (README, *DOCS.rglob("*.md"))
        if "decisions" not in page.parts
        for line in prose_lines(page.read_text("utf-8"))
        if stated.search(line)
    ]
    assert lines == []
