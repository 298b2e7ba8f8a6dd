"""Reads issues from the JSON that `gh` and the API of GitHub print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from waybook.errors import InvalidInput
from waybook.importers.located_json import (
    LocatedObject,
    list_field,
    read_json,
    read_json_lines,
    text_field,
)

_WRAPPERS: Final = (
    *("event", "issue", "issueOrPullRequest", "issues", "search", "items", "nodes"),
    *("data", "node", "resource", "repository"),
)
#: End of an issue's URL. The lengths are limited, so that the search stays fast.
_ADDRESS: Final = re.compile(r"([\w.-]{1,99}/[\w.-]{1,99})/(?:issues|pull)/(\d{1,9})(?![\w/])")
_CLOSED: Final = frozenset({"closed", "merged"})


@dataclass(frozen=True, slots=True)
class IssueDocument:
    issues: list[Any]
    is_list: bool


def read_document(text: str) -> IssueDocument:
    """Return the issues of a JSON document, or of JSON Lines with one issue in each line.

    Raises:
        InvalidInput: the document is not JSON; the error names the line.
    """
    text = text.removeprefix("\ufeff")
    try:
        data = read_json(text)
    except InvalidInput:
        start = text.lstrip()
        first_line = text.count("\n", 0, len(text) - len(start)) + 1
        try:
            read_json(start.split("\n", 1)[0].strip(), first_line)
        except InvalidInput:
            pass
        else:
            return IssueDocument([*read_json_lines(text)], is_list=True)
        raise
    return find_issues(data)


def find_issues(data: Any) -> IssueDocument:  # noqa: ANN401 - JSON
    while isinstance(data, LocatedObject) and not data.keys() & {"title", "body"}:
        data = next(
            (data[name] for name in _WRAPPERS if isinstance(data.get(name), LocatedObject | list)),
            None,
        )
    if isinstance(data, LocatedObject):
        return IssueDocument([data], is_list=False)
    return IssueDocument([*_flatten(data)] if isinstance(data, list) else [], is_list=True)


def is_github(data: Any) -> bool:  # noqa: ANN401 - JSON
    issue = next(iter(find_issues(data).issues), None)
    if not isinstance(issue, LocatedObject):
        return False
    if number_of(issue) is not None:
        return bool(issue.keys() & {"title", "body", "state", "labels"})
    return isinstance(issue.get("body"), str) or {"title", "body"} <= issue.keys()


def _flatten(values: list[Any]) -> Iterator[Any]:
    """Yield the values of all pages that `gh api --paginate --slurp` prints."""
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def is_closed(issue: LocatedObject) -> bool:
    return str(issue.get("state")).lower() in _CLOSED


def is_pull_request(issue: LocatedObject) -> bool:
    """Return whether an entry is a pull request. The API lists pull requests among issues."""
    return isinstance(issue.get("pull_request"), LocatedObject) or (
        issue.get("isPullRequest") is True or issue.get("__typename") == "PullRequest"
    )


def address_of(issue: LocatedObject) -> str:
    """Return the address of an issue's web page. The API's `url` field is not a web page."""
    return text_field(issue, "html_url") or text_field(issue, "url")


def repository_of(issue: LocatedObject) -> str:
    address = _ADDRESS.search(address_of(issue))
    if address:
        return address[1]
    repository = issue.get("repository")
    name = repository.get("nameWithOwner") if isinstance(repository, LocatedObject) else None
    return name if isinstance(name, str) else ""


def number_of(issue: LocatedObject) -> int | None:
    number = issue.get("number")
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    address = _ADDRESS.search(address_of(issue))
    return int(address[2]) if address else None


def issue_key(repository: str, number: int | str) -> str:
    """Return the key of an issue. It is unique across repositories.

    >>> issue_key("Octo/App", 7)
    'octo/app#7'
    """
    return f"{repository.lower()}#{number}"


def linked_issues(issue: LocatedObject, name: str) -> list[LocatedObject]:
    value = issue.get(name)
    nodes = list_field(value, "nodes") if isinstance(value, LocatedObject) else None
    linked = list_field(issue, name) if nodes is None else nodes
    return [node for node in linked if isinstance(node, LocatedObject)]


def linked_key(node: LocatedObject, repository: str) -> str:
    return issue_key(repository_of(node) or repository, number_of(node) or 0)
