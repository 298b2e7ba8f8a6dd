"""Finds the visible text of an issue's body, and the issues that block it."""

import re
from collections.abc import Iterator
from typing import Final

from waybook.importers.github_json import issue_key
from waybook.importers.markdown import MAX_LINE_LENGTH, Line, split_lines

_REFERENCE: Final = (
    r"(?:(?:[\w.-]{1,99}/[\w.-]{1,99})?#\d{1,9}(?![\w-])"
    r"|https?://\S{1,199}?/(?:issues|pull)/\d{1,9}(?![\w/]))"
)
_LIST: Final = rf"{_REFERENCE}(?:[\s,;&()\[\]*_-]{{0,9}}(?:and\s{{1,9}})?{_REFERENCE})*"
_BLOCKED: Final = re.compile(
    rf"\b(?:depends\s+on|blocked\s+by|requires|needs)\b[\s:*_(\[-]{{0,9}}({_LIST})", re.IGNORECASE
)
_SECTION: Final = re.compile(
    r"[#*_\s]*(?:blocked by|depends on|dependencies|blockers)[:*_\s]*", re.IGNORECASE
)
_SECTION_LINE: Final = re.compile(
    rf"\s*(?:(?:[-*+]|\d{{1,9}}[.)])\s+)?(?:\[[ xX]\]\s+)?[\[(*]{{0,3}}({_LIST})"
)
_PART: Final = re.compile(
    r"(?P<repository>[\w.-]+/[\w.-]+)?#(?P<number>\d{1,9})"
    r"|(?P<linked>[\w.-]+/[\w.-]+)/(?:issues|pull)/(?P<linked_number>\d{1,9})"
)


def read_body(body: str, repository: str) -> tuple[str, list[str]]:
    r"""Return an issue's body without hidden comments, and the keys of the issues that block it.

    >>> read_body("Fast.\n\n## Blocked by\n- #7 the parser", "octo/app")
    ('Fast.\n\n## Blocked by\n- #7 the parser', ['octo/app#7'])
    """
    lines = [*split_lines(cut_lines(body))]
    text = "\n".join(line.text.rstrip() for line in lines).strip()
    return text, [*dict.fromkeys(_references(lines, repository))]


def cut_lines(body: str) -> str:
    return "\n".join(line[:MAX_LINE_LENGTH] for line in body.split("\n"))


def _references(lines: list[Line], repository: str) -> Iterator[str]:
    is_section = False
    for line in lines:
        if line.is_code:
            continue
        if _SECTION.fullmatch(line.text):
            is_section = True
            continue
        if line.heading():
            is_section = False
        lists = [match[1] for match in _BLOCKED.finditer(line.text)]
        if is_section and (match := _SECTION_LINE.match(line.text)):
            lists.append(match[1])
        for text in lists:
            for part in _PART.finditer(text):
                name = part["repository"] or part["linked"] or repository
                yield issue_key(name, part["number"] or part["linked_number"])
