"""`waybook export` and `import`: exports are complete, and files of other tools are read."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from cli.sample_runs import agent_in, start, work
from cli.terminal import Body, Terminal
from embedded_postgres.data_directories import make_data_directory
from run_documents import render_all
from run_place import run_directory
from waybook.app.operations.audit_verification import audited_subjects, verify_subject
from waybook.app.operations.imports import import_export, read_export
from waybook.app.queries.work_export import ExportedRows, export_json, read_plan_rows, read_run_rows
from waybook.cli.runtime import AppSession
from waybook.core.decision_context import ALL_SCOPES, Scope
from waybook.core.hidden_characters import count_hidden
from waybook.embedded_postgres.supervisor import attach
from waybook.errors import Forbidden

WITHOUT_ADMIN = ALL_SCOPES - {Scope.ADMIN}


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Terminal]:
    """Yield a terminal with its own, empty data directory."""
    with make_data_directory(parent=run_directory()) as place, attach(place / "data") as attached:
        yield Terminal(attached.data_dir)


def _busy_plan(terminal: Terminal) -> str:
    """Return a plan with results, research, a review, an output, a condition and usage."""
    plan = terminal.call(
        "create_research_plan",
        name="Rivers, exported",
        researchQuestion="Which river is longest?",
        sessionId="morning",
        steps=[
            {"stepType": "search", "title": "=Look", "instructions": "Look it up.\n\nTwice."},
            {"stepType": "analyze", "instructions": "Compare.", "dependsOn": [1]},
            {"stepType": "synthesize", "instructions": "Write.", "dependsOn": [1, 2]},
        ],
        branchingConditions=[
            {
                "afterStepOrder": 1,
                "conditionExpression": "result.found > 3",
                "ifTrueAction": "add_steps",
                "actionParams": {"steps": [{"stepType": "search", "instructions": "More."}]},
            }
        ],
    )
    plan_id = str(plan["planId"])
    step = terminal.take(plan_id)
    held = {"stepId": step["stepId"], "attempt": step["attempt"]}
    research: Body = {"title": "Atlas", "content": {"km": 6650.5}, "kind": "finding"}
    sources = [{"url": "https://example.org/atlas", "title": "An atlas", "quote": "long ☃"}]
    terminal.call("store_research", stepId=step["stepId"], **research, sources=sources)
    used: Body = {"inputTokens": 10, "outputTokens": 20, "costUsd": 0.25}
    terminal.call("submit_step_result", **held, resultSummary={"found": 4}, usage=used)
    second = terminal.take(plan_id)
    asked: Body = {"summary": "Enough?", "questions": ["Which?"], "resultSummary": "Nile"}
    terminal.call("request_user_review", stepId=second["stepId"], **asked)
    output: Body = {"title": "Report", "mediaType": "text/markdown", "content": "# Nile\n\n☃"}
    terminal.call("store_research_output", planId=plan_id, **output)
    return plan_id


@pytest.fixture(scope="module")
def plan_id(terminal: Terminal) -> str:
    return _busy_plan(terminal)


@pytest.fixture(scope="module")
def run_id(terminal: Terminal) -> str:
    """Return a run with documents, rendered documents, a held job and a failed job."""

    async def act(here: AppSession) -> str:
        agent = agent_in(here)
        run = await start(agent, "Reports, exported", models=2)
        await work(agent, run, 5)
        await render_all(agent)
        job = await agent.job(run)
        named = {"jobId": job["jobId"], "attempt": job["attempt"]}
        await agent.call("fail_job", **named, error="=cmd()", retryable=False)
        await agent.job(run, sessionId="evening")
        return str(run["runId"])

    return terminal.inside(act)


def _plan_rows(terminal: Terminal, plan_id: str) -> object:
    async def act(here: AppSession) -> object:
        return (await read_plan_rows(here.call, plan_id)).rows

    return terminal.inside(act)


def _run_rows(terminal: Terminal, run_id: str) -> object:
    async def act(here: AppSession) -> object:
        return (await read_run_rows(here.call, run_id)).rows

    return terminal.inside(act)


def _exported(terminal: Terminal, subject: str, folder: Path) -> Path:
    file = folder / "export.json"
    terminal.say("export", subject, "--format", "json", "--output", str(file))
    return file


def test_exported_plan_has_equal_rows_and_valid_audit_after_import(
    terminal: Terminal, elsewhere: Terminal, plan_id: str, tmp_path: Path
) -> None:
    file = _exported(terminal, plan_id, tmp_path)
    text = elsewhere.say("import", str(file), typed="y\n", columns=200)
    assert f"✓ imported {plan_id}" in text
    assert _plan_rows(elsewhere, plan_id) == _plan_rows(terminal, plan_id)
    assert elsewhere.json_output("audit", "verify")["ok"]
    last = elsewhere.json_output("audit", "list", plan_id)[0]
    count = len(json.loads(file.read_bytes())["audit"])
    assert (last["details"]["action"], last["details"]["entries"]) == ("imported", count)
    again = elsewhere.run("import", str(file), "--yes")
    assert again.exit_code == 1
    assert f"has a plan with the id {plan_id} already" in again.stderr


def test_exported_run_has_equal_rows_and_valid_audit_after_import(
    terminal: Terminal, elsewhere: Terminal, run_id: str, tmp_path: Path
) -> None:
    file = _exported(terminal, run_id, tmp_path)
    answer = elsewhere.json_output("import", str(file), "--yes")
    assert (answer["kind"], answer["written"]) == ("run", True)
    assert _run_rows(elsewhere, run_id) == _run_rows(terminal, run_id)
    assert elsewhere.json_output("audit", "verify")["ok"]


def test_import_into_other_org_of_same_database_keeps_ids(
    terminal: Terminal, run_id: str, plan_id: str, tmp_path: Path
) -> None:
    terminal.say("org", "add", "import-target")
    for subject in (plan_id, run_id):
        file = _exported(terminal, subject, tmp_path)
        terminal.say("import", str(file), "--yes", "--org", "import-target")
        file.unlink()
        copied = terminal.say("export", subject, "--format", "json", "--org", "import-target")
        assert json.loads(copied)["audit"][-1]["details"]["action"] == "imported"

    async def verify(here: AppSession) -> list[bool]:
        ctx = await here.for_org("import-target")
        ids = {plan_id, run_id}
        subjects = [s for s in await audited_subjects(ctx) if s.id in ids]
        return [(await verify_subject(ctx, subject)).ok for subject in subjects]

    assert terminal.inside(verify) == [True, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e["audit"][1].update(actor="eve"), "entry 2 does not match its seal"),
        (lambda e: e["audit"].pop(0), "entry 1 is missing"),
        (lambda e: e["audit"].pop(), "its rows do not match its audit"),
        (lambda e: e["steps"][0].update(title="Other"), "its rows do not match its audit"),
        (lambda e: e["artifacts"].pop(), "its rows do not match its audit"),
        (lambda e: e.update(steps=None), "has no list steps"),
        (lambda e: e.update(version=1), "format version 1"),
        (lambda e: e["audit"][0].pop("record"), "audit entry 1 of this export needs"),
        (lambda e: e.update(format="other"), "set --format"),
    ],
)
def test_import_of_changed_export_is_refused(
    terminal: Terminal,
    elsewhere: Terminal,
    plan_id: str,
    tmp_path: Path,
    change: Callable[[Body], object],
    message: str,
) -> None:
    file = _exported(terminal, plan_id, tmp_path)
    export = json.loads(file.read_bytes())
    change(export)
    file.write_text(json.dumps(export))
    refused = elsewhere.run("import", str(file), "--yes")
    assert refused.exit_code == 1
    assert message in " ".join(refused.stderr.split())


def test_import_writes_nothing_in_dry_run_or_if_user_declines(
    terminal: Terminal, elsewhere: Terminal, tmp_path: Path
) -> None:
    plan_id = terminal.plan("Never written")
    file = _exported(terminal, plan_id, tmp_path)
    for words, typed in ((("--dry-run",), None), ((), "n\n")):
        result = elsewhere.run("import", str(file), *words, typed=typed)
        assert result.exit_code == 0
        assert "Nothing was written." in result.stderr
    assert elsewhere.run("status", plan_id).exit_code == 1


def test_csv_export_contains_durations_and_escapes_formulas(
    terminal: Terminal, plan_id: str, run_id: str
) -> None:
    rows = list(csv.DictReader(io.StringIO(terminal.say("export", plan_id, "--format", "csv"))))
    assert rows[0]["title"] == "'=Look"
    assert (rows[0]["status"], rows[-1]["status"]) == ("completed", "awaiting_input")
    assert all(float(row["seconds"]) >= 0 for row in rows)
    jobs = list(csv.DictReader(io.StringIO(terminal.say("export", run_id, "--format", "csv"))))
    assert {job["status"] for job in jobs} >= {"completed", "processing"}
    assert any(job["user"] == "evening" for job in jobs)


def test_plan_and_run_can_be_exported_as_markdown_and_mermaid(
    terminal: Terminal, plan_id: str, run_id: str
) -> None:
    assert "### 1. =Look" in terminal.say("export", plan_id)
    assert "Depends on #1, #2." in terminal.say("export", plan_id)
    report = terminal.say("export", run_id)
    assert report.startswith("# ")
    assert "## Input" in report
    assert "## Documents" in report
    for subject in (plan_id, run_id):
        assert terminal.say("export", subject, "--format", "mermaid").startswith("flowchart")


def test_export_never_replaces_a_file_unless_forced(
    terminal: Terminal, plan_id: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.md"
    file.write_text("mine")
    refused = terminal.run("export", plan_id, "--output", str(file))
    assert (refused.exit_code, file.read_text()) == (1, "mine")
    assert "--force" in refused.stderr
    terminal.say("export", plan_id, "--output", str(file), "--force")
    assert file.read_text().startswith("# Rivers, exported")


def test_export_never_replaces_a_device_or_pipe(
    terminal: Terminal, plan_id: str, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = terminal.run("export", plan_id, "--output", str(pipe), "--force")
    assert (refused.exit_code, pipe.is_fifo()) == (1, True)
    assert "device or pipe" in refused.stderr


#: HTML that a browser would execute.
TAG = "<script>alert(1)</script>"
HOSTILE = f"{TAG} <!-- \x1b[31m \u202e <img src=x onerror=alert(1)>"


def test_markdown_report_contains_no_html_and_no_control_characters(
    terminal: Terminal, tmp_path: Path
) -> None:
    steps: list[Body] = [{"stepType": "search", "title": HOSTILE, "instructions": f"\n{HOSTILE}"}]
    question: Body = {"researchQuestion": HOSTILE, "steps": steps}
    plan = str(terminal.call("create_research_plan", name=HOSTILE, **question)["planId"])
    step = terminal.take(plan)
    sources = [{"url": "https://example.org/<b>", "title": TAG}]
    research: Body = {"title": TAG, "content": HOSTILE, "sources": sources}
    terminal.call("store_research", stepId=step["stepId"], kind="finding", **research)
    held = {"stepId": step["stepId"], "attempt": step["attempt"]}
    terminal.call("submit_step_result", **held, resultSummary={"found": HOSTILE})
    output: Body = {"title": TAG, "mediaType": "text/html", "content": f"```\n{HOSTILE}"}
    terminal.call("store_research_output", planId=plan, **output)
    file = tmp_path / "report.md"
    terminal.say("export", plan, "--output", str(file))
    report = file.read_text()
    assert "&lt;script>" in report
    assert count_hidden(report) == {}
    for parser in (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable("table")):
        tokens = [inner for token in parser.parse(report) for inner in token.children or [token]]
        assert not [token.content for token in tokens if token.type.startswith("html")]


def test_export_of_unknown_plan_or_run_is_refused(terminal: Terminal) -> None:
    refused = terminal.run("export", "no such thing")
    assert refused.exit_code == 1
    assert "no plan or run matches “no such thing”" in refused.stderr


def test_importing_an_export_requires_the_admin_scope(terminal: Terminal, plan_id: str) -> None:
    async def act(here: AppSession) -> None:
        text = b"".join([part async for part in export_json(here.call, rows)])
        call = replace(here.call, caller=replace(here.call.caller, scopes=WITHOUT_ADMIN))
        with pytest.raises(Forbidden, match="only an administrator"):
            await import_export(call, read_export(json.loads(text)))

    async def read(here: AppSession) -> ExportedRows:
        return await read_plan_rows(here.call, plan_id)

    rows = terminal.inside(read)
    terminal.inside(act)


# Tests of files of other tools.


LIST = "# Move the mail\n\nWhy?\n\n- [ ] Copy the boxes\n- [x] Order\n- [ ] Switch (after 1)\n"


def stored_steps(terminal: Terminal, plan_id: str) -> list[Body]:
    steps: list[Body] = json.loads(terminal.say("export", plan_id, "--format", "json"))["steps"]
    return steps


def test_import_shows_the_plan_and_asks_before_storing_steps(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "plan.md"
    file.write_text(LIST)
    declined = terminal.run("import", str(file), typed="n\n", columns=120)
    assert declined.exit_code == 0
    assert "Nothing was written." in declined.stderr
    text = terminal.say("import", str(file), typed="y\n", columns=120)
    assert "Copy the boxes" in text
    assert "1 done tasks are left out" in text
    (plan,) = [plan for plan in terminal.json_output("plans") if plan["name"] == "Move the mail"]
    assert [step["instructions"] for step in stored_steps(terminal, plan["planId"])] == [
        "Copy the boxes",
        "Switch",
    ]


def test_import_detects_each_format_and_creates_a_plan(terminal: Terminal, tmp_path: Path) -> None:
    issue = {"title": "An issue", "body": "- [ ] a\n- [ ] b", "url": "https://example.org/1"}
    bead = {"id": "x-1", "title": "A bead", "status": "open", "issue_type": "task"}
    files = {
        "chart.mmd": "flowchart LR\n  a --> b\n",
        "tasks.json": json.dumps({"tasks": [{"id": 1, "title": "A task"}]}),
        "beads.jsonl": json.dumps(bead) + "\n",
        "issue.json": json.dumps(issue),
    }
    counts = {}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        answer = terminal.json_output("import", str(tmp_path / name), "--yes", "--name", name)
        assert answer["written"]
        counts[name] = len(stored_steps(terminal, answer["id"]))
    assert counts == {"chart.mmd": 2, "tasks.json": 1, "beads.jsonl": 1, "issue.json": 2}


def test_failed_import_names_the_line_and_writes_nothing(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "plan.md"
    file.write_text("- [ ] one\n- [ ] two (after 9)\n")
    before = terminal.json_output("plans")
    refused = terminal.run("import", str(file), "--yes")
    assert refused.exit_code == 1
    assert "✗ line 2: “two” depends on 9" in refused.stderr
    file.write_bytes(b"- [ ] one\n\xff")
    assert "line 2: this is not UTF-8" in terminal.run("import", str(file), "--yes").stderr
    assert terminal.json_output("plans") == before


def test_import_from_stdin_is_refused_without_yes_or_dry_run(terminal: Terminal) -> None:
    refused = terminal.run("import", "-", typed=LIST)
    assert refused.exit_code == 1
    assert "add --yes, or --dry-run" in refused.stderr
    shown = terminal.run("import", "-", "--dry-run", "--json", typed=LIST)
    assert json.loads(shown.stdout)["steps"][1]["dependsOn"] == [1]
