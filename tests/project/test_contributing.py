"""The contributing guide names the packages and the make targets that exist."""

import re

from project.repository import ROOT, SOURCE, sections

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
#: Areas of commits that are no packages: two parts of `transport`, and what is outside of `src`.
OTHER_AREAS = frozenset(
    {"mcp", "web", "docs", "tests", "harness", "tools", "benchmarks", "examples", "deploy"}
    | {"build", "lang"}
)


def packages() -> set[str]:
    return {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def test_documented_commit_areas_are_the_packages_and_few_other_words() -> None:
    lines = sections(PAGE, 2)["Commits"].splitlines()
    (listed,) = [line for line in lines if line.startswith("- The area is")]
    assert re.findall(r"`(\w+)`", listed) == [*sorted(packages()), *sorted(OTHER_AREAS)]


def test_layer_table_of_the_contributing_guide_lists_every_package() -> None:
    rows = [line.split("|")[2] for line in sections(PAGE, 2)["Layers"].splitlines() if "|" in line]
    named = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert packages() <= named
