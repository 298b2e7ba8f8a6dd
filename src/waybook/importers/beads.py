"""Reads the issues of the issue tracker beads: one JSON object in each line."""

from collections import defaultdict
from typing import Final

from waybook.importers.located_json import (
    LocatedObject,
    key_field,
    list_field,
    read_json_lines,
    required_text,
    text_field,
)
from waybook.importers.steps import Item, ItemList, at_line

DONE: Final = frozenset({"closed", "done"})
DELETED: Final = frozenset({"tombstone"})
#: Kinds of dependencies that block an issue. Other kinds only link issues.
BLOCKING: Final = frozenset({"blocks", "conditional-blocks", "waits-for"})
PARENT: Final = "parent-child"
TEXTS: Final = (
    ("description", ""),
    ("design", "Design:"),
    ("acceptance_criteria", "Acceptance criteria:"),
    ("notes", "Notes:"),
)


def is_beads(first: object) -> bool:
    return (
        isinstance(first, LocatedObject)
        and {"id", "title"} <= first.keys()
        and ("issue_type" in first or "status" in first)
    )


def read_beads(text: str) -> ItemList:
    """Return the issues of a beads file. An issue depends on its blockers and its children.

    Raises:
        InvalidInput: a line is not an issue; the error names the line.
    """
    item_list = ItemList(name="beads", is_graph=True, ignores_unknown=True)
    issues = [issue for issue in read_json_lines(text) if not _is_deleted(issue)]
    after: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for issue in issues:
        key = key_field(issue)
        for link in list_field(issue, "dependencies"):
            _link(issue, key, link, after)
    for issue in issues:
        key = key_field(issue)
        item_list.add(
            Item(
                key=key,
                title=required_text(issue, "title"),
                text=_text(issue),
                line=issue.line,
                done=text_field(issue, "status") in DONE,
                after=tuple(after[key]),
            )
        )
    return item_list


def _is_deleted(issue: LocatedObject) -> bool:
    return text_field(issue, "status") in DELETED


def _link(
    issue: LocatedObject, key: str, link: object, after: dict[str, list[tuple[str, int]]]
) -> None:
    if not isinstance(link, LocatedObject):
        raise at_line(issue.line, "a dependency is not a JSON object")
    target, kind = key_field(link, "depends_on_id"), text_field(link, "type") or "blocks"
    if kind in BLOCKING:
        after[key].append((target, issue.line))
    elif kind == PARENT:
        after[target].append((key, issue.line))


def _text(issue: LocatedObject) -> str:
    parts = [(heading, text_field(issue, name).strip()) for name, heading in TEXTS]
    return "\n\n".join(f"{heading}\n{text}".strip() for heading, text in parts if text)
