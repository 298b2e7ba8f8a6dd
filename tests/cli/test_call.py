"""`waybook call`."""

import json

from cli.terminal import Terminal


def test_a_tool_answers_in_json_that_people_can_read(terminal: Terminal) -> None:
    output = terminal.say("call", "ping")
    assert json.loads(output)["status"] == "ok"
    assert "\n  " in output


def test_a_machine_gets_one_compact_line(terminal: Terminal) -> None:
    output = terminal.say("call", "ping", "--json")
    assert output.count("\n") == 1
    assert output.startswith('{"status":"ok",')


def test_arguments_may_come_by_stdin(terminal: Terminal) -> None:
    plan_id = terminal.plan("By stdin")
    output = terminal.say(
        "call", "get_plan_status", "-", "--json", typed=json.dumps({"planId": plan_id})
    )
    assert json.loads(output)["planId"] == plan_id


def test_a_refusal_ends_with_one(terminal: Terminal) -> None:
    failed = terminal.run("call", "get_plan_status", '{"planId": "nobody"}')
    assert failed.exit_code == 1
    assert failed.stderr.startswith("✗ NOT_FOUND: ")
    assert "try: waybook plans" in failed.stderr


def test_a_refusal_is_an_answer_for_machines(terminal: Terminal) -> None:
    failed = terminal.run("call", "get_plan_status", '{"planId": "nobody"}', "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["error"]["code"] == "NOT_FOUND"


def test_a_call_by_hand_is_audited_as_such(terminal: Terminal) -> None:
    args = {
        "name": "By hand",
        "researchQuestion": "?",
        "steps": [{"stepType": "custom", "instructions": "Do."}],
    }
    made = json.loads(terminal.say("call", "create_research_plan", json.dumps(args)))
    (entry,) = terminal.told("audit", "list", made["planId"])
    assert entry["channel"] == "cli"


def test_call_arguments_not_json_object_is_usage_error(terminal: Terminal) -> None:
    for arguments in ("{", "[]", "3"):
        assert terminal.run("call", "ping", arguments).exit_code == 2


def test_a_misspelt_tool_is_guessed(terminal: Terminal) -> None:
    failed = terminal.run("call", "get_next_stp")
    assert failed.exit_code == 2
    assert "did you mean get_next_step?" in failed.stderr
