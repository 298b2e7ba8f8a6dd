"""Reads GitHub issues: the task list and sub-issues of one issue, or a list of issues."""

import re
from typing import Any, Final

from waybook.importers.markdown import MAX_LINE_LENGTH, read_check_list, split_lines
from waybook.importers.steps import (
    MAX_TEXT_LENGTH,
    Item,
    ItemList,
    LocatedObject,
    at_line,
    list_field,
    read_document,
    text_field,
)

_WRAPPERS: Final = (
    *("event", "issue", "issueOrPullRequest", "issues", "search", "items", "nodes"),
    *("data", "node", "resource", "repository"),
)
#: End of an issue's URL. The pattern limits the length of each part, so that a search stays fast.
_ADDRESS: Final = re.compile(r"([\w.-]{1,99}/[\w.-]{1,99})/(?:issues|pull)/(\d{1,9})(?![\w/])")
_CLOSED: Final = frozenset({"closed", "merged"})


def _find_issues(data: Any) -> LocatedObject | list[Any]:  # noqa: ANN401 - JSON
    """Return one issue, or the list of issues. The items of the list may be any JSON values."""
    while isinstance(data, LocatedObject) and not data.keys() & {"title", "body"}:
        data = next(
            (data[name] for name in _WRAPPERS if isinstance(data.get(name), LocatedObject | list)),
            None,
        )
    if isinstance(data, LocatedObject):
        return data
    # `gh api --paginate --slurp` prints a list of pages.
    pages = data if isinstance(data, list) else []
    return [issue for page in pages for issue in (page if isinstance(page, list) else [page])]


def is_github(data: Any) -> bool:  # noqa: ANN401 - JSON
    found = _find_issues(data)
    issue = next(iter(found), None) if isinstance(found, list) else found
    if not isinstance(issue, LocatedObject):
        return False
    if _number_of(issue) is not None:
        return bool(issue.keys() & {"title", "body", "state", "labels"})
    return isinstance(issue.get("body"), str) or {"title", "body"} <= issue.keys()


def is_closed(issue: LocatedObject) -> bool:
    return str(issue.get("state")).lower() in _CLOSED


def _address_of(issue: LocatedObject) -> str:
    """Return the address of an issue's web page. The API's `url` field is not a web page."""
    return text_field(issue, "html_url") or text_field(issue, "url")


def _repository_of(issue: LocatedObject) -> str:
    address = _ADDRESS.search(_address_of(issue))
    if address:
        return address[1]
    repository = issue.get("repository")
    name = repository.get("nameWithOwner") if isinstance(repository, LocatedObject) else None
    return name if isinstance(name, str) else ""


def _number_of(issue: LocatedObject) -> int | None:
    number = issue.get("number")
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    address = _ADDRESS.search(_address_of(issue))
    return int(address[2]) if address else None


def _issue_key(repository: str, number: int | str) -> str:
    """Return the key of an issue. It is unique across repositories.

    >>> _issue_key("Octo/App", 7)
    'octo/app#7'
    """
    return f"{repository.lower()}#{number}"


def _linked_issues(issue: LocatedObject, name: str) -> list[LocatedObject]:
    value = issue.get(name)
    nodes = list_field(value, "nodes") if isinstance(value, LocatedObject) else None
    linked = list_field(issue, name) if nodes is None else nodes
    return [node for node in linked if isinstance(node, LocatedObject)]


def _linked_key(node: LocatedObject, repository: str) -> str:
    return _issue_key(_repository_of(node) or repository, _number_of(node) or 0)


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
    lines, keys = [*split_lines(_cut_lines(body))], dict[str, None]()
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
                keys[_issue_key(name, part["number"] or part["linked_number"])] = None
    return "\n".join(line.text.rstrip() for line in lines).strip(), [*keys]


def _cut_lines(body: str) -> str:
    return "\n".join(line[:MAX_LINE_LENGTH] for line in body.split("\n"))


#: Issue number or URL at the beginning of an item.
_ISSUE: Final = re.compile(r"(?:[\w.-]+/[\w.-]+)?#(\d{1,9})\b|\S*/(?:issues|pull)/(\d{1,9})\b")
_COMMANDS: Final = (
    "run gh issue view NUMBER --json title,body,url,subIssues, "
    "or gh issue list --json number,title,body,state,url"
)
_CUT: Final = "(The rest of this issue is too long for a step.)"


