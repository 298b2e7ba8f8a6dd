"""Import of plans in Markdown: check lists, numbered lists, headings, and reports."""

import pytest

from waybook.errors import InvalidInput
from waybook.importers.formats import PlanFormat, read_plan
from waybook.importers.steps import ImportedPlan
from waybook.plan.model import StepType


def read(text: str, *, include_done: bool = False) -> ImportedPlan:
    return read_plan(text, PlanFormat.MARKDOWN, include_done=include_done)


def names(plan: ImportedPlan) -> list[str]:
    return [step.title or step.instructions for step in plan.steps]


def test_importer_turns_check_list_items_into_steps_with_dependencies() -> None:
    plan = read(
        "# Move the mail\n\nWhy: the old server ends.\n\n"
        "## Before\n- [ ] Copy the mailboxes\n  - with their folders\n"
        "- [x] Order a server\n"
        "## After\n- [ ] Switch the records (after 1 and 2)\n- [ ] Delete; depends on #3\n"
    )
    assert (plan.name, plan.question) == ("Move the mail", "Why: the old server ends.")
    assert names(plan) == ["Copy the mailboxes", "Switch the records", "Delete"]
    assert [step.depends_on for step in plan.steps] == [(), (1,), (2,)]
    assert plan.steps[0].instructions == (
        "Copy the mailboxes\n\n- with their folders\n\nPart of: Before"
    )
    assert (plan.left_out, plan.lines) == (1, (6, 10, 11))


def test_importer_reports_the_lines_that_belong_to_no_list_item() -> None:
    plan = read(
        "- [ ] a\n  part of a\n\nNot indented.\n## Later\nNor this.\n- [ ] b\nAt the end.\n"
    )
    assert names(plan) == ["a", "b"]
    assert plan.unread == (4, 6, 8)


def test_importer_includes_completed_items_with_option_include_done() -> None:
    plan = read("- [x] a\n- [ ] b (after 1)\n", include_done=True)
    assert names(plan) == ["a", "b"]
    assert plan.steps[1].depends_on == (1,)


def test_importer_resolves_dependencies_by_list_item_numbers() -> None:
    plan = read("10. Dig\n20. Plant (after 10)\n30. Water, after 10, 20\n")
    assert names(plan) == ["Dig", "Plant", "Water"]
    assert [step.depends_on for step in plan.steps] == [(), (1,), (1, 2)]


def test_importer_numbers_items_consecutively_across_numbered_lists() -> None:
    plan = read("# A\n## X\n1. a\n2. b\n## Y\n1. c (after 2)\n")
    assert names(plan) == ["a", "b", "c"]
    assert plan.steps[2].depends_on == (2,)


def test_importer_turns_headings_with_text_into_steps() -> None:
    plan = read("# Trip\n\n## Step 1: Pack\n\nBags.\n\n## Step 2: Go\n\nDepends on #1\n\nEarly.\n")
    assert names(plan) == ["Pack", "Go"]
    assert plan.steps[0].instructions == "Pack\n\nBags."
    assert plan.steps[1].depends_on == (1,)


def test_importer_ignores_list_items_inside_code_blocks() -> None:
    plan = read("- [ ] a\n\n  ```\n- [ ] not a step\n  ```\n- [ ] b\n")
    assert names(plan) == ["a", "b"]
    assert "- [ ] not a step" in plan.steps[0].instructions


def test_import_of_plan_report_restores_types_titles_and_instructions() -> None:
    plan = read(
        "# Rivers\n\n> Which is longest?\n\n## Steps\n\n### 1. Look\n\n✓ completed, search\n\n"
        "> Look it up.\n>\n> ## Twice\n\n**Result**:\n\n> 3. Nile\n\n### 2. Write it.\n\n"
        "○ pending, synthesize, attempt 2\n\nDepends on #1.\n\n> Write it.\n> All.\n\n"
        "## History\n\n- x\n",
        include_done=True,
    )
    first, second = plan.steps
    assert (first.title, first.instructions) == ("Look", "Look it up.\n\n## Twice")
    assert (second.title, second.instructions) == (None, "Write it.\nAll.")
    assert (first.type, second.type) == (StepType.SEARCH, StepType.SYNTHESIZE)
    assert second.depends_on == (1,)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no tasks up to this line"),
        ("Just a text.\n\nMore.", 3, "no tasks up to this line"),
        ("- [ ] a\n- [ ] b (after 7)\n", 2, "depends on 7, which is not in this file"),
        ("- [ ] a (after 2)\n- [ ] b (after 1)\n", 2, "wait for each other"),
        ("- [ ] a (after 1)\n", 1, "wait for each other: “a”"),
        ("intro\n- [x] a\n- [x] b\n", 2, "all 2 tasks are done; --all imports done tasks too"),
        ("- [X] a\n", 1, "the only task is done; --all imports done tasks too"),
        ("- [ ] a\n- [ ] " + "b" * 20_001, 2, "more than 20,000 characters"),
        ("- [ ] a\n" + "b" * 20_101, 2, "more than 20,100 characters"),
        ("## Steps\n\n### 1. a\n\n> a\n", 3, "no line with status and type"),
        ("\n".join(f"- [ ] {n}" for n in range(201)), 201, "201 open tasks"),
        ("\n".join(f"- [ ] {n}" for n in range(5_001)), 5_001, "more than 5,000 tasks"),
    ],
)
def test_import_of_unusable_markdown_is_refused_with_a_line_number(
    text: str, line: int, words: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read(text)
    assert refusal.value.message.startswith(f"line {line}: ")
    assert words in refusal.value.message


def test_importer_ignores_tasks_inside_html_comments() -> None:
    text = "<!--\n- [ ] not this\n-->\n- [ ] this \n  <!-- note -->\n<!-- - [ ] nor this -->\n"
    (step,) = read_plan(text, PlanFormat.MARKDOWN).steps
    assert step.instructions == "this"


def test_unclosed_html_comment_is_imported_as_text() -> None:
    code = "- [ ] one\n```html\n<!--\n```\n- [ ] two\n```\n-->\n```\n"
    for text in ("<!-- open\n- [ ] one\n- [ ] two\n", code):
        steps = read_plan(text, PlanFormat.MARKDOWN).steps
        assert [step.instructions.split("\n")[0] for step in steps] == ["one", "two"]
