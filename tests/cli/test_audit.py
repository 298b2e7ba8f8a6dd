"""`waybook audit`, `backup` and `restore`, and the detection of changed entries and rows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from cli.sample_runs import run_in_progress
from cli.terminal import Terminal
from embedded_postgres.data_directories import make_data_directory
from project.repository import ROOT
from run_place import run_directory
from waybook.app.operations.audit_verification import audited_subjects
from waybook.cli.operator.anchoring import ANCHOR_NAME
from waybook.cli.runtime import AppSession
from waybook.embedded_postgres.supervisor import Attachment, attach


@pytest.fixture(scope="module")
def worked_on(terminal: Terminal) -> str:
    """Return a plan with four audit entries: one step is completed, and one is claimed."""
    plan_id = terminal.plan("Worked on")
    step = terminal.take(plan_id)
    terminal.call("submit_step_result", stepId=step["stepId"], resultSummary={"river": "Nile"})
    terminal.take(plan_id)
    return plan_id


def test_audit_list_command_prints_newest_entries_first(terminal: Terminal, worked_on: str) -> None:
    entries = terminal.json_output("audit", "list", worked_on)
    assert [entry["seq"] for entry in entries] == [4, 3, 2, 1]
    output = terminal.say("audit", "list", worked_on)
    assert "completed step 1" in output
    assert "created the plan" in output


def test_audit_verify_passes_for_unchanged_audit(terminal: Terminal, worked_on: str) -> None:
    verdict = terminal.json_output("audit", "verify")
    (chain,) = [chain for chain in verdict["chains"] if chain["subjectId"] == worked_on]
    assert verdict["ok"]
    assert chain["entries"] == 4
    assert "verified: replay gives exactly the stored state" in terminal.say("audit", "verify")


def test_documented_audit_query_prints_the_documented_table(
    terminal: Terminal, attachment: Attachment
) -> None:
    page = (ROOT / "docs" / "reference" / "audit.md").read_text("utf-8")
    query, _, rest = page.partition("```sql\n")[2].partition("```")
    table = rest.partition("```text\n")[2].partition("```")[0]
    plan_id = terminal.plan("Audited")
    step = terminal.take(plan_id)
    terminal.call("submit_step_result", stepId=step["stepId"], resultSummary={"river": "Nile"})
    with psycopg.connect(attachment.admin_dsn) as admin:
        rows = admin.execute(query.replace("az4xhh25v9vr", plan_id)).fetchall()
    documented = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()[2:]]
    for row, (seq, _, event, _, order, status) in zip(rows, documented, strict=True):
        assert [str(row[0]), row[2], row[4] or ""] == [seq, event, order]
        assert row[5] == (json.loads(status) if status else None)


TAMPERINGS = {
    "an entry was changed": (
        "update audit_entry set actor = 'mallory' where subject_id = %(id)s and seq = 2",
        "update audit_entry set actor = 'local' where subject_id = %(id)s and seq = 2",
        2,
        "entry 2 does not match its seal: it was changed",
    ),
    "a row was changed": (
        "update plan set name = 'Tampered with' where id = %(id)s",
        "update plan set name = 'Worked on' where id = %(id)s",
        None,
        "name is 'Tampered with', the audit says 'Worked on'",
    ),
}


@contextmanager
def tampered(attachment: Attachment, there: str, back: str, plan_id: str) -> Iterator[None]:
    """Change the database as a superuser, without audit entries; undo the change at the end."""
    with psycopg.connect(attachment.admin_dsn, autocommit=True) as admin:
        admin.execute(there, {"id": plan_id})
        yield
        admin.execute(back, {"id": plan_id})


@pytest.mark.parametrize("how", TAMPERINGS)
def test_audit_verify_reports_a_changed_entry_or_row(
    terminal: Terminal, attachment: Attachment, worked_on: str, how: str
) -> None:
    there, back, broken, message = TAMPERINGS[how]
    with tampered(attachment, there, back, worked_on):
        result = terminal.run("audit", "verify", "--json")
        shown = terminal.run("audit", "verify", columns=200)
    assert (result.exit_code, shown.exit_code) == (1, 1)
    (chain,) = [chain for chain in json.loads(result.stdout)["chains"] if not chain["ok"]]
    assert (chain["subjectId"], chain["firstBroken"]) == (worked_on, broken)
    assert message in shown.stdout


def test_audit_verify_reports_an_audit_chain_of_a_deleted_plan(
    terminal: Terminal, attachment: Attachment, worked_on: str
) -> None:
    plan_id = worked_on
    stray = plan_id[:-1] + ("0" if plan_id[-1] != "0" else "1")
    there = "update audit_entry set subject_id = %(stray)s where subject_id = %(id)s"
    with psycopg.connect(attachment.admin_dsn, autocommit=True) as admin:
        admin.execute(there, {"id": plan_id, "stray": stray})
        failed = terminal.run("audit", "verify", columns=200)
        admin.execute(there, {"id": stray, "stray": plan_id})
    assert failed.exit_code == 1
    assert f"plan {stray}" in failed.stdout
    assert "it was deleted" in failed.stdout


def test_audit_verify_checks_the_chains_of_skill_executions(terminal: Terminal) -> None:
    async def subjects(here: AppSession) -> set[tuple[str, str]]:
        return {(subject.kind, subject.id) for subject in await audited_subjects(here.call)}

    before = terminal.inside(subjects)
    skills = terminal.call("list_skills")["skills"]
    if not skills:
        pytest.skip("no skill is configured")
    started = terminal.call("start_skill", name=skills[0]["name"], sessionId="s")
    terminal.call("complete_skill", skillExecutionId=started["skillExecutionId"])
    used = ("skill_execution", started["skillExecutionId"])
    assert terminal.inside(subjects) - before == {used}
    assert terminal.json_output("audit", "verify")["ok"]


def test_audit_as_of_command_shows_plan_at_an_earlier_time(
    terminal: Terminal, worked_on: str
) -> None:
    def first_step(moment: str) -> str:
        rows = terminal.json_output("audit", "as-of", worked_on, moment)["rows"]
        (status,) = [row["status"] for row in rows["step"].values() if row["order"] == 1]
        return str(status)

    entries = {entry["seq"]: entry for entry in terminal.json_output("audit", "list", worked_on)}
    assert [first_step(seq) for seq in "123"] == ["pending", "in_progress", "completed"]
    assert first_step(entries[2]["at"]) == "in_progress"
    assert "after entry 2" in terminal.say("audit", "as-of", worked_on, "2")


def test_audit_as_of_command_shows_run_at_an_earlier_time(terminal: Terminal) -> None:
    run_id = run_in_progress(terminal, "As of a run")
    last = terminal.json_output("audit", "list", run_id, "--limit", "1")[0]["seq"]
    now = terminal.json_output("audit", "as-of", run_id, str(last))
    begun = terminal.json_output("audit", "as-of", run_id, "2")
    (run,) = begun["rows"]["run"].values()
    assert (run["name"], begun["seq"], now["seq"]) == ("As of a run", 2, last)
    assert len(begun["rows"]["stage_run"]) == 1
    assert len(now["rows"]["stage_run"]) == 2
    text = terminal.say("audit", "as-of", run_id, str(last))
    assert f"after entry {last}" in text
    assert "failed" in text
    assert "thesis/" in terminal.say("audit", "as-of", run_id, "2")
    terminal.call("cancel_run", runId=run_id, reason="Not needed.")
    assert "Canceled" in terminal.say("audit", "as-of", run_id, str(last + 1))
    assert "Running" in terminal.say("audit", "as-of", run_id, "2")


def test_audit_verify_of_exported_file_needs_no_database(
    terminal: Terminal, worked_on: str, tmp_path: Path
) -> None:
    file = tmp_path / "export.json"
    file.write_text(terminal.say("export", worked_on, "--format", "json"))
    nowhere = ("--database-url", "postgresql://127.0.0.1:1/none")
    verified = terminal.json_output("audit", "verify", str(file), *nowhere)
    assert (verified["ok"], verified["id"], verified["entries"]) == (True, worked_on, 4)
    seal = verified["seal"]
    assert "is intact as of entry 4" in terminal.say("audit", "verify", str(file), "--seal", seal)
    other = terminal.run("audit", "verify", str(file), "--seal", "00" * 32)
    assert other.exit_code == 1
    assert seal in " ".join(other.output.split())


@pytest.mark.parametrize(("old", "new"), [("Nile", "Mile"), ('"seq":2', '"seq":3'), ("{", "")])
def test_audit_verify_of_a_changed_export_file_fails(
    terminal: Terminal, worked_on: str, tmp_path: Path, old: str, new: str
) -> None:
    file = tmp_path / "export.json"
    text = terminal.say("export", worked_on, "--format", "json")
    assert old in text
    file.write_text(text.replace(old, new, 1))
    result = terminal.run("audit", "verify", str(file))
    assert result.exit_code == 1
    assert "Traceback" not in result.output


# Tests of backups and anchors.


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Terminal]:
    """Yield a terminal with its own, empty data directory."""
    with make_data_directory(parent=run_directory()) as place, attach(place / "data") as attached:
        yield Terminal(attached.data_dir)


@pytest.fixture(scope="module")
def archive(terminal: Terminal, tmp_path_factory: pytest.TempPathFactory) -> Path:
    terminal.plan("Kept")
    file = tmp_path_factory.mktemp("backups") / "backup.zip"
    output = terminal.say("backup", str(file), columns=200)
    assert f"✓ backed up to {file}" in output
    assert " rows of " in output
    return file


def test_restored_database_passes_verification_against_the_anchor(
    elsewhere: Terminal, archive: Path
) -> None:
    verify = ("audit", "verify", "--anchor", str(archive))
    nothing = elsewhere.run("audit", "verify")
    assert nothing.exit_code == 3
    assert "✗ no audit entries: nothing was verified" in nothing.stdout
    answer = elsewhere.run("audit", "verify", "--json")
    assert (answer.exit_code, json.loads(answer.stdout)["ok"]) == (3, False)
    missed = elsewhere.run(*verify, columns=200)
    assert missed.exit_code == 1
    assert "is missing, and no erasure explains it" in missed.stdout
    assert not (elsewhere.data_dir / ANCHOR_NAME).exists()

    assert "✓ restored from" in elsewhere.say("restore", str(archive), columns=200)
    verified = elsewhere.json_output(*verify)
    assert verified["ok"]
    assert verified["anchors"][0]["chains"] >= 1
    assert any(plan["name"] == "Kept" for plan in elsewhere.json_output("plans"))
    again = elsewhere.run("restore", str(archive))
    assert again.exit_code == 1
    assert "not empty" in again.stderr


def test_audit_verify_updates_stored_anchor_only_if_chains_match(
    terminal: Terminal, elsewhere: Terminal, archive: Path
) -> None:
    assert archive.exists()
    anchor = terminal.data_dir / ANCHOR_NAME
    anchor.unlink(missing_ok=True)
    assert terminal.json_output("audit", "verify")["anchors"] == []
    before = anchor.read_bytes()
    terminal.plan("Later")
    assert terminal.json_output("audit", "verify")["anchors"][0]["ok"]
    assert len(anchor.read_bytes()) > len(before)
    other = elsewhere.data_dir / ANCHOR_NAME
    other.write_bytes(anchor.read_bytes())
    assert elsewhere.run("audit", "verify").exit_code == 1
    assert other.read_bytes() == anchor.read_bytes()
    other.unlink()


def test_audit_anchor_overwrites_contradicting_anchor_only_if_forced(
    terminal: Terminal, elsewhere: Terminal, tmp_path: Path
) -> None:
    terminal.plan("Only here")
    file = tmp_path / "anchor.jsonl"
    assert "are anchored in" in terminal.say("audit", "anchor", str(file), columns=200)
    before = file.read_bytes()
    refused = elsewhere.run("audit", "anchor", str(file), columns=200)
    assert refused.exit_code == 1
    assert "do not match" in refused.stdout
    assert file.read_bytes() == before
    assert elsewhere.json_output("audit", "anchor", str(file), "--force")["file"] == str(file)
    assert file.read_bytes() != before


def test_audit_anchor_command_refuses_to_overwrite_a_backup(
    terminal: Terminal, archive: Path
) -> None:
    before = archive.read_bytes()
    refused = terminal.run("audit", "anchor", str(archive), "--force")
    assert (refused.exit_code, archive.read_bytes()) == (1, before)
    assert "is a backup" in refused.stderr


def test_backup_command_never_replaces_a_file_unless_forced(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "backup.zip"
    file.write_text("mine")
    refused = terminal.run("backup", str(file))
    assert (refused.exit_code, file.read_text()) == (1, "mine")
    assert "--force" in refused.stderr
    assert terminal.json_output("backup", str(file), "--force")["rows"] > 0


def test_backup_verify_detects_damage_without_a_database(
    terminal: Terminal, archive: Path, tmp_path: Path
) -> None:
    assert "is complete" in terminal.say("backup", str(archive), "--verify", columns=200)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(archive.read_bytes()[:-100])
    nowhere = Terminal(tmp_path / "nowhere")
    failed = nowhere.run("backup", str(cut), "--verify")
    assert failed.exit_code == 1
    assert "this backup is damaged" in failed.stderr
    assert not (tmp_path / "nowhere").exists()
