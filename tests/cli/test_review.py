"""`waybook review`, and reviews as MCP tasks over stdio."""

import asyncio
import os
import sys

import pytest
from mcp import Client, StdioServerParameters

from cli.sample_runs import run_awaiting_feedback, run_in_progress
from cli.terminal import Terminal
from patience import PATIENCE_SECONDS
from transport.tasks_client import CreatedTask, Tasks, send
from waybook.cli.commands import review


def status_of(terminal: Terminal, plan_id: str) -> str:
    return str(terminal.json_output("status", plan_id)["status"])


def test_review_command_prints_questions_of_open_review(terminal: Terminal) -> None:
    plan_id = terminal.under_review("Shown")
    output = terminal.say("review", plan_id)
    assert "Is this enough?" in output
    assert "? Which one?" in output
    assert "Nile" in output
    (entry,) = terminal.json_output("review", plan_id)
    assert (entry["planId"], entry["stepOrder"]) == (plan_id, 1)


def test_review_command_shows_markdown_summary_and_html_tags(terminal: Terminal) -> None:
    plan_id = terminal.plan("Rendered")
    summary = "Is **this** right?\n\n| river | km |\n|---|---|\n| Nile | 6650 |\n\nSee List<int>."
    step = terminal.take(plan_id)
    terminal.call("request_user_review", stepId=step["stepId"], summary=summary)
    output = terminal.say("review", plan_id, columns=100)
    assert "Is this right?" in output
    assert "|---|" not in output
    assert "6650" in output
    assert "List<int>" in output


def test_review_command_lists_run_awaiting_feedback(terminal: Terminal) -> None:
    run_id = run_awaiting_feedback(terminal, "Draft thesis")
    output = terminal.say("review", columns=120)
    assert "Draft thesis is waiting for your feedback on thesis" in output
    assert f'waybook feedback {run_id} thesis "…"' in output
    assert "Nothing is waiting for you" not in output
    terminal.say("feedback", run_id, "thesis", "Shorter.")
    assert run_id not in terminal.say("review", columns=120)


def test_review_command_lists_run_with_failed_jobs(terminal: Terminal) -> None:
    run_id = run_in_progress(terminal, "Broken antithesis")
    output = terminal.say("review", columns=120)
    assert "Broken antithesis has failed jobs in antithesis" in output
    assert f"waybook run retry {run_id} antithesis" in output
    terminal.say("run", "retry", run_id, "antithesis")
    assert run_id not in terminal.say("review", columns=120)


def test_review_command_with_two_decisions_is_a_usage_error(terminal: Terminal) -> None:
    assert terminal.run("review", "any", "--approve", "--skip").exit_code == 2


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("a\n", "✓ approved"),
        ("m\nCount them.\n", "✓ sent back with your feedback"),
        ("s\n", "✓ skipped"),
        ("r\ny\n", "✓ rejected"),
    ],
)
def test_decision_typed_at_the_review_prompt_is_applied(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, typed: str, expected: str
) -> None:
    monkeypatch.setattr(review, "can_prompt", lambda: True)
    plan_id = terminal.under_review("Asked")
    shown = terminal.say("review", plan_id, typed=typed)
    assert expected in shown
    assert shown.endswith("✓ Nothing is waiting for you.\n")


def test_review_stays_open_if_rejection_is_not_confirmed_at_prompt(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "can_prompt", lambda: True)
    plan_id = terminal.under_review("Thought twice")
    terminal.say("review", plan_id, typed="r\nn\n")
    assert status_of(terminal, plan_id) == "awaiting_review"


# Tests of reviews as MCP tasks. Each client starts a server process of its own.


PLAN = {
    "name": "Rivers",
    "researchQuestion": "Which river is longest?",
    "steps": [{"stepType": "search", "instructions": "Look it up."}] * 2,
}


def make_client(terminal: Terminal) -> Client:
    """Return a client that supports MCP tasks, and that starts a server process for itself."""
    words = ["-m", "waybook", "mcp", "--data-dir", str(terminal.data_dir)]
    child = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    return Client(child, mode="2026-07-28", extensions=[Tasks()])


async def test_review_task_over_stdio_survives_a_server_restart(terminal: Terminal) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with make_client(terminal) as client:
            plan = (await client.call_tool("create_research_plan", PLAN)).structured_content or {}
            named = {"planId": plan["planId"]}
            step = (await client.call_tool("get_next_step", named)).structured_content or {}
            task = await client.session.call_tool(
                "request_user_review",
                {"stepId": step["stepId"], "summary": "Right?"},
                allow_claimed=True,
            )
            assert isinstance(task, CreatedTask), task
            assert (await send(client.session, "tasks/get", task.task_id))["status"] == "working"
        await asyncio.to_thread(
            terminal.say, "review", plan["planId"], "--modify", "Add the lakes."
        )
        async with make_client(terminal) as client:
            polled = await send(client.session, "tasks/get", task.task_id)
            again = (await client.call_tool("get_next_step", named)).structured_content or {}
    result = polled["result"]["structuredContent"]
    assert (polled["status"], result["decision"]) == ("completed", "modify")
    assert (result["feedback"], result["next"]["tool"]) == ("Add the lakes.", "get_next_step")
    assert (again["stepId"], again["attempt"]) == (step["stepId"], 2)
