"""`waybook runs`, `run`, `feedback`, and the audit of runs."""

import io

import pytest
from rich.console import Console

from cli.runs_in_terminal import finished, half_done, waiting
from cli.terminal import Terminal
from waybook.app.queries.run import RunOverview, read_run_overview
from waybook.cli.runtime import AppSession
from waybook.cli.terminal.plan_board import Viewport
from waybook.cli.terminal.run_board import run_display
from waybook.dag.progress.invariants import check

SCREENS = [(40, 8), (60, 12), (80, 24), (100, 30), (140, 40), (200, 6), (80, 3), (30, 1)]


@pytest.fixture(scope="module")
def half(terminal: Terminal) -> str:
    return half_done(terminal, "A dialectic with a name that does not fit anywhere at all")


@pytest.fixture(scope="module")
def done(terminal: Terminal) -> str:
    return finished(terminal, "Done and over")


# List of runs


def test_a_run_is_listed_with_its_figures(terminal: Terminal, half: str) -> None:
    (found,) = [run for run in terminal.told("runs") if run["runId"] == half]
    assert found["dagSlug"] == "dialectic"
    assert found["status"] == "failed"
    assert (found["completedStages"], found["totalStages"]) == (1, 5)
    assert found["currentStage"] == "antithesis"
    assert found["stages"][1] == {
        "stageSlug": "antithesis",
        "completedSteps": 1,
        "totalSteps": 7,
        "failedSteps": 1,
    }


@pytest.mark.parametrize("columns", [60, 80, 100, 110, 140, 200])
def test_the_list_fits_the_screen(terminal: Terminal, half: str, columns: int) -> None:
    said = terminal.say("runs", columns=columns)
    assert all(len(line.rstrip()) <= columns for line in said.splitlines())
    assert half[:8] in said
    assert "✗ failed" in said
    assert "1 of 5" in said


def test_completed_runs_are_listed_when_asked_for(terminal: Terminal, done: str) -> None:
    assert done not in {run["runId"] for run in terminal.told("runs")}
    (found,) = [run for run in terminal.told("runs", "--all") if run["runId"] == done]
    assert (found["status"], found["completedStages"]) == ("completed", 5)


def test_a_run_that_waits_for_a_person_says_so(terminal: Terminal) -> None:
    run_id = waiting(terminal, "Waiting for a word")
    (found,) = [run for run in terminal.told("runs") if run["runId"] == run_id]
    assert (found["status"], found["awaitingFeedback"]) == ("awaiting_feedback", "thesis")
    assert "! awaiting feedback" in terminal.say("runs")


# View of one run


def test_a_run_is_shown_with_its_stages_and_steps(terminal: Terminal, half: str) -> None:
    said = terminal.say("run", half, columns=110)
    assert "✗ failed  A dialectic with a name" in said
    assert "Dialectic, version 1, with alpha, beta, gamma; 16 of 57 documents available" in said
    assert "1 of 5 stages" in said
    assert "5 of 5 steps" in said
    assert "12 of 12 documents" in said
    assert "1 of 7 steps, 1 failed" in said
    assert "4 of 9 jobs, 1 failed" in said
    assert "ada" in said
    assert "13 steps" in said, "what has not begun is on the map"
    assert "retry_failed" in said
    assert "Move the reports to a queue." in said


def test_the_json_of_a_run_is_its_report(terminal: Terminal, half: str) -> None:
    told = terminal.told("run", half)
    assert list(told) == ["dagProgress", "stages", "warnings", "usage"]
    assert check(told) == []


def test_watching_away_from_a_terminal_shows_the_run_once(terminal: Terminal, half: str) -> None:
    assert "1 of 5 stages" in terminal.say("run", half, "--watch")


def board_of(terminal: Terminal, run_id: str) -> RunOverview:
    async def act(here: AppSession) -> RunOverview:
        return await read_run_overview(here.call, run_id)

    return terminal.inside(act)


@pytest.mark.parametrize(("columns", "lines"), SCREENS)
def test_a_picture_never_leaves_the_screen(
    terminal: Terminal, half: str, columns: int, lines: int
) -> None:
    board = board_of(terminal, half)
    for filled in (False, True):
        console = Console(width=columns, file=io.StringIO(), record=True)
        frame = Viewport(width=columns, height=lines, live=True, filled=filled)
        console.print(run_display(board, frame))
        shown = console.export_text().splitlines()
        assert len(shown) <= lines
        assert all(len(line) <= columns for line in shown)


def test_a_low_picture_is_about_where_the_run_is(terminal: Terminal, half: str) -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(run_display(board_of(terminal, half), Viewport(width=100, height=12)))
    shown = console.export_text()
    assert "4 of 9 jobs, 1 failed" in shown
    assert "above" in shown
    assert "below" in shown


def test_a_run_is_meant_by_a_part_of_its_name(terminal: Terminal, done: str) -> None:
    assert "Done and over" in terminal.say("run", "done and")
    assert "✓ completed" in terminal.say("run", done[:20])


def test_several_runs_are_not_guessed_between(terminal: Terminal) -> None:
    waiting(terminal, "Twins, the first")
    waiting(terminal, "Twins, the second")
    failed = terminal.run("run", "twins")
    assert failed.exit_code == 1
    assert "could mean several runs" in failed.stderr


def test_no_such_run_is_told_with_the_way_to_the_list(terminal: Terminal) -> None:
    failed = terminal.run("run", "no such thing")
    assert failed.exit_code == 1
    assert "there is no run" in failed.stderr
    assert "try: waybook runs" in failed.stderr


# Feedback


def test_a_person_s_feedback_opens_the_next_stage(terminal: Terminal) -> None:
    run_id = waiting(terminal, "To be continued")
    shown = terminal.say("run", run_id, columns=100)
    assert f'waybook feedback {run_id} thesis "…"' in shown
    said = terminal.say("feedback", run_id, "thesis", "Say what it costs.")
    assert "✓ your feedback on thesis is kept" in said
    assert "antithesis has begun: 1 job is ready" in said
    (newest, *_) = terminal.told("audit", "list", run_id)
    assert newest["channel"] == "cli"


def test_feedback_can_be_read_from_stdin_and_choose_the_models(terminal: Terminal) -> None:
    run_id = waiting(terminal, "With others")
    words = ("feedback", run_id, "thesis", "-", "--models", "beta, gamma", "--json")
    ran = terminal.run(*words, typed="Go on.\n")
    assert ran.exit_code == 0
    assert '"models":["beta","gamma"]' in ran.stdout


def test_feedback_on_a_stage_that_is_not_complete_is_refused(terminal: Terminal) -> None:
    run_id = waiting(terminal, "Too early")
    failed = terminal.run("feedback", run_id, "antithesis", "Good.")
    assert failed.exit_code == 1
    assert "INVALID_TRANSITION" in failed.stderr


# The audit


def test_the_audit_of_a_run_is_listed_in_words(terminal: Terminal, half: str) -> None:
    said = terminal.say("audit", "list", half, columns=140)
    assert "took a job: antithesis_generate_business_case_critique" in said
    assert "no such model" in said
    assert terminal.told("audit", "verify")["ok"]


def test_neither_a_plan_nor_a_run_is_told(terminal: Terminal) -> None:
    failed = terminal.run("audit", "list", "no such thing")
    assert "there is no plan and no run “no such thing” here" in failed.stderr
