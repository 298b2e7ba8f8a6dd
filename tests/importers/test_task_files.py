"""Import of task files of Task Master, beads and GitHub."""

import json

import pytest

from waybook.errors import InvalidInput
from waybook.importers.formats import PlanFormat, detect_format, read_plan
from waybook.importers.steps import ImportedPlan

TASKS = {
    "main": {
        "tasks": [
            {"id": 1, "title": "Store", "description": "Make a store.", "status": "done"},
            {
                "id": 2,
                "title": "Serve",
                "description": "Serve it.",
                "details": "Over HTTP.",
                "testStrategy": "Call it.",
                "status": "pending",
                "dependencies": [1, 3],
                "subtasks": [
                    {"id": 1, "title": "Routes", "status": "pending", "dependencies": []},
                    {"id": 2, "title": "Errors", "status": "pending", "dependencies": [1, "3"]},
                ],
            },
            {"id": "3", "title": "Sign in", "status": "in-progress", "dependencies": ["1"]},
        ],
        "metadata": {"description": "The main tasks"},
    },
    "later": {"tasks": [{"id": 1, "title": "Rest", "status": "deferred"}]},
}


def names(plan: ImportedPlan) -> list[str]:
    return [step.title or step.instructions for step in plan.steps]


def test_importer_places_task_master_subtasks_before_the_parent_task() -> None:
    text = json.dumps(TASKS, indent=2)
    assert detect_format(text) is PlanFormat.TASK_MASTER
    plan = read_plan(text)
    assert (plan.name, plan.question, plan.left_out) == ("main", "The main tasks", 1)
    assert names(plan) == ["Sign in", "Routes", "Errors", "Serve"]
    assert [step.depends_on for step in plan.steps] == [(), (1,), (1, 2), (1, 2, 3)]
    assert plan.steps[3].instructions == "Serve it.\n\nOver HTTP.\n\nTest strategy:\nCall it."


def test_importer_option_adds_task_master_subtasks_to_parent_instructions() -> None:
    plan = read_plan(json.dumps(TASKS), subtasks=False)
    assert names(plan) == ["Sign in", "Serve"]
    assert plan.steps[1].instructions.endswith("Subtasks:\n- [ ] Routes\n- [ ] Errors")


def test_dependencies_on_tasks_outside_the_file_are_ignored_and_counted() -> None:
    text = '{"tasks": [{"id": 1, "title": "a", "dependencies": [8, "9.1"]}]}'
    plan = read_plan(text)
    assert (plan.steps[0].depends_on, plan.ignored) == ((), 2)


def test_tag_option_selects_the_task_master_tasks_to_import() -> None:
    assert names(read_plan(json.dumps(TASKS), tag="later")) == ["Rest"]
    untagged = json.dumps({"tasks": [{"id": 1, "title": "Only"}]})
    assert names(read_plan(untagged)) == ["Only"]


BEADS = [
    {"id": "x-1", "title": "Epic", "status": "open", "issue_type": "epic"},
    {
        "id": "x-1.1",
        "title": "Second",
        "status": "open",
        "design": "Small.",
        "dependencies": [
            {"issue_id": "x-1.1", "depends_on_id": "x-1", "type": "parent-child"},
            {"issue_id": "x-1.1", "depends_on_id": "x-2", "type": "blocks"},
            {"issue_id": "x-1.1", "depends_on_id": "x-4", "type": "related"},
            {"issue_id": "x-1.1", "depends_on_id": "elsewhere-7", "type": "blocks"},
        ],
    },
    {"id": "x-2", "title": "First", "description": "Do it.", "status": "in_progress"},
    {"id": "x-3", "title": "Closed", "status": "closed"},
    {"id": "x-4", "title": "Deleted", "status": "tombstone"},
]


def test_importer_turns_blocking_and_child_beads_issues_into_dependencies() -> None:
    text = "\n".join(map(json.dumps, BEADS)) + "\n"
    assert detect_format(text) is PlanFormat.BEADS
    plan = read_plan(text)
    assert names(plan) == ["First", "Second", "Epic"]
    assert [step.depends_on for step in plan.steps] == [(), (1,), (2,)]
    assert (plan.left_out, plan.lines) == (1, (3, 2, 1))
    assert detect_format(json.dumps(BEADS[0])) is PlanFormat.BEADS