def read_github(text: str) -> ItemList:
    """Return the checklist of one issue, or one task for each issue of a list."""
    found = _find_issues(read_document(text))
    if not isinstance(found, list):
        return _read_issue(_with_title(found))
    issues: list[LocatedObject] = []
    for place, value in enumerate(found, start=1):
        if not isinstance(value, LocatedObject):
            line = issues[-1].line if issues else 1
            raise at_line(line, f"entry {place} of this list is not an issue: {_COMMANDS}")
        issues.append(_with_title(value))
    if not issues:
        raise at_line(1, f"there is no issue in this file: {_COMMANDS}")
    return _read_list(issues)


def _with_title(issue: LocatedObject) -> LocatedObject:
    if not text_field(issue, "title").strip():
        number = _number_of(issue)
        name = "this issue" if number is None else f"issue #{number}"
        raise at_line(issue.line, f"{name} has no title: {_COMMANDS}")
    return issue


def _read_issue(issue: LocatedObject) -> ItemList:
    items = read_check_list(_cut_lines(text_field(issue, "body")))
    issue_keys = {number: item.key for item in items if (number := _issue_number(item))}
    # Read both: sub-issues replaced task lists on GitHub, but an issue can have both.
    subs: dict[str, LocatedObject] = {}
    for sub in _linked_issues(issue, "subIssues"):
        if _number_of(sub) is None:
            raise at_line(sub.line, "a sub-issue has no number")
        subs[f"#{_number_of(sub)}"] = sub
    closed = {number for number, sub in subs.items() if is_closed(sub)}
    items = [i._replace(done=True) if _issue_number(i) in closed else i for i in items]
    for number, sub in subs.items():
        if number not in issue_keys:
            issue_keys[number] = number
            text = "\n\n".join(part for part in (_title(sub), _address_of(sub)) if part)
            done = is_closed(sub)
            items.append(Item(key=number, title=_title(sub), text=text, line=sub.line, done=done))
    if not items:
        raise at_line(
            issue.line,
            "this issue has no task list, such as “- [ ] task”, and no sub-issues; "
            "gh prints sub-issues with --json title,body,url,subIssues",
        )
    name = text_field(issue, "title").strip()
    question = "\n\n".join(part for part in (name, _address_of(issue)) if part)
    items = [
        item._replace(after=tuple((issue_keys.get(key, key), line) for key, line in item.after))
        for item in items
    ]
    return ItemList(items, name, question, ignores_unknown=True)


def _issue_number(item: Item) -> str | None:
    match = _ISSUE.match(item.title)
    return f"#{match[1] or match[2]}" if match else None


def _title(issue: LocatedObject) -> str:
    number, title = _number_of(issue), text_field(issue, "title").strip()
    return title if number is None else f"#{number} {title}".strip()


def _read_list(issues: list[LocatedObject]) -> ItemList:
    # The API lists pull requests among issues.
    tasks = [
        issue
        for issue in issues
        if not isinstance(issue.get("pull_request"), LocatedObject)
        and issue.get("isPullRequest") is not True
        and issue.get("__typename") != "PullRequest"
    ]
    if not tasks:
        raise at_line(issues[0].line, "this list has only pull requests, and no issues")
    repositories = {name for issue in tasks if (name := _repository_of(issue))}
    items = [_listed_issue(issue, place) for place, issue in enumerate(tasks, start=1)]
    children = _children(tasks, items)
    for place, item in enumerate(items):
        waits_for = dict([*children.get(item.key, ()), *item.after])
        waits_for.pop(item.key, None)
        items[place] = item._replace(after=tuple(waits_for.items()))
    return ItemList(
        items,
        name=f"Issues of {min(repositories)}" if len(repositories) == 1 else "GitHub issues",
        is_graph=True,
        ignores_unknown=True,
        pull_requests=len(issues) - len(tasks),
    )


def _listed_issue(issue: LocatedObject, place: int) -> Item:
    number, repository = _number_of(issue), _repository_of(issue)
    words, references = read_body(text_field(issue, "body"), repository)
    blocked_by = [
        _linked_key(node, repository)
        for node in _linked_issues(issue, "blockedBy")
        if not is_closed(node)
    ]
    address = _address_of(issue)
    rest = f"\n\n{address}" if address else ""
    text = f"{_title(issue)}\n\n{words}".strip()
    if len(text) + len(rest) > MAX_TEXT_LENGTH:
        rest = f"\n\n{_CUT}{rest}"
        text = text[: MAX_TEXT_LENGTH - len(rest)]
    return Item(
        key=str(place) if number is None else _issue_key(repository, number),
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
        repository, parent = _repository_of(issue), issue.get("parent")
        if isinstance(parent, LocatedObject):
            key = _linked_key(parent, repository)
            children.setdefault(key, []).append((item.key, item.line))
        for sub in _linked_issues(issue, "subIssues"):
            if (key := _linked_key(sub, repository)) in listed:
                children.setdefault(item.key, []).append((key, item.line))
    return children
