"""`waybook backup`, `restore` and `audit anchor`, from one data directory to another."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.terminal import Terminal
from embedded_postgres.data_directories import make_data_directory
from run_place import run_directory
from waybook.cli.commands.anchoring import ANCHOR_NAME
from waybook.embedded_postgres.supervisor import attach


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Terminal]:
    """Return a second, empty data directory."""
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


def test_audit_anchor_keeps_existing_file_if_the_audit_differs(
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


def test_audit_anchor_command_never_replaces_a_backup(terminal: Terminal, archive: Path) -> None:
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
