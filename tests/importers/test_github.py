"""Import of GitHub issues from the JSON of `gh` and of GitHub's API."""

import json
from typing import Any

import pytest

from waybook.errors import InvalidInput
from waybook.importers.formats import PlanFormat, detect_format, read_plan
from waybook.importers.steps import MAX_TEXT_LENGTH, ImportedPlan

SITE = "https://github.com/octo/app"


def gh_issue(number: int, title: str, body: str = "", **fields: object) -> dict[str, Any]:
    return {
        "assignees": [{"id": "MDQ6VXNlcjE=", "login": "ada", "name": "", "databaseId": 1}],
        "author": {"id": "U_1", "is_bot": False, "login": "ada", "name": "Ada"},
        "body": body,
        "closedAt": None,
        "comments": [],
        "isPinned": False,
        "labels": [{"id": "LA_1", "name": "bug", "description": "", "color": "d73a4a"}],
        "milestone": None,
        "number": number,
        "projectItems": [],
        "state": "OPEN",
        "stateReason": "",
        "title": title,
        "url": f"{SITE}/issues/{number}",
        **fields,
    }


def rest_issue(number: int, title: str, body: str | None, **fields: object) -> dict[str, Any]:
    """Return an issue as in the REST API, where `url` is not the address of a page."""
    return {
        "url": f"https://api.github.com/repos/octo/app/issues/{number}",
        "repository_url": "https://api.github.com/repos/octo/app",
        "html_url": f"{SITE}/issues/{number}",
        "id": 900 + number,
        "number": number,
        "title": title,
        "user": {"login": "ada", "type": "User"},
        "labels": [],
        "state": "open",
        "assignee": None,
        "milestone": None,
        "comments": 0,
        "closed_at": None,
        "author_association": "NONE",
        "sub_issues_summary": {"total": 0, "completed": 0, "percent_completed": 0},
        "issue_dependencies_summary": {"blocked_by": 0, "blocking": 0},
        "body": body,
        "state_reason": None,
        **fields,
    }


