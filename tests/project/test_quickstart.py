"""Tests of `make harness NAME=start-test`, which must find errors in README and quickstart."""

import shlex
from typing import Any

import pytest

from project.repository import read
from tools.package.claude_code import SCENARIO, plan_problems
from tools.package.start_test import AGENT, ShownCommand, commands

STEPS = len(SCENARIO.steps)


def plan_rows(*, status: str = "completed", name: str = SCENARIO.name) -> list[dict[str, str]]:
    """Return what `waybook plans --json` prints for one plan."""
    return [{"name": name, "status": status}]


def audit_entries(*, channel: str = "mcp", steps: int = STEPS) -> list[dict[str, Any]]:
    """Return what `waybook audit list --json` prints for a plan with this many completed steps."""
    done = {"entity": "step", "field": "status", "to": "completed"}
    origin = {"subject": "plan", "channel": channel, "sessionId": SCENARIO.name}
    return [{**origin, "changes": [{**done, "id": str(number)}]} for number in range(steps)]


def test_quickstart_check_reports_no_problem_for_a_completed_plan() -> None:
    assert plan_problems(plan_rows(), audit_entries()) == []


@pytest.mark.parametrize(
    ("plans", "audit", "problem"),
    [
        ([], [], "the plans are []"),
        (plan_rows(name="Another"), audit_entries(), "the plans are ['Another']"),
        (plan_rows() * 2, audit_entries(), "the plans are"),
        (plan_rows(status="active"), audit_entries(), "the plan is active"),
        (plan_rows(), audit_entries(steps=STEPS - 1), f"{STEPS - 1} of {STEPS} steps"),
        (plan_rows(), audit_entries(channel="cli"), "['cli: Name the library']"),
    ],
)
def test_quickstart_check_reports_the_difference_from_the_expected_plan(
    plans: list[Any], audit: list[Any], problem: str
) -> None:
    (reported,) = plan_problems(plans, audit)
    assert problem in reported


def test_quickstart_check_reads_commands_and_expected_output_from_a_page() -> None:
    first = "```console\n$ one\n$ two 2\n✓ done\n```\n"
    page = f"{first}\n```json\n$ no\n```\n\n```console\n$ three\n```\n"
    shown = [ShownCommand("one"), ShownCommand("two 2", ["✓ done"]), ShownCommand("three")]
    assert commands(page) == shown


@pytest.mark.parametrize(
    ("output", "is_missing"),
    [
        ("0198  Plan  completed  2s ago\n", False),
        ("id\n  0198  Plan  completed  2s ago  \nmore", False),
        ("0198  Plan  failed  2s ago\n", True),
        ("Plan  completed", True),
        ("", True),
    ],
)
def test_quickstart_check_compares_output_by_whole_lines(
    output: str,
    is_missing: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    shown = ShownCommand("waybook plans", ["…  Plan  completed  …"])
    assert bool(shown.missing_output(output)) is is_missing


def test_quickstart_page_connects_agent_then_asks_for_the_tested_plan() -> None:
    texts = [shown.text for shown in commands(read("start.md"))]
    (prompt,) = [text for text in texts if text.startswith(AGENT)]
    assert texts[texts.index(prompt) - 1] == "waybook connect claude-code"
    assert SCENARIO.name in shlex.split(prompt)[2]
