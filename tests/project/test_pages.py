"""Documentation pages: up to date, linked, one sentence per line, consistent with the source."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from postgres_servers import ServerDatabase
from project.repository import README, ROOT, SOURCE, headings, pages, prose_lines, read, sections
from waybook.app.request.plan_arguments import ConditionArgument

LINK = re.compile(r"\]\(([^)\s]+)\)")
MAX_README_LINES = 150
MAX_TERMS = 28
MAX_TARGETS = 16
#: Pattern for a sentence that is followed by another sentence on the same line. Lists of short
#: sentences are allowed.
TWO_SENTENCES = re.compile(r"(?<![\d.…])[.!?] +[A-Z][a-z]+ \w+ \w+ \w+")


def test_generated_files_are_current(shared_place: ServerDatabase) -> None:
    """The help is generated in a new process, because click caches the help of commands."""
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
    """Return whether a link's file exists and, if the link has an anchor, its heading exists."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in {anchor_of(h) for h in headings(target.read_text("utf-8"))}


def anchor_of(heading: str) -> str:
    """Return the anchor that a heading has on the rendered page."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_docs_have_at_most_a_single_sentence_per_line() -> None:
    lines = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages()
        for line in prose_lines(page.read_text("utf-8"))
        if not line.startswith(("|", "**")) and TWO_SENTENCES.search(line)
    ]
    assert lines == []


# README


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


def test_glossary_has_few_terms_and_none_used_only_in_code() -> None:
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
