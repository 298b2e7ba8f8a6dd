"""The command line as a whole: help, imports, and error output."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from cli.terminal import Terminal
from waybook.app.registry import MODULES
from waybook.cli.app import COMMANDS, app
from waybook.cli.commands import maintenance
from waybook.cli.lazy import load


@pytest.mark.parametrize("name", COMMANDS)
def test_command_table_has_the_short_help_of_each_command(name: str) -> None:
    target, short_help = COMMANDS[name]
    assert load(f"waybook.cli.{target}").get_short_help_str(limit=100) == short_help


def test_help_lists_every_command() -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    assert all(f"  {name} " in listed for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


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
        ("waybook.cli.commands.report", "rich asyncio pydantic mcp psycopg"),
        ("waybook.cli.commands.map", "rich asyncio pydantic mcp psycopg"),
    ],
)
def test_importing_a_cli_module_loads_no_unneeded_module(imported: str, spared: str) -> None:
    look = f"import sys, {imported}; print(*set({spared.split()!r}) & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == ""


def test_server_imports_every_tool_before_the_first_call() -> None:
    look = "import sys, waybook.bootstrap; print(*{*sys.argv[1:]} - {*sys.modules})"
    modules = [f"waybook.app.tools.{name}" for name in MODULES.values()]
    command = [sys.executable, "-c", look, *modules]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == ""


def test_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["dance"]).exit_code == 2


def test_call_command_prints_two_line_error_if_database_is_unreachable(terminal: Terminal) -> None:
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
