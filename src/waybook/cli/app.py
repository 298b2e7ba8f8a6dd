"""The command line: its commands, and how what goes wrong is told to a person."""

import os
from typing import Any

import click

from waybook.cli.faults import CommandError, InternalError
from waybook.cli.lazy import LazyGroup
from waybook.errors import WaybookError

COMMANDS = {
    "demo": ("waybook.cli.demo.command:command", "See the main job done, live, in half a minute."),
    "serve": ("waybook.cli.serve:command", "Serve agents and people over HTTP."),
    "mcp": ("waybook.cli.mcp:command", "Serve one agent over stdin and stdout."),
    "call": ("waybook.cli.call:command", "Call a tool, as an agent would."),
    "plans": ("waybook.cli.plans:command", "List the plans, newest activity first."),
    "status": ("waybook.cli.status:command", "Show where a plan stands."),
    "watch": ("waybook.cli.watch:command", "Watch a plan, live."),
    "review": ("waybook.cli.review:command", "Decide what waits for a person."),
    "search": ("waybook.cli.search:command", "Search what agents stored, by words and by meaning."),
    "runs": ("waybook.cli.runs:command", "List the runs, newest activity first."),
    "run": ("waybook.cli.run:command", "Show where a run stands."),
    "feedback": (
        "waybook.cli.feedback:command",
        "Say something of a completed stage; it opens the next one.",
    ),
    "documents": (
        "waybook.cli.documents:command",
        "List the documents of a run, or write them into a folder.",
    ),
    "outputs": (
        "waybook.cli.outputs:command",
        "List the outputs of a plan, or write them into a folder.",
    ),
    "output": ("waybook.cli.outputs:output_command", "Print one output of a plan."),
    "dag": ("waybook.cli.dag:group", "Prepared workflows: list, show, add."),
    "usage": ("waybook.cli.usage:command", "Show what all work took."),
    "audit": ("waybook.cli.audit:group", "Read the audit, verify it, look back in time."),
    "report": ("waybook.cli.report:command", "Show where a run of any system stands."),
    "map": (
        "waybook.cli.map:command",
        "Check the structure of any DAG, and show what it will come to.",
    ),
    "webhooks": ("waybook.cli.webhooks:group", "Whether notices arrive: list, test, retry."),
    "org": ("waybook.cli.org:group", "Orgs: add, list, show, set, erase."),
    "user": (
        "waybook.cli.user:group",
        "The users of an org: add, list, scopes, disable, enable, erase.",
    ),
    "token": ("waybook.cli.token:group", "API tokens: add, list, revoke."),
    "retain": ("waybook.cli.retain:command", "Let go what was kept long enough."),
    "backup": ("waybook.cli.backup:command", "Back up everything into a file, while others work."),
    "restore": ("waybook.cli.restore:command", "Restore a backup into an empty database."),
    "migrate": ("waybook.cli.migrate:command", "Bring the database up to date."),
    "doctor": (
        "waybook.cli.doctor:command",
        "Say what is in force and from where, and what is wrong.",
    ),
}


class CommandLine(LazyGroup):
    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error becomes a sentence and what to do next."""
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
