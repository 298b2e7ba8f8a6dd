"""Command-line entry point: the command table and the conversion of errors to messages."""

import os
from typing import Any

import click

from waybook.cli.lazy import LazyGroup
from waybook.cli.terminal.errors import CommandError, InternalError
from waybook.errors import WaybookError

COMMANDS = {
    "demo": ("waybook.cli.demo.command:command", "See the main job done, live, in half a minute."),
    "serve": ("waybook.cli.commands.serve:command", "Serve agents and people over HTTP."),
    "mcp": ("waybook.cli.commands.mcp:command", "Serve one agent over stdin and stdout."),
    "call": ("waybook.cli.commands.call:command", "Call a tool, as an agent would."),
    "plans": ("waybook.cli.commands.plans:plans_command", "List the plans, newest activity first."),
    "status": ("waybook.cli.commands.plans:status_command", "Show where a plan stands."),
    "watch": ("waybook.cli.commands.plans:watch_command", "Watch a plan, live."),
    "review": ("waybook.cli.commands.review:review_command", "Decide what waits for a person."),
    "search": (
        "waybook.cli.commands.search:command",
        "Search what agents stored, by words and by meaning.",
    ),
    "runs": ("waybook.cli.commands.runs:runs_command", "List the runs, newest activity first."),
    "run": ("waybook.cli.commands.runs:run_command", "Show where a run stands."),
    "feedback": (
        "waybook.cli.commands.review:feedback_command",
        "Say something of a completed stage; it opens the next one.",
    ),
    "documents": (
        "waybook.cli.commands.documents:command",
        "List the documents of a run, or write them into a folder.",
    ),
    "outputs": (
        "waybook.cli.commands.outputs:command",
        "List the outputs of a plan, or write them into a folder.",
    ),
    "output": ("waybook.cli.commands.outputs:output_command", "Print one output of a plan."),
    "dag": ("waybook.cli.commands.dag:group", "Prepared workflows: list, show, add."),
    "usage": ("waybook.cli.commands.usage:command", "Show what all work took."),
    "audit": ("waybook.cli.commands.audit:group", "Read the audit, verify it, look back in time."),
    "report": ("waybook.cli.commands.report:command", "Show where a run of any system stands."),
    "map": (
        "waybook.cli.commands.map:command",
        "Check the structure of any DAG, and show what it will come to.",
    ),
    "webhooks": (
        "waybook.cli.commands.webhooks:group",
        "Whether notices arrive: list, test, retry.",
    ),
    "org": ("waybook.cli.commands.groups:org_group", "Orgs: add, list, show, set, erase."),
    "user": (
        "waybook.cli.commands.groups:user_group",
        "The users of an org: add, list, scopes, disable, enable, erase.",
    ),
    "token": ("waybook.cli.commands.groups:token_group", "API tokens: add, list, revoke."),
    "retain": (
        "waybook.cli.commands.maintenance:retain_command",
        "Let go what was kept long enough.",
    ),
    "backup": (
        "waybook.cli.commands.backup:backup_command",
        "Back up everything into a file, while others work.",
    ),
    "restore": (
        "waybook.cli.commands.backup:restore_command",
        "Restore a backup into an empty database.",
    ),
    "migrate": (
        "waybook.cli.commands.maintenance:migrate_command",
        "Bring the database up to date.",
    ),
    "doctor": (
        "waybook.cli.commands.doctor:command",
        "Say what is in force and from where, and what is wrong.",
    ),
}


class CommandLine(LazyGroup):
    def invoke(self, ctx: click.Context) -> object:
        """Run the command, converting an exception to a one-line error with a hint."""
        try:
            return super().invoke(ctx)
        except WaybookError as error:
            raise CommandError(error) from None
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get("WAYBOOK_DEBUG"):
                raise
            raise InternalError(error) from None


@click.group(
    cls=CommandLine,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command takes --help. New here? Begin with: waybook demo",
)
@click.version_option(package_name="waybook", message="%(prog)s %(version)s")
def app() -> None:
    """Waybook: the plan book that AI agents and people share."""


def main() -> Any:  # noqa: ANN401 - click ends the process itself
    """Run the command line."""
    return app(prog_name="waybook")
