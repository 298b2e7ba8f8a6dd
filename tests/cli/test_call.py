"""The command `waybook call`."""

import json

from cli.terminal import Terminal


def test_call_command_prints_indented_json(terminal: Terminal) -> None:
    output = terminal.say("call", "ping")
    assert json.loads(output)["status"] == "ok"
    assert "\n  " in output


def test_call_command_with_json_flag_prints_one_compact_line(terminal: Terminal) -> None:
    output = terminal.say("call", "ping", "--json")
    assert output.count("\n") == 1
    assert output.startswith('{"status":"ok",')


def test_call_command_with_dash_reads_arguments_from_stdin(terminal: Terminal) -> None:
    plan_id = terminal.plan("By stdin")
    output = terminal.say(
        "call", "get_plan_status", "-", "--json", typed=json.dumps({"planId": plan_id})
    )
    assert json.loads(output)["planId"] == plan_id


def test_call_command_exits_with_1_and_suggestion_after_tool_error(terminal: Terminal) -> None:
    failed = terminal.run("call", "get_plan_status", '{"planId": "nobody"}')
    assert failed.exit_code == 1
    assert failed.stderr.startswith("✗ NOT_FOUND: ")
    assert "try: waybook plans" in failed.stderr


def test_call_command_is_audited_with_channel_cli(terminal: Terminal) -> None:
    args = {
        "name": "By hand",
        "researchQuestion": "?",
        "steps": [{"stepType": "custom", "instructions": "Do."}],
    }
    made = json.loads(terminal.say("call", "create_research_plan", json.dumps(args)))
    (entry,) = terminal.json_output("audit", "list", made["planId"])
    assert entry["channel"] == "cli"


def test_call_command_suggests_closest_name_for_misspelled_tool(terminal: Terminal) -> None:
    failed = terminal.run("call", "get_next_stp")
    assert failed.exit_code == 2
    assert "did you mean get_next_step?" in failed.stderr
