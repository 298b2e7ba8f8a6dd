"""The commands `waybook plans`, `status` and `watch`."""

import re
from datetime import timedelta

import pytest

from cli.terminal import Body, Terminal
from waybook.cli.runtime import AppSession

SCREENS = [(40, 8), (60, 12), (80, 24), (100, 30), (140, 40), (200, 6), (80, 3), (30, 1)]


@pytest.fixture(scope="module")
def long_plan(terminal: Terminal) -> str:
    """Return a plan of sixty steps: some completed, one failed, one in progress."""
    plan_id = terminal.plan("A long plan with a name that does not fit anywhere at all", 60)

    async def work(here: AppSession) -> None:
        async def call(tool: str, **arguments: object) -> Body:
            return (await here.call_tool(tool, arguments)).body

        for _ in range(20):
            step = await call("get_next_step", planId=plan_id)
            await call("submit_step_result", stepId=step["stepId"], resultSummary="found")
        lost = await call("get_next_step", planId=plan_id)
        gone = {"action": "fail_step", "stepId": lost["stepId"], "reason": "gone"}
        await call("modify_plan", planId=plan_id, modifications=[gone])
        await call("get_next_step", planId=plan_id, sessionId="ann")

    terminal.inside(work)
    return plan_id


def test_plans_command_lists_plan_with_step_counts(terminal: Terminal, long_plan: str) -> None:
    (match,) = [plan for plan in terminal.json_output("plans") if plan["planId"] == long_plan]
    assert match["status"] == "executing"
    assert match["progress"] == 33
    assert match["counts"] == {
        "done": 20,
        "total": 60,
        "completed": 20,
        "failed": 1,
        "in_progress": 1,
        "pending": 38,
    }


@pytest.mark.parametrize("columns", [80, 140])
def test_plans_command_output_fits_terminal_width(
    terminal: Terminal, long_plan: str, columns: int
) -> None:
    output = terminal.say("plans", columns=columns)
    assert all(len(line.rstrip()) <= columns for line in output.splitlines())
    assert long_plan[:8] in output
    assert "20 of 60, 1 failed" in output
    assert "◐ executing" in output


def test_canceled_plan_is_canceled_in_every_command(terminal: Terminal) -> None:
    plan_id = terminal.plan("Called off", 1)
    cancel = {"action": "cancel_plan", "reason": "Not needed."}
    terminal.call("modify_plan", planId=plan_id, modifications=[cancel])
    (row,) = [p for p in terminal.json_output("plans", "--all") if p["planId"] == plan_id]
    assert row["status"] == "canceled"
    assert terminal.json_output("status", plan_id)["outcome"] == "canceled"
    for command in ("status PLAN", "watch PLAN --once", "audit as-of PLAN 2", "export PLAN"):
        shown = terminal.say(*command.replace("PLAN", plan_id).split())
        assert "canceled" in shown, command
        assert "failed" not in shown, command


@pytest.mark.parametrize(("columns", "lines"), SCREENS)
def test_watch_command_output_fits_terminal_size(
    terminal: Terminal, long_plan: str, columns: int, lines: int
) -> None:
    shown = terminal.say("watch", long_plan, "--once", columns=columns, lines=lines).splitlines()
    assert len(shown) <= lines
    assert all(len(line) <= columns for line in shown)


def test_watch_command_shows_progress_and_current_step(terminal: Terminal, long_plan: str) -> None:
    shown = terminal.say("watch", long_plan, "--once", columns=120)
    assert "20 of 60 done" in shown
    assert "✓ 20 completed   ✗ 1 failed   ◐ 1 in progress   · 38 pending" in shown
    assert "Part 22" in shown
    assert "ann" in shown
    assert "above" in shown
    assert "below" in shown


def test_watch_command_shows_stall_without_writing_audit_entry(terminal: Terminal) -> None:
    plan_id = terminal.plan("Silent", ago=timedelta(hours=3))
    terminal.take(plan_id, ago=timedelta(hours=2))
    shown = terminal.say("watch", plan_id, "--once")
    assert "▲ stalled" in shown
    assert "step 1 has been silent for 2 h" in shown
    newest = max(terminal.json_output("audit", "list", plan_id), key=lambda entry: entry["seq"])
    assert newest["event"] == "step_started"


def test_status_command_accepts_part_of_plan_name(terminal: Terminal) -> None:
    plan_id = terminal.plan("The Amazon and its sources")
    assert terminal.json_output("status", "amazon")["planId"] == plan_id
    assert "The Amazon and its sources" in terminal.say("status", plan_id[:13])


def test_status_command_refuses_ambiguous_plan_name(terminal: Terminal) -> None:
    terminal.plan("Twins, the first")
    terminal.plan("Twins, the second")
    failed = terminal.run("status", "twins")
    assert failed.exit_code == 1
    assert "could mean several plans" in failed.stderr


def test_status_command_shows_instructions_of_untitled_step(terminal: Terminal) -> None:
    steps = [{"stepType": "search", "instructions": "Find the source.\nThen the mouth."}]
    made = terminal.call("create_research_plan", name="Untitled", researchQuestion="?", steps=steps)
    assert "Find the source." in terminal.say("status", made["planId"])


def test_watch_shows_current_step_after_an_early_failure(terminal: Terminal) -> None:
    plan_id = terminal.plan("Early failure", 60)
    lost = terminal.take(plan_id)
    failure = {"action": "fail_step", "stepId": lost["stepId"], "reason": "gone"}
    terminal.call("modify_plan", planId=plan_id, modifications=[failure])

    async def work(here: AppSession) -> None:
        async def call(tool: str, **arguments: object) -> Body:
            return (await here.call_tool(tool, arguments)).body

        for _ in range(40):
            step = await call("get_next_step", planId=plan_id)
            await call("submit_step_result", stepId=step["stepId"], resultSummary="found")
        await call("get_next_step", planId=plan_id)

    terminal.inside(work)
    shown = terminal.say("watch", plan_id, "--once")
    assert re.search(r"42 Part 42 +◐ in progress", shown), shown
    assert "✗ failed" not in shown, "the failed step is above the window"
    assert "1 failed" in shown
