"""Documentation pages: up to date, with valid links, and in agreement with the source."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any, get_args

import pytest

from postgres_servers import ServerDatabase
from project.repository import (
    DOCS,
    README,
    ROOT,
    SOURCE,
    headings,
    pages,
    prose_lines,
    read,
    sections,
)
from tools.published_figures import PAGES, Figure, read_cell, render, render_table
from waybook.app.request.plan_arguments import ConditionArgument

LINK = re.compile(r"\]\(([^)\s]+)\)")
MAX_README_LINES = 150
MAX_TERMS = 28
MAX_TARGETS = 16
#: Pattern for two sentences in one line, if the second is not very short.
TWO_SENTENCES = re.compile(r"(?<![\d.…])[.!?] +[A-Z][a-z]+ \w+ \w+ \w+")


def test_generated_files_are_current(shared_place: ServerDatabase) -> None:
    """The generator runs in a new process, because click keeps the help of commands in memory."""
    database = ("--database", shared_place.owner_dsn)
    command = [sys.executable, "-m", "tools.generate", "--check", *database]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `make generate`\n{done.stdout}{done.stderr}"


def test_relative_links_in_the_docs_have_existing_targets() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages()
        for line in prose_lines(page.read_text("utf-8"))
        for link in LINK.findall(line)
        if "://" not in link and not leads_somewhere(page, link)
    ]
    assert broken == []


def leads_somewhere(page: Path, link: str) -> bool:
    """Return whether the file of a link exists and has the heading to which the link leads."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in {anchor_of(h) for h in headings(target.read_text("utf-8"))}


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading on the rendered page."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_docs_have_at_most_a_single_sentence_per_line() -> None:
    lines = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages()
        for line in prose_lines(page.read_text("utf-8"))
        if not line.startswith(("|", "**")) and TWO_SENTENCES.search(line)
    ]
    assert lines == []


# Tests of the README and of commands.


def test_readme_line_count_is_below_limit() -> None:
    assert len(README.read_text("utf-8").splitlines()) < MAX_README_LINES


def test_make_targets_mentioned_in_the_docs_exist_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    harnesses = set(re.findall(r"^harness\.([\w-]+) =", makefile, re.MULTILINE))
    assert len(targets) <= MAX_TARGETS
    for page in pages():
        text = page.read_text("utf-8")
        assert set(re.findall(r"(?:`|\$ )make ([\w-]+)", text)) <= targets, page.name
        assert set(re.findall(r"make harness NAME=([\w-]+)", text)) <= harnesses, page.name


# Tests of the glossary.


def test_glossary_terms_are_sorted_and_used_in_source() -> None:
    words = glossary_terms()
    assert words == sorted(words, key=str.lower)
    assert unused(words) == []


def test_glossary_is_short_and_excludes_terms_that_only_code_uses() -> None:
    table = sections(read("architecture.md"), 2)["Terms in the code"]
    internal = re.findall(r"^\| (\w+) \|", table, re.MULTILINE)[1:]
    assert unused(internal) == []
    assert set(internal).isdisjoint(glossary_terms())
    assert len(glossary_terms()) <= MAX_TERMS


def glossary_terms() -> list[str]:
    return re.findall(r"^\*\*(.+?)\*\*:", read("glossary.md"), re.MULTILINE)


def unused(words: list[str]) -> list[str]:
    source = "\n".join(
        path.read_text("utf-8").lower() for path in SOURCE.rglob("*") if path.suffix in KINDS
    )
    spelled = {word: re.escape(word.lower()).replace(r"\ ", "[ _]") for word in words}
    return [word for word in words if not re.search(rf"\b{spelled[word]}", source)]


KINDS = {".py", ".sql"}


def test_docs_pages_that_list_condition_actions_name_every_action() -> None:
    actions = get_args(ConditionArgument.model_fields["if_true_action"].annotation)
    named = ", ".join(f"`{action}`" for action in actions[:-1]) + f" or `{actions[-1]}`"
    assert named in read("glossary.md")
    assert named in read("reference", "conditions.md")
    for action in actions:
        assert f"`{action}`" in read("how-to", "branch-on-results.md")


# Tests of the contributing guide.


PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
#: Areas of commits that are not packages.
OTHER_AREAS = frozenset(
    {"mcp", "web", "docs", "tests", "harness", "tools", "benchmarks", "examples", "deploy"}
    | {"build", "lang"}
)


def packages() -> set[str]:
    return {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def test_contributing_guide_lists_all_packages_and_other_commit_areas() -> None:
    lines = sections(PAGE, 2)["Commits"].splitlines()
    (listed,) = [line for line in lines if line.startswith("- The area is")]
    assert re.findall(r"`(\w+)`", listed) == [*sorted(packages()), *sorted(OTHER_AREAS)]


def test_layer_table_of_the_contributing_guide_lists_every_package() -> None:
    rows = [line.split("|")[2] for line in sections(PAGE, 2)["Layers"].splitlines() if "|" in line]
    named = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert packages() <= named


# Tests of the site.


broken_links = run_path(str(ROOT / "tools" / "site" / "check_links.py"))["broken_links"]
stage = run_path(str(ROOT / "tools" / "site" / "stage.py"))["stage"]


def listed_pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from listed_pages(below if isinstance(below, list) else [below])


def test_site_navigation_lists_every_docs_page_once() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    listed = sorted(listed_pages(config["project"]["nav"]))
    assert listed == sorted(str(page.relative_to(ROOT)) for page in pages())


def test_site_build_copies_pages_and_linked_files(tmp_path: Path) -> None:
    stage(tmp_path)
    for name in ("README.md", "docs/start.md", "examples/one_agent.py", "docs/pictures/map.svg"):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize(
    ("link", "is_broken"),
    [
        ("other.html", False),
        ("other.html#there", False),
        ("folder/", False),
        ("https://example.org/missing", False),
        ("missing.html", True),
        ("other.html#missing", True),
        ("#missing", True),
        ("folder/missing.py", True),
        ("../outside.html", True),
    ],
)
def test_link_check_reports_links_to_missing_files_and_headings(
    tmp_path: Path, link: str, *, is_broken: bool
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text("")
    (tmp_path / "other.html").write_text('<h2 id="there"></h2>')
    (tmp_path / "page.html").write_text(f'<a href="{link}"></a>')
    assert broken_links(tmp_path) == ([f"page.html: {link}"] if is_broken else [])


# Tests of published figures.


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


def test_page_for_fleet_operators_has_at_most_a_thousand_words() -> None:
    assert len(read("operate.md").split()) <= MAX_WORDS


def test_guides_do_not_mention_how_many_tools_exist() -> None:
    stated = re.compile(rf"\b(?:{NUMBER})(?: \w+)? tools\b", re.IGNORECASE)
    lines = [
        f"{page.name}: {line}"
        for page in (README, *DOCS.rglob("*.md"))
        if "decisions" not in page.parts
        for line in prose_lines(page.read_text("utf-8"))
        if stated.search(line)
    ]
    assert lines == []
