"""`waybook import` with files of other tools: detects, shows, asks, and creates the plan."""

import json
from pathlib import Path

from cli.terminal import Body, Terminal

LIST = "# Move the mail\n\nWhy?\n\n- [ ] Copy the boxes\n- [x] Order\n- [ ] Switch (after 1)\n"


def stored_steps(terminal: Terminal, plan_id: str) -> list[Body]:
    steps: list[Body] = json.loads(terminal.say("export", plan_id, "--format", "json"))["steps"]
    return steps


def test_import_shows_plan_and_asks_before_writing(terminal: Terminal, tmp_path: Path) -> None:
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


def test_import_from_stdin_needs_yes_or_dry_run(terminal: Terminal) -> None:
    refused = terminal.run("import", "-", typed=LIST)
    assert refused.exit_code == 1
    assert "add --yes, or --dry-run" in refused.stderr
    shown = terminal.run("import", "-", "--dry-run", "--json", typed=LIST)
    assert json.loads(shown.stdout)["steps"][1]["dependsOn"] == [1]


def test_plan_exported_as_markdown_has_same_steps_after_import(
    terminal: Terminal, tmp_path: Path
) -> None:
    steps = [
        {"stepType": "search", "title": "Look", "instructions": "Look it up.\n\n# Not a heading"},
        {"stepType": "synthesize", "instructions": "Write.", "dependsOn": [1]},
    ]
    named: Body = {"name": "Round trip", "researchQuestion": "Why?\nReally?"}
    plan_id = terminal.call("create_research_plan", **named, steps=steps)["planId"]
    file = tmp_path / "report.md"
    terminal.say("export", plan_id, "--output", str(file))
    answer = terminal.json_output("import", str(file), "--dry-run")
    assert (answer["name"], answer["researchQuestion"]) == ("Round trip", "Why?\nReally?")
    assert answer["steps"] == steps
