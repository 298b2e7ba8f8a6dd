"""`waybook outputs`, `output` and `documents`: lists, contents, and saved files."""

from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.sample_runs import completed_run, run_awaiting_feedback
from cli.terminal import Body, Terminal
from waybook.app.queries.runs.run import DocumentListItem
from waybook.cli.commands.documents import file_names


def deliver(terminal: Terminal, plan_id: str, **more: str) -> str:
    named: Body = {"title": "Rivers", "mediaType": "text/markdown", "content": "# Rivers ☃", **more}
    reply = terminal.call("store_research_output", planId=plan_id, **named)
    return str(reply["outputId"])


@pytest.fixture(scope="module")
def delivered(terminal: Terminal) -> str:
    """Return a plan with two versions of a report, and with a table."""
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


# Tests of `waybook documents`.


@pytest.fixture(scope="module")
def done(terminal: Terminal) -> str:
    return completed_run(terminal, "Documents to read", models=2)


def test_documents_command_lists_documents_in_order_of_stages(
    terminal: Terminal, done: str
) -> None:
    documents = terminal.json_output("documents", done)
    assert len(documents) == 8 + 20 + 3 + 6 + 6
    stages = list(dict.fromkeys(document["stageSlug"] for document in documents))
    assert stages == ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"]
    report = terminal.json_output("run", done)
    available = {d["resourceId"] for stage in report["stages"] for d in stage["documents"]}
    assert {document["resourceId"] for document in documents} == available
    output = terminal.say("documents", done, columns=120)
    assert "43 of 43 available" in output


def test_documents_command_renders_pending_documents_before_listing(terminal: Terminal) -> None:
    run_id = run_awaiting_feedback(terminal, "Not rendered yet")
    assert terminal.json_output("run", run_id)["stages"][0]["documentsAvailable"] == 0
    assert "4 of 4 available, counting only started stages" in terminal.say("documents", run_id)


def test_documents_command_writes_markdown_and_html_files_to_a_folder(
    terminal: Terminal, done: str, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "folder"
    output = terminal.say("documents", done, "--out", str(out))
    assert "86 files written" in output
    assert len(list(out.rglob("*.md"))) == len(list(out.rglob("*.html"))) == 43
    text = (out / "1-thesis" / "business_case.alpha.md").read_text()
    assert text.startswith("# Found")
    page = (out / "1-thesis" / "business_case.alpha.html").read_text()
    assert "<h1>Found</h1>" in page
    assert "content-security-policy" in page
    assert (out / "2-antithesis" / "risk_register.beta.of-alpha.md").exists()


def test_documents_command_with_format_option_writes_only_that_format(
    terminal: Terminal, done: str, tmp_path: Path
) -> None:
    words = ("--stage", "thesis", "--format", "html", "--out", str(tmp_path))
    documents = terminal.json_output("documents", done, *words)
    assert all(document["files"] for document in documents)
    assert {path.parent.name for path in tmp_path.rglob("*.*")} == {"1-thesis"}
    assert {path.suffix for path in tmp_path.rglob("*.*")} == {".html"}


def test_documents_command_does_not_overwrite_file_without_force(
    terminal: Terminal, done: str, tmp_path: Path
) -> None:
    mine = tmp_path / "1-thesis" / "feature_spec.beta.md"
    mine.parent.mkdir()
    mine.write_text("mine")
    failed = terminal.run("documents", done, "--out", str(tmp_path))
    assert failed.exit_code == 1
    assert "overwrite with --force" in failed.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    terminal.say("documents", done, "--out", str(tmp_path), "--force")
    assert mine.read_text().startswith("# Found")


# Tests of file names.

TEXTS = st.text(min_size=1, max_size=90)


def make_document(
    number: int, key: str, model: str, lineage: str, reviewer: str | None
) -> DocumentListItem:
    return DocumentListItem(
        resource_id=str(number),
        stage="one/../stage",
        step_key="step",
        document_key=key,
        model=model,
        lineage=lineage,
        reviewer=reviewer,
        version=1,
        created_at=datetime(2030, 1, 1, tzinfo=UTC),
        length=1,
        document_id=str(number),
        job_id=str(number),
    )


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS, st.none() | TEXTS), max_size=12))
def test_document_file_names_are_unique_and_stay_inside_folder(
    rows: list[tuple[str, str, str, str | None]],
) -> None:
    listed = [make_document(number, *row) for number, row in enumerate(rows)]
    names = file_names(listed, ["one/../stage"])
    assert len({name.lower() for name in names.values()}) == len(listed)
    for name in names.values():
        path = PurePosixPath(name)
        assert len(path.parts) == 2
        assert not any(part.startswith(".") for part in path.parts)
        assert name.isascii()