def nodes(*issues: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": [*issues], "totalCount": len(issues)}


def node(number: int, state: str = "OPEN", repository: str = "octo/app") -> dict[str, Any]:
    url = f"https://github.com/{repository}/issues/{number}"
    return {"id": f"I_{number}", "number": number, "state": state, "title": "x", "url": url}


def read(data: object, *, include_done: bool = False) -> ImportedPlan:
    text = json.dumps(data)
    assert detect_format(text) is PlanFormat.GITHUB
    return read_plan(text, include_done=include_done)


def edges(plan: ImportedPlan) -> dict[str, tuple[int, ...]]:
    return {step.title or step.instructions: step.depends_on for step in plan.steps}


def test_gh_issue_list_gives_a_step_for_each_open_issue() -> None:
    plan = read(
        [
            gh_issue(9, "Print", "Nicely.\r\nIn color.", blockedBy=nodes(node(7), node(5))),
            gh_issue(8, "Old", state="CLOSED", stateReason="COMPLETED"),
            gh_issue(7, "Parse", blockedBy=nodes(node(6, "CLOSED"))),
        ]
    )
    assert (plan.name, plan.left_out, plan.ignored) == ("Issues of octo/app", 1, 1)
    assert edges(plan) == {"#7 Parse": (), "#9 Print": (1,)}
    assert plan.steps[1].instructions == f"#9 Print\n\nNicely.\nIn color.\n\n{SITE}/issues/9"


def test_imported_parent_issue_depends_on_listed_sub_issues() -> None:
    issues = [
        gh_issue(1, "Epic", subIssues=nodes(node(2), node(50))),
        gh_issue(2, "First", parent=node(1)),
        gh_issue(3, "Second", parent=node(1)),
        gh_issue(4, "Alone", parent=node(60)),
    ]
    plan = read(issues)
    assert edges(plan) == {"#2 First": (), "#3 Second": (), "#1 Epic": (1, 2), "#4 Alone": ()}
    assert plan.ignored == 0


def test_import_of_github_rest_issue_list_leaves_out_pull_requests() -> None:
    address = {"url": "https://api.github.com/repos/octo/app/pulls/3", "merged_at": None}
    plan = read(
        [
            rest_issue(4, "Empty", None),
            rest_issue(3, "Patch", "- [ ] tested", pull_request=address, draft=False),
            rest_issue(2, "Done", "x", state="closed", state_reason="completed"),
        ]
    )
    assert (edges(plan), plan.left_out, plan.pull_requests) == ({"#4 Empty": ()}, 1, 1)
    assert plan.steps[0].instructions == f"#4 Empty\n\n{SITE}/issues/4"


LISTED = [rest_issue(1, "A", "a"), rest_issue(2, "B", "blocked by #1")]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(LISTED),
        json.dumps(LISTED, indent=2),
        json.dumps([LISTED[:1], LISTED[1:]]),
        json.dumps({"total_count": 2, "incomplete_results": False, "items": LISTED}),
        json.dumps({"data": {"repository": {"issues": nodes(*LISTED)}}}),
        json.dumps({"data": {"repository": {"hasIssuesEnabled": True}, "search": nodes(*LISTED)}}),
        "\n" + "\n".join(map(json.dumps, LISTED)) + "\n",
        "\ufeff" + json.dumps(LISTED),
    ],
    ids=["list", "indented", "pages", "search", "graphql", "graphql-search", "lines", "mark"],
)
def test_all_kinds_of_json_issue_lists_give_same_plan(text: str) -> None:
    assert detect_format(text) is PlanFormat.GITHUB
    assert edges(read_plan(text)) == {"#1 A": (), "#2 B": (1,)}


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda issue: issue,
        lambda issue: {"action": "opened", "issue": issue, "repository": {"full_name": "octo/app"}},
        lambda issue: {"token": "***", "event": {"action": "opened", "issue": issue}},
        lambda issue: {"data": {"repository": {"hasIssuesEnabled": True, "issue": issue}}},
    ],
    ids=["issue", "event", "context", "graphql"],
)
def test_github_task_list_is_imported_from_all_kinds_of_json(wrapped: Any) -> None:  # noqa: ANN401
    plan = read(wrapped(rest_issue(5, "Ship", "- [ ] build\r\n- [ ] send (after 1)")))
    assert edges(plan) == {"build": (), "send": (1,)}
    assert plan.question == f"Ship\n\n{SITE}/issues/5"


def test_github_sub_issues_and_task_list_items_both_become_steps() -> None:
    body = "- [ ] #12\n- [ ] Announce (depends on #13)\n- [ ] #14 Docs"
    subs = nodes(node(12, "CLOSED"), node(13), node(14))
    plan = read(gh_issue(10, "Ship", body, subIssues=subs))
    assert edges(plan) == {"Announce": (3,), "#14 Docs": (), "#13 x": ()}
    assert plan.left_out == 1
    only = read({"title": "Ship", "body": "", "subIssues": nodes(node(13), node(15, "CLOSED"))})
    assert (edges(only), only.left_out) == ({"#13 x": ()}, 1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Requires: #1", (1,)),
        ("**Depends on:** #1, #2 and #3", (1, 2)),
        ("Blocked by [#1](https://github.com/octo/app/issues/1).", (1,)),
        ("## Blocked by\r\n\r\n- #1 the parser\r\n- [x] #2\r\n\r\n## Notes\r\n- #3", (1, 2)),
        ("**Blocked by**\n- https://github.com/octo/app/issues/2", (2,)),
        ("## Dependencies\n\n#1 #2 and transparency work", (1, 2)),
        ("blocked by octo/app#2 and octo/other#1", (2,)),
        ("```\nblocked by #1\n```\n<!-- depends on #2 -->", ()),
        ("needs 2 days, see #1; depends on #9; blocks #2; blocked by #1-02", ()),
    ],
)
def test_blocking_issues_named_in_an_issue_body_become_dependencies(
    body: str, expected: tuple[int, ...]
) -> None:
    plan = read([gh_issue(1, "A"), gh_issue(2, "B"), gh_issue(9, "C", body)])
    assert edges(plan)["#9 C"] == expected


