"""Command line in general: help, imports, errors, logs, and `waybook call`."""

import json
import logging
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cli.terminal import Terminal
from waybook.app.registry import MODULES
from waybook.cli.app import COMMANDS, app
from waybook.cli.lazy import load
from waybook.cli.logs import JsonLineFormatter, _log_to
from waybook.cli.operator import maintenance
from waybook.core.hidden_characters import contains_hidden
from waybook.settings import LoadedSettings, Settings


def test_short_help_in_command_table_equals_help_of_each_command() -> None:
    for target, short_help in COMMANDS.values():
        command = load(f"waybook.cli.{target}")
        assert command.get_short_help_str(limit=100) == short_help


def test_help_lists_every_command_and_each_command_has_help() -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    for name in COMMANDS:
        assert f"  {name} " in listed
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0, name


@pytest.mark.parametrize(
    ("imported", "spared"),
    [
        ("waybook", "waybook.plan waybook.errors pydantic"),
        ("waybook.cli.app", "rich asyncio pydantic mcp psycopg"),
        ("waybook.cli.commands.mcp", "rich mcp psycopg pydantic"),
        (
            "waybook.cli.stdio.server",
            "rich psycopg jinja2 yaml waybook.app.dispatcher waybook.plan waybook.dag",
        ),
        ("waybook.cli.commands.call", "mcp uvicorn"),
        ("waybook.cli.commands.snapshots", "rich asyncio pydantic mcp psycopg"),
    ],
)
def test_importing_a_cli_module_does_not_import_slow_modules(imported: str, spared: str) -> None:
    look = f"import sys, {imported}; print(*set({spared.split()!r}) & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == ""


def test_server_imports_every_tool_before_the_first_call() -> None:
    look = "import sys, waybook.bootstrap; print(*{*sys.argv[1:]} - {*sys.modules})"
    modules = [f"waybook.app.tools.{name}" for name in MODULES.values()]
    command = [sys.executable, "-c", look, *modules]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == ""


def test_unknown_command_exits_with_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["dance"]).exit_code == 2


def test_call_command_prints_error_and_advice_if_database_is_unreachable(
    terminal: Terminal,
) -> None:
    failed = terminal.run("call", "ping", "--database-url", "postgresql://127.0.0.1:1/none")
    first, second = failed.stderr.splitlines()
    assert failed.exit_code == 1
    assert first.startswith("✗ cannot reach the database")
    assert second == "  try: waybook doctor"


def test_error_for_invalid_database_url_shows_example_without_secret(terminal: Terminal) -> None:
    failed = terminal.run("call", "ping", "--database-url", "s3cret is not a url")
    assert failed.exit_code == 1
    assert "postgresql://user:password@host/name" in failed.stderr
    assert "s3cret" not in failed.stderr


def test_unexpected_exception_prints_error_without_stack_trace(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("the moon is down\nand more")

    monkeypatch.setattr(maintenance, "run_migrations", broken)
    failed = terminal.run("migrate")
    assert failed.exit_code == 1
    assert failed.stderr.startswith("✗ ZeroDivisionError: the moon is down\n")
    assert "Traceback" not in failed.output


# Tests of `waybook call`.


def test_call_command_prints_indented_json_or_one_compact_line(terminal: Terminal) -> None:
    output = terminal.say("call", "ping")
    assert json.loads(output)["status"] == "ok"
    assert "\n  " in output
    output = terminal.say("call", "ping", "--json")
    assert output.count("\n") == 1
    assert output.startswith('{"status":"ok",')


def test_call_command_with_dash_reads_arguments_from_stdin(terminal: Terminal) -> None:
    plan_id = terminal.plan("By stdin")
    output = terminal.say(
        "call", "get_plan_status", "-", "--json", typed=json.dumps({"planId": plan_id})
    )
    assert json.loads(output)["planId"] == plan_id


def test_call_command_prints_suggestion_and_exits_1_after_tool_error(terminal: Terminal) -> None:
    failed = terminal.run("call", "get_plan_status", '{"planId": "unknown"}')
    assert failed.exit_code == 1
    assert failed.stderr.startswith("✗ NOT_FOUND: ")
    assert "try: waybook plan list" in failed.stderr


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


# Tests of log output.


TOKEN = "wb_" + "a1" * 20


def make_record(
    message: str, *values: object, error: BaseException | None = None
) -> logging.LogRecord:
    exc_info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("waybook", logging.ERROR, "file.py", 1, message, values, exc_info)


def _missing() -> None:
    raise KeyError(TOKEN)


def broken() -> Exception:
    """Return an exception that contains secrets and was caused by another exception."""
    try:
        try:
            _missing()
        except KeyError as error:
            raise ValueError(f"Authorization: Bearer hunter2 and {TOKEN}") from error
    except ValueError as error:
        return error
    raise AssertionError


def test_json_log_formatter_writes_one_line_per_record() -> None:
    line = JsonLineFormatter().format(make_record("a %s\nb", "plan"))
    assert "\n" not in line
    assert json.loads(line)["message"] == "a plan\nb"


def test_log_line_redacts_secret_in_message_and_values() -> None:
    record = json.loads(
        JsonLineFormatter().format(make_record(f"%s is not {TOKEN}", {"cookie": TOKEN}))
    )
    assert record["message"] == "{'cookie': '…'} is not wb_…"


def test_log_line_redacts_secret_in_stack_trace_and_cause() -> None:
    line = JsonLineFormatter().format(make_record("broke", error=broken()))
    record = json.loads(line)
    assert "KeyError: 'wb_…'" in record["trace"]
    assert "ValueError: Authorization: Bearer …" in record["trace"]
    assert TOKEN not in line
    assert "hunter2" not in line


def test_log_handler_redacts_secrets_and_escapes_control_characters() -> None:
    handler = logging.StreamHandler()
    _log_to(handler, LoadedSettings(Settings(model_key="correct horse"), {}))
    line = handler.format(make_record("said %s", "correct horse, \x9b31m\u202e"))
    assert "correct horse" not in line
    assert json.loads(line)["message"] == "said …, \x9b31m\u202e"
    assert not contains_hidden(line)
