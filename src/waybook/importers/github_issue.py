"""Reads GitHub issues: the task list and sub-issues of one issue, or a list of issues."""

import re
from dataclasses import replace
from typing import Final

from waybook.importers.github_json import (
    address_of,
    is_closed,
    is_pull_request,
    issue_key,
    linked_issues,
    linked_key,
    number_of,
    read_document,
    repository_of,
)
from waybook.importers.github_references import cut_lines, read_body
from waybook.importers.located_json import LocatedObject, text_field
from waybook.importers.markdown import read_check_list
from waybook.importers.steps import MAX_TEXT_LENGTH, Item, ItemList, at_line

#: Issue number or URL at the beginning of an item.
_ISSUE: Final = re.compile(r"(?:[\w.-]+/[\w.-]+)?#(\d{1,9})\b|\S*/(?:issues|pull)/(\d{1,9})\b")
_COMMANDS: Final = (
    "run gh issue view NUMBER --json title,body,url,subIssues, "
    "or gh issue list --json number,title,body,state,url"
)
_CUT: Final = "(The rest of this issue is too long for a step.)"


def read_github(text: str) -> ItemList:
    """Return the tasks of one issue, or one task for each issue of a list.

    Raises:
        InvalidInput: the JSON contains no issue, or the issue no tasks; the error names the line.
    """
    document = read_document(text)
    if not document.is_list:
        return _read_issue(_with_title(document.issues[0]))
    issues: list[LocatedObject] = []
    for place, value in enumerate(document.issues, start=1):
        if not isinstance(value, LocatedObject):
            line = issues[-1].line if issues else 1
            raise at_line(line, f"entry {place} of this list is not an issue: {_COMMANDS}")
        issues.append(_with_title(value))
    if not issues:
        raise at_line(1, f"there is no issue in this file: {_COMMANDS}")
    return _read_list(issues)


def _with_title(issue: LocatedObject) -> LocatedObject:
    if not text_field(issue, "title").strip():
        number = number_of(issue)
        name = "this issue" if number is None else f"issue #{number}"
        raise at_line(issue.line, f"{name} has no title: {_COMMANDS}")
    return issue


def _read_issue(issue: LocatedObject) -> ItemList:
    items = read_check_list(cut_lines(text_field(issue, "body")))
    issue_keys = {number: item.key for item in items if (number := _issue_number(item))}
    # Sub-issues replaced task lists on GitHub. An issue can have both.
    subs = {f"#{_required_number(sub)}": sub for sub in linked_issues(issue, "subIssues")}
    items = [_with_state(item, subs) for item in items]
    for number, sub in subs.items():
        if number not in issue_keys:
            issue_keys[number] = number
            items.append(_sub_issue(sub, number))
    if not items:
        raise at_line(
            issue.line,
            "this issue has no task list, such as “- [ ] task”, and no sub-issues; "
            "gh prints sub-issues with --json title,body,url,subIssues",
        )
    item_list = ItemList(name=text_field(issue, "title").strip(), ignores_unknown=True)
    item_list.question = "\n\n".join(part for part in (item_list.name, address_of(issue)) if part)
    for item in items:
        item_list.add(_resolved(item, issue_keys))
    return item_list


def _required_number(sub: LocatedObject) -> int:
    number = number_of(sub)
    if number is None:
        raise at_line(sub.line, "a sub-issue has no number")
    return number


def _with_state(item: Item, subs: dict[str, LocatedObject]) -> Item:
    sub = subs.get(_issue_number(item) or "")
    return replace(item, done=True) if sub is not None and is_closed(sub) else item


def _issue_number(item: Item) -> str | None:
    match = _ISSUE.match(item.title)
    return f"#{match[1] or match[2]}" if match else None


def _resolved(item: Item, issue_keys: dict[str, str]) -> Item:
    after = [(issue_keys.get(key, key), line) for key, line in item.after]
    return replace(item, after=tuple(after))


def _sub_issue(sub: LocatedObject, key: str) -> Item:
    return Item(
        key=key,
        title=_title(sub),
        text="\n\n".join(part for part in (_title(sub), address_of(sub)) if part),
        line=sub.line,
        done=is_closed(sub),
    )


def _title(issue: LocatedObject) -> str:
    number, title = number_of(issue), text_field(issue, "title").strip()
    return title if number is None else f"#{number} {title}".strip()


def _read_list(issues: list[LocatedObject]) -> ItemList:
    tasks = [issue for issue in issues if not is_pull_request(issue)]
    if not tasks:
        raise at_line(issues[0].line, "this list has only pull requests, and no issues")
    repositories = {name for issue in tasks if (name := repository_of(issue))}
    item_list = ItemList(
        name=f"Issues of {min(repositories)}" if len(repositories) == 1 else "GitHub issues",
        is_graph=True,
        ignores_unknown=True,
        pull_requests=len(issues) - len(tasks),
    )
    items = [_listed_issue(issue, place) for place, issue in enumerate(tasks, start=1)]
    children = _children(tasks, items)
    for item in items:
        waits_for = dict([*children.get(item.key, ()), *item.after])
        waits_for.pop(item.key, None)
        item_list.add(replace(item, after=tuple(waits_for.items())))
    return item_list


def _listed_issue(issue: LocatedObject, place: int) -> Item:
    number, repository = number_of(issue), repository_of(issue)
    words, references = read_body(text_field(issue, "body"), repository)
    blocked_by = [
        linked_key(node, repository)
        for node in linked_issues(issue, "blockedBy")
        if not is_closed(node)
    ]
    address = address_of(issue)
    rest = f"\n\n{address}" if address else ""
    text = f"{_title(issue)}\n\n{words}".strip()
    if len(text) + len(rest) > MAX_TEXT_LENGTH:
        rest = f"\n\n{_CUT}{rest}"
        text = text[: MAX_TEXT_LENGTH - len(rest)]
    return Item(
        key=str(place) if number is None else issue_key(repository, number),
        title=_title(issue),
        text=text + rest,
        line=issue.line,
        done=is_closed(issue),
        after=tuple((key, issue.line) for key in (*blocked_by, *references)),
    )


def _children(issues: list[LocatedObject], items: list[Item]) -> dict[str, list[tuple[str, int]]]:
    listed = {item.key for item in items}
    children: dict[str, list[tuple[str, int]]] = {}
    for issue, item in zip(issues, items, strict=True):
        repository, parent = repository_of(issue), issue.get("parent")
        if isinstance(parent, LocatedObject):
            key = linked_key(parent, repository)
            children.setdefault(key, []).append((item.key, item.line))
        for sub in linked_issues(issue, "subIssues"):
            if (key := linked_key(sub, repository)) in listed:
                children.setdefault(item.key, []).append((key, item.line))
    return children
