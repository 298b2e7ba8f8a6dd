"""GitHub issues with a task list, as `gh issue view --json title,body` prints them."""

import re
from dataclasses import replace
from typing import Any, Final

from waybook.importers.located_json import LocatedObject, read_json, required_text, text_field
from waybook.importers.markdown import read_check_list
from waybook.importers.steps import Item, ItemList, at_line

#: Reference to an issue at the beginning of an item, which names the item for other items.
_ISSUE: Final = re.compile(r"(?:[\w.-]+/[\w.-]+)?#(\d{1,9})\b|\S*/(?:issues|pull)/(\d{1,9})\b")


def is_github_issue(data: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether parsed JSON has the form of an issue of `gh`."""
    return isinstance(data, LocatedObject) and isinstance(data.get("body"), str)


def read_github_issue(text: str) -> ItemList:
    """Return the task list of an issue; lines in errors are those of the issue's body.

    Raises:
        InvalidInput: the JSON is not an issue, or the issue has no task list; with the line.
    """
    data = read_json(text)
    if not is_github_issue(data):
        raise at_line(1, "this is not an issue: run gh issue view NUMBER --json title,body,url")
    items = [*read_check_list(text_field(data, "body"))]
    if not items:
        raise at_line(data.line, "the body of this issue has no task list, such as “- [ ] task”")
    item_list = ItemList(name=required_text(data, "title"), ignores_unknown=True)
    item_list.question = "\n\n".join(
        part for part in (item_list.name, text_field(data, "url")) if part
    )
    issue_keys = {number: item.key for item in items if (number := _issue_number(item))}
    for item in items:
        item_list.add(_resolved(item, issue_keys))
    return item_list


def _issue_number(item: Item) -> str | None:
    match = _ISSUE.match(item.title)
    return f"#{match[1] or match[2]}" if match else None


def _resolved(item: Item, issue_keys: dict[str, str]) -> Item:
    """Return the item with `#12` replaced by the key of the item about issue 12, if any."""
    after = [(issue_keys.get(key, key), line) for key, line in item.after]
    return replace(item, after=tuple(after))
