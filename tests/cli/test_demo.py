"""`waybook demo`: the events that it shows, its documents, and its audit."""

import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from cli.terminal import Body, Terminal
from report_invariants import check
from waybook.cli.demo.actors import STORY
from waybook.cli.runtime import AppSession
from waybook.core.ids import FIRST_ID
from waybook.store.plans import details
from waybook.store.runs import work

PROGRAM = Path(sys.executable).with_name("waybook")


def output_of(*command: str, **variables: str) -> str:
    """Run a program without `waybook` on the PATH; check that it prints no errors."""
    bare = {**os.environ, "PATH": os.defpath, **variables}
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=bare)
    assert ran.stderr == ""
    return ran.stdout


@pytest.fixture(scope="module")
def played(terminal: Terminal) -> str:
    kept = ("--keep", "--data-dir", str(terminal.data_dir))
    return output_of(str(PROGRAM), "demo", "--fast", *kept, COLUMNS="100", NO_COLOR="1")


def test_demo_completes_plan_and_passes_audit_verify(terminal: Terminal, played: str) -> None:
    assert "the plan is complete" in played
    assert "verified: replay gives exactly the stored state" in played
    # The newest plan is listed first. Another test process may have created an older plan with the
    # demo.
    plan, *_ = [
        p for p in terminal.json_output("plans", "--all") if p["name"] == STORY["plan"]["name"]
    ]
    assert plan["status"] == "completed"
    assert plan["counts"] == {"done": 11, "total": 11, "completed": 10, "skipped": 1}
    assert terminal.json_output("audit", "verify")["ok"]


@pytest.mark.parametrize(
    "moment",
    [
        "condition confidence < 0.5 is true: 2 steps added",
        "condition result.managed == true is true: 1 step skipped",
        "submits it again after a network timeout: counted once",
        "is killed while working on it",
        "is stalled: no heartbeat for 33 min",
        "returns in a new conversation and finds",
        "takes over from cleo: Interview the on-call engineer (attempt 2)",
        f"requests changes: “{STORY['planFeedback']}”",
        "claims it again, with the feedback (attempt 2)",
        "approves it",
        "starts a run with three models: 5 stages, 33 steps, 221 jobs",
        "reports a failure: Generate Business Case (the model timed out)",
        "retries: Generate Business Case (attempt 2)",
        "submits half of: Generate Technical Feasibility Assessment",
        "writes the rest of: Generate Technical Feasibility Assessment",
        "is killed while working on: Pairwise Synthesis",
        "starts as a replacement for the killed agent",
        "takes over the abandoned job: Pairwise Synthesis",
        "submits late: refused, another agent has the job now",
        *(f"feedback on {stage}: “{said}”" for stage, said in STORY["runFeedback"].items()),
        "stage paralysis is complete: 4 steps",
    ],
)
def test_demo_output_contains_every_scripted_event(played: str, moment: str) -> None:
    assert moment in played


def make_run(terminal: Terminal) -> Body:
    match, *_ = [
        run for run in terminal.json_output("runs", "--all") if run["name"] == STORY["run"]["name"]
    ]
    return cast("Body", match)


def test_demo_run_completes_with_all_documents_available(terminal: Terminal, played: str) -> None:
    assert "78 of 78 documents available" in played
    run = make_run(terminal)
    assert run["status"] == "completed"
    report = terminal.json_output("run", run["runId"])
    assert check(report) == []
    stages = {stage["stageSlug"]: stage for stage in report["stages"]}
    jobs = {
        slug: sum(step["jobs"]["done"] for step in stage["steps"]) for slug, stage in stages.items()
    }
    assert list(jobs.values()) == [13, 63, 125, 10, 10]
    assert f"waybook documents {run['runId']} --out documents" in played


def test_demo_is_not_in_the_history_of_forecasts(terminal: Terminal, played: str) -> None:
    assert played

    async def history(here: AppSession) -> tuple[int, int]:
        plans, runs = await here.call.read(
            details.SQL["finished_plans"](plan_id=FIRST_ID),
            work.SQL["finished_runs"](slug="dialectic", run_id=None),
        )
        return len(plans), len(runs)

    assert make_run(terminal)["status"] == "completed"
    assert terminal.inside(history) == (0, 0)


def test_demo_documents_contain_no_template_placeholders(
    terminal: Terminal, played: str, tmp_path: Path
) -> None:
    assert played
    run_id = make_run(terminal)["runId"]
    terminal.say("documents", run_id, "--out", str(tmp_path), "--format", "markdown")
    texts = [path.read_text() for path in tmp_path.rglob("*.md")]
    assert len(texts) == 78
    assert all(text.startswith("# ") and "{" not in text for text in texts)
    assert all(text.count("## In short") == 1 for text in texts)


def test_last_audit_entry_of_demo_is_under_30_minutes_old(terminal: Terminal, played: str) -> None:
    assert played
    (last, *_) = terminal.json_output("audit", "list", make_run(terminal)["runId"])

    async def now(here: AppSession) -> datetime:
        (((timestamp,),),) = await here.call.read("select app_now()")
        return cast("datetime", timestamp)

    ended = datetime.fromisoformat(last["at"])
    assert timedelta() < terminal.inside(now) - ended < timedelta(minutes=30)


def test_audit_of_demo_plan_contains_every_scripted_event_and_actor(
    terminal: Terminal, played: str
) -> None:
    assert played
    plan_id = next(
        p["planId"]
        for p in terminal.json_output("plans", "--all")
        if p["name"] == STORY["plan"]["name"]
    )
    entries = terminal.json_output("audit", "list", plan_id, "--limit", "100")
    assert {entry["event"] for entry in entries} == {
        "plan_modified",
        "session_resumed",
        "step_completed",
        "step_started",
        "user_reviewed",
    }
    assert {entry["actor"] for entry in entries} == {"ada", "ben", "cleo", "mira"}


def test_export_command_printed_by_the_demo_puts_waybook_on_path(played: str) -> None:
    (export,) = re.findall(r"^ +(export PATH=.*)$", played, re.MULTILINE)
    assert output_of("/bin/sh", "-c", f"{export}; command -v waybook") == f"{PROGRAM}\n"
