"""`waybook outputs` and `waybook output`: list, save as files, print."""

from pathlib import Path

import pytest

from cli.terminal import Body, Terminal


def deliver(terminal: Terminal, plan_id: str, **more: str) -> str:
    named: Body = {"title": "Rivers", "mediaType": "text/markdown", "content": "# Rivers ☃", **more}
    reply = terminal.call("store_research_output", planId=plan_id, **named)
    return str(reply["outputId"])


@pytest.fixture(scope="module")
def delivered(terminal: Terminal) -> str:
    """Return a plan with two outputs: a report in two versions, and a table."""
    plan_id = terminal.plan("Plan with outputs")
    deliver(terminal, plan_id)
    deliver(terminal, plan_id, content="# More\r\n")
    deliver(terminal, plan_id, title="../Table", mediaType="text/csv", content="a,b")
    return plan_id


def test_outputs_command_lists_latest_version_of_each_output(
    terminal: Terminal, delivered: str
) -> None:
    outputs = terminal.json_output("outputs", delivered)
    assert [(output["title"], output["version"]) for output in outputs] == [
        ("../Table", 1),
        ("Rivers", 2),
    ]
    text = terminal.say("outputs", delivered, columns=140)
    assert "text/csv" in text
    assert outputs[0]["outputId"] in text


def test_outputs_command_saves_files_only_inside_folder(
    terminal: Terminal, delivered: str, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "folder"
    text = terminal.say("outputs", delivered, "--save", str(folder), "--versions")
    assert "3 files written" in text
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert written == {
        "Table.v1.csv": b"a,b",
        "Rivers.v1.md": "# Rivers ☃".encode(),
        "Rivers.v2.md": b"# More\r\n",
    }


def test_outputs_command_does_not_overwrite_file_without_force(
    terminal: Terminal, delivered: str, tmp_path: Path
) -> None:
    mine = tmp_path / "Rivers.v2.md"
    mine.write_text("mine")
    failed = terminal.run("outputs", delivered, "--save", str(tmp_path))
    assert failed.exit_code == 1
    assert "overwrite with --force" in failed.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["Rivers.v2.md"]
    outputs = terminal.json_output("outputs", delivered, "--save", str(tmp_path), "--force")
    assert {output["file"] for output in outputs} == {str(path) for path in tmp_path.iterdir()}
    assert mine.read_bytes() == b"# More\r\n"


def test_outputs_with_similar_titles_are_saved_to_distinct_files(
    terminal: Terminal, tmp_path: Path
) -> None:
    plan_id = terminal.plan("Plan with look-alikes")
    for title in ("a b", "A/b", "a?b"):
        deliver(terminal, plan_id, title=title)
    terminal.say("outputs", plan_id, "--save", str(tmp_path))
    names = {path.name.lower() for path in tmp_path.iterdir()}
    assert names == {"a-b.v1.md", "a-b.v1-2.md", "a-b.v1-3.md"}


def test_output_command_prints_content_of_output(terminal: Terminal, delivered: str) -> None:
    table, report = terminal.json_output("outputs", delivered)
    assert terminal.say("output", table["outputId"]) == "a,b\n"
    assert terminal.json_output("output", report["outputId"])["content"] == "# More\r\n"


def test_outputs_command_fits_80_columns_and_shows_ids_in_full(terminal: Terminal) -> None:
    plan_id = terminal.plan("Plan with long titles")
    title = "Comparison of all proposals for the rewrite of the billing system, second edition"
    output_id = deliver(terminal, plan_id, title=title)
    text = terminal.say("outputs", plan_id, columns=80)
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert output_id in text
    assert "Comparison of all" in text
