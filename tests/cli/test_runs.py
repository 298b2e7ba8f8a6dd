"""`waybook runs`, `run` and `feedback`, and the audit of runs."""

import io
from contextlib import closing

import pytest
from rich.console import Console

from cli.sample_runs import completed_run, run_awaiting_feedback, run_in_progress
from cli.terminal import Terminal
from org_env import AgentClient, Body
from report_invariants import check
from transport.page_client import main_text, make_browser
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.work_views import run_view
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.cli.runtime import AppSession
from waybook.cli.terminal.console import Viewport
from waybook.cli.terminal.run_board import run_display
from waybook.page_address import PageClaim
from waybook.settings import Settings

SCREENS = [(40, 8), (60, 12), (80, 24), (100, 30), (140, 40), (200, 6), (80, 3), (30, 1)]


@pytest.fixture(scope="module")
def half(terminal: Terminal) -> str:
    return run_in_progress(terminal, "A dialectic with a name that does not fit anywhere at all")


@pytest.fixture(scope="module")
def done(terminal: Terminal) -> str:
    return completed_run(terminal, "Done and over")


# Tests of the list of runs.


def test_runs_command_lists_run_with_stage_and_step_counts(terminal: Terminal, half: str) -> None:
    (match,) = [run for run in terminal.json_output("runs") if run["runId"] == half]
    assert match["dagSlug"] == "dialectic"
    assert match["status"] == "failed"
    assert (match["completedStages"], match["totalStages"]) == (1, 5)
    assert match["progress"] == {"percent": 18, "done": 6, "total": 33}
    assert match["currentStage"] == "antithesis"
    assert match["stages"][1] == {
        "stageSlug": "antithesis",
        "completedSteps": 1,
        "totalSteps": 7,
        "failedSteps": 1,
    }


@pytest.mark.parametrize("columns", [60, 80, 100, 110, 140, 200])
def test_runs_command_output_fits_terminal_width(
    terminal: Terminal, half: str, columns: int
) -> None:
    output = terminal.say("runs", columns=columns)
    assert all(len(line.rstrip()) <= columns for line in output.splitlines())
    (row,) = [line for line in output.splitlines() if line.startswith(half)]
    assert "◐ Running" in row
    assert "1 of 5" in row


# Tests of the view of one run.


def test_run_command_prints_dashboard_address_or_start_command(terminal: Terminal) -> None:
    run_id = run_awaiting_feedback(terminal, "Linked")
    shown = terminal.say("run", run_id, columns=200)
    assert f"http://127.0.0.1:8750/runs/{run_id}" in shown
    assert "start one: waybook serve\n" in shown
    same = f"{terminal.data_dir.parent}/../{terminal.data_dir.parent.name}/{terminal.data_dir.name}"
    shown = terminal.say("run", run_id, "--data-dir", same, columns=200)
    assert f"start one: waybook serve --data-dir {same}\n" in shown
    with closing(PageClaim(Settings(data_dir=terminal.data_dir), "waybook test")) as claim:
        assert claim.try_record_server("http://127.0.0.1:4321")
        shown = terminal.say("run", run_id, columns=200)
        assert f"http://127.0.0.1:4321/runs/{run_id}" in shown
        assert "waybook serve" not in shown
        (match,) = [run for run in terminal.json_output("runs") if run["runId"] == run_id]
        assert match["runUrl"] == f"http://127.0.0.1:4321/runs/{run_id}"


def test_run_command_prints_stages_and_steps(terminal: Terminal, half: str) -> None:
    output = terminal.say("run", half, columns=110)
    assert "◐ Running, 1 failed  A dialectic with a name" in output
    assert "Dialectic, version 1, with alpha, beta, gamma; 16 of 57 documents available" in output
    assert "1 of 5 stages" in output
    assert "5 of 5 steps" in output
    assert "12 of 12 documents" in output
    assert "1 of 7 steps, 1 failed" in output
    assert "4 of 9 jobs, 1 failed" in output
    assert "ada" in output
    assert "13 steps" in output, "stages that have not started are listed too"
    assert f"waybook run retry {half}" in output
    assert "Move the reports to a queue." in output


def test_run_command_with_json_flag_prints_valid_report(terminal: Terminal, half: str) -> None:
    report = terminal.json_output("run", half)
    expected = {"dagProgress", "stages", "warnings", "status", "progress", "usage"}
    assert expected <= report.keys()
    assert check(report) == []


async def tools_and_pages(here: AppSession, run_id: str) -> tuple[Body, Body, Body, str, str]:
    """Return the replies of three tools, and the texts of the run list and the run pages."""
    agent = AgentClient(ServerDispatcher(here.app.services, here.app.calls), here.call.caller)
    dags = await agent.call("list_dags")
    run_map = await agent.call("get_dag_map", runId=run_id, detail=True)
    report = await agent.call("get_run_progress", runId=run_id, detail=True)
    started = [stage["stageSlug"] for stage in report["stages"] if stage["steps"]]
    paths = ["/runs", *(f"/runs/{run_id}?stage={slug}" for slug in started)]
    async with make_browser(agent) as browser:
        pages = [main_text(await browser.get(path)) for path in paths]
    return dags, run_map, report, pages[0], " ".join(pages[1:])