def test_issues_of_two_repositories_with_equal_numbers_are_imported() -> None:
    other = "https://github.com/octo/other/issues/1"
    plan = read([gh_issue(1, "A"), gh_issue(1, "B", "blocked by octo/app#1", url=other)])
    assert edges(plan) == {"#1 A": (), "#1 B": (1,)}
    assert plan.name == "GitHub issues"


def test_import_removes_html_comments_and_shortens_a_long_issue_body() -> None:
    hidden = "<!--\nSearch first.\n-->\nIt is slow."
    log = "x" * 50_000
    plan = read([gh_issue(1, "A", hidden), gh_issue(2, "B", log)])
    assert plan.steps[0].instructions == f"#1 A\n\nIt is slow.\n\n{SITE}/issues/1"
    assert len(plan.steps[1].instructions) == MAX_TEXT_LENGTH
    assert plan.steps[1].instructions.endswith(f"too long for a step.)\n\n{SITE}/issues/2")
    assert edges(read(gh_issue(3, "C", f"{log}\n- [ ] task"))) == {"task": ()}


def test_issues_with_only_a_title_are_imported() -> None:
    assert edges(read([{"number": 1, "title": "A"}])) == {"#1 A": ()}
    assert edges(read([{"title": "A", "url": f"{SITE}/issues/7"}])) == {"#7 A": ()}
    assert edges(read([{"title": "A", "body": ""}, {"title": "B", "body": None}])) == {
        "A": (),
        "B": (),
    }


CIRCLE = (
    '[{"number": 1, "title": "a", "body": "blocked by #2"},\n'
    '{"number": 2, "title": "b", "blockedBy": [{"number": 1}]}]'
)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[\n{"number": 1, "title": "a"},\n{"number": 2}\n]', 3, "issue #2 has no title: run gh"),
        ('[\n{"number": 1, "title": "a"},\n7\n]', 2, "entry 2 of this list is not an issue"),
        ('[{"number": 216, "labels": []}]', 1, "issue #216 has no title"),
        ('[\n{"number": 1, "title": "a", "pull_request": {}}]', 2, "only pull requests"),
        ('[{"number": 1, "title": "a"},\n{"number": 1, "title": "b"}]', 2, "already in line"),
        ('[{"number": 1, "title": "a", "body": 5}]', 1, "body is not a text"),
        ('[{"number": 1, "title": "a", "blockedBy": 5}]', 1, "blockedBy is not a list"),
        ('{"title": "a",\n"body": null}', 1, "no task list"),
        ('{"title": "a", "body": "",\n"subIssues": [{"title": "b"}]}', 2, "has no number"),
        ('{"data": {"repository": {\n"issue": {"title": "a", "body": ""}}}}', 2, "no task list"),
        ('{"number": 1, "title": "a"}\n{"number": 2, "title": ""}\n', 2, "#2 has no title"),
        ('{"number": 1, "title": "a"}\n{"number": 2, "title"', 2, "not JSON"),
        ('[{"number": 1, "title": "a", "state": "CLOSED"}]', 1, "the only task is done"),
        (CIRCLE, 2, "wait for each other"),
        (
            '[{"number": 1, "title": "a"},\n{"number": 2, "title": "\\u0000"}]',
            2,
            "title contains a NUL",
        ),
        ('[{"number": 1, "title": "a", "body": "\\ud83d"}]', 1, "half a character"),
    ],
)
def test_unusable_github_issues_are_refused_with_a_line_number(
    text: str, line: int, words: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_plan(text)
    assert refusal.value.message.startswith(f"line {line}: ")
    assert words in refusal.value.message


def test_json_without_issues_is_refused_by_the_github_importer() -> None:
    for text in ("[]", "{}", '{"data": {"node": {"comments": []}}}', "7"):
        with pytest.raises(InvalidInput, match=r"^line 1: there is no issue in this file: run gh"):
            read_plan(text, PlanFormat.GITHUB)