def test_importer_resolves_issue_numbers_in_a_github_task_list() -> None:
    tasks = ["- [x] #11 Parser", "- [ ] #12 Printer (depends on #11)", "- [ ] Docs (after 2)"]
    body = "\r\n".join(["Hello", "", *tasks, "- [ ] Rest, blocked by #99", ""])
    issue = {"title": "Ship it", "body": body, "url": "https://example.org/issues/9"}
    text = json.dumps(issue)
    assert detect_format(text) is PlanFormat.GITHUB
    plan = read_plan(text)
    assert (plan.name, plan.left_out) == ("Ship it", 1)
    assert names(plan) == ["#12 Printer", "Docs", "Rest"]
    assert [step.depends_on for step in plan.steps] == [(), (1,), ()]
    everything = read_plan(text, include_done=True)
    assert [step.depends_on for step in everything.steps] == [(), (1,), (2,), ()]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("{", 1, "not JSON"),
        ('{\n"tasks": [\n  {"id": 1}\n]}', 3, "this task has no title"),
        ('{\n"tasks": [\n  {"title": "a"}\n]}', 3, "this task has no id"),
        ('{"tasks": [{"id": 1, "title": "a"},\n{"id": 1, "title": "b"}]}', 2, "already in line"),
        ('{"tasks": [7]}', 1, "a task is not a JSON object"),
        ('{"tasks": [{"id": 1, "title": 5}]}', 1, "title is not a text"),
        ('{"tasks": [{"id": 1, "title": "a", "subtasks": 3}]}', 1, "subtasks is not a list"),
        ('{"a": 1}', 1, "set --format"),
        ("[" * 100_000, 1, "nested too deeply"),
        ('{"id": "a", "title": "b", "status": "open"}\n\n7\n', 3, "not a JSON object"),
        ('{"id": "a", "title": "b", "status": "open"}\n{"id": "c"}\n', 2, "has no title"),
        ('{"title": "a", "body": "text"}', 1, "has no task list"),
    ],
)
def test_import_of_unusable_json_is_refused_with_a_line_number(
    text: str, line: int, words: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_plan(text)
    assert refusal.value.message.startswith(f"line {line}: ")
    assert words in refusal.value.message


def test_unknown_task_master_tag_error_lists_existing_tags() -> None:
    with pytest.raises(InvalidInput, match="no tag other; there are: main, later"):
        read_plan(json.dumps(TASKS), tag="other")


def test_task_master_subtasks_with_equal_ids_are_all_imported() -> None:
    parts = [
        {"id": 4, "title": "First", "status": "pending"},
        {"id": 4, "title": "Second", "status": "pending"},
        {"id": 5, "title": "Third", "status": "pending", "dependencies": [4]},
    ]
    task = {"id": 4, "title": "All", "status": "pending", "subtasks": parts}
    plan = read_plan(json.dumps({"tasks": [task]}))
    assert names(plan) == ["First", "Second", "Third", "All"]
    assert [step.depends_on for step in plan.steps] == [(), (), (1, 2), (1, 2, 3)]


def test_cycle_between_completed_tasks_does_not_prevent_the_import() -> None:
    tasks = [
        {"id": 1, "title": "A", "status": "done", "dependencies": [2]},
        {"id": 2, "title": "B", "status": "done", "dependencies": [1]},
        {"id": 3, "title": "C", "status": "pending", "dependencies": [2]},
    ]
    text = json.dumps({"tasks": tasks})
    plan = read_plan(text)
    assert (names(plan), plan.left_out) == (["C"], 2)
    with pytest.raises(InvalidInput, match="wait for each other"):
        read_plan(text, include_done=True)


def test_github_tasklist_block_is_read_like_a_task_list() -> None:
    body = (
        "Intro\r\n\r\n``` [tasklist]\r\n### Tasks\r\n- [ ] #12 \r\n- [x] Done\r\n```\r\n- [ ] Later"
    )
    plan = read_plan(json.dumps({"title": "Track", "body": body}))
    assert [step.instructions for step in plan.steps] == [
        "#12\n\nPart of: Tasks",
        "Later\n\nPart of: Tasks",
    ]
    assert plan.left_out == 1