def test_tools_pages_and_commands_show_the_same_run_progress(terminal: Terminal, half: str) -> None:
    dags, run_map, report, list_page, page = terminal.inside(
        lambda here: tools_and_pages(here, half)
    )
    (in_reply,) = [run for run in dags["openRuns"] if run["runId"] == half]
    (in_list,) = [run for run in terminal.json_output("runs") if run["runId"] == half]
    lines = terminal.say("runs", columns=200).splitlines()
    (line,) = [line for line in lines if half.startswith(line.split()[0])]
    board = " ".join(terminal.say("run", half, columns=200, lines=200).split())
    list_page = list_page.partition(in_list["name"])[2].partition(" ago")[0]

    # The run has a failed job, but others go on.
    assert in_list["status"] == "failed"
    for shown in (line, board, page):
        assert "Running" in shown
    done, total = (report["dagProgress"][name] for name in ("completedStages", "totalStages"))
    assert (in_list["completedStages"], in_list["totalStages"]) == (done, total)
    for shown in (line, board, page):
        assert f"{done} of {total}" in shown
    assert f"stage {done + 1} of {total}" in list_page

    started = [stage for stage in report["stages"] if stage["steps"]]
    names = ("completedSteps", "totalSteps", "failedSteps")
    steps = {s["stageSlug"]: {name: s["progress"][name] for name in names} for s in started}
    assert steps == {stage.pop("stageSlug"): stage for stage in in_list["stages"]}
    sums = {name: sum(counts[name] for counts in steps.values()) for name in in_list["stages"][0]}
    assert [in_reply[name] for name in ("completedSteps", "failedSteps")] == [
        sums[name] for name in ("completedSteps", "failedSteps")
    ]
    progress = report["progress"]
    assert progress["total"] == in_reply["totalSteps"] > sums["totalSteps"]
    assert in_list["progress"] == progress
    for shown in (list_page, page):
        assert f"{progress['done']} of {progress['total']}" in shown
    for counts in steps.values():
        for shown in (board, page):
            assert f"{counts['completedSteps']} of {counts['totalSteps']}" in shown

    available = sum(stage["documentsAvailable"] for stage in started)
    expected = sum(stage["documentsExpected"] for stage in started)
    assert f"{available} of {expected}" in list_page
    for shown in (board, page):
        assert f"{available} of {expected} documents available" in shown

    stages = [stage for stage in run_map["stages"] if stage["stageSlug"] in steps]
    for step in (step for stage in stages for step in stage["steps"]):
        assert step["name"] in board
        assert step["name"] in page


def test_run_watch_without_terminal_prints_run_once(terminal: Terminal, half: str) -> None:
    assert "1 of 5 stages" in terminal.say("run", half, "--watch")


def board_of(terminal: Terminal, run_id: str) -> RunDetail:
    async def act(here: AppSession) -> RunDetail:
        return await read_run_detail(here.call, run_id, RunInclude.BOARD)

    return terminal.inside(act)


@pytest.mark.parametrize(("columns", "lines"), SCREENS)
def test_run_command_output_fits_terminal_size(
    terminal: Terminal, half: str, columns: int, lines: int
) -> None:
    board = board_of(terminal, half)
    for is_live in (False, True):
        console = Console(width=columns, file=io.StringIO(), record=True)
        frame = Viewport(width=columns, height=lines, live=is_live)
        console.print(run_display(run_view(board), frame))
        shown = console.export_text().splitlines()
        assert len(shown) <= lines
        assert all(len(line) <= columns for line in shown)


# Tests of feedback.


def test_feedback_command_starts_next_stage_and_is_audited(terminal: Terminal) -> None:
    run_id = run_awaiting_feedback(terminal, "To be continued")
    shown = terminal.say("run", run_id, columns=100)
    assert f'waybook feedback {run_id} thesis "…"' in shown
    output = terminal.say("feedback", run_id, "thesis", "Say what it costs.")
    assert "✓ your feedback on thesis is stored" in output
    assert "antithesis has started: 1 job is ready" in output
    (newest, *_) = terminal.json_output("audit", "list", run_id)
    assert newest["channel"] == "cli"


def test_feedback_command_with_dash_reads_text_from_stdin(terminal: Terminal) -> None:
    run_id = run_awaiting_feedback(terminal, "With others")
    words = ("feedback", run_id, "thesis", "-", "--models", "beta, gamma", "--json")
    ran = terminal.run(*words, typed="Go on.\n")
    assert ran.exit_code == 0
    assert '"models":["beta","gamma"]' in ran.stdout


# Tests of the audit of a run.


def test_audit_list_command_describes_events_of_run_in_words(terminal: Terminal, half: str) -> None:
    output = terminal.say("audit", "list", half, columns=140)
    assert "claimed a job: antithesis_generate_business_case_critique" in output
    assert "no such model" in output
    assert terminal.json_output("audit", "verify")["ok"]
