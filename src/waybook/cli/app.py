"""Entry point of the command line: table of commands, and errors as messages."""

import os
import signal
from typing import Any

import click

from waybook.cli.lazy import LazyGroup
from waybook.cli.output import replace_unprintable_characters
from waybook.cli.terminal.errors import CommandError, InternalError
from waybook.errors import WaybookError

#: Exit code of a command that Ctrl-C ended, as shells report it.
INTERRUPTED = 128 + signal.SIGINT

COMMANDS = {
    "demo": ("waybook.cli.demo.command:command", "Run a 30-second live demo."),
    "serve": ("waybook.cli.commands.serve:command", "Start the HTTP server (MCP, dashboard, API)."),
    "mcp": ("waybook.cli.commands.mcp:command", "Start an MCP server over stdio."),
    "plugin": (
        "waybook.cli.commands.plugin:command",
        "Show how to install the plugin of a client.",
    ),
    "connect": ("waybook.cli.commands.connect:command", "Connect an MCP client to Waybook."),
    "call": ("waybook.cli.commands.call:command", "Call an MCP tool."),
    "plans": ("waybook.cli.commands.plans:plans_command", "List the plans, newest activity first."),
    "status": ("waybook.cli.commands.plans:status_command", "Show the status of a plan."),
    "watch": ("waybook.cli.commands.plans:watch_command", "Watch a plan live."),
    "review": ("waybook.cli.commands.review:review_command", "Review and decide pending requests."),
    "search": (
        "waybook.cli.commands.search:command",
        "Search stored research (full-text and semantic).",
    ),
    "runs": ("waybook.cli.commands.runs:runs_command", "List the runs, newest activity first."),
    "run": ("waybook.cli.commands.runs:run_command", "Show the progress of a run."),
    "feedback": (
        "waybook.cli.commands.review:feedback_command",
        "Give feedback on a completed stage and start the next.",
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
    "export": (
        "waybook.cli.commands.export:command",
        "Export a plan or run as Markdown, JSON, Mermaid or CSV.",
    ),
    "import": (
        "waybook.cli.commands.import_plan:command",
        "Import a plan from Markdown, Mermaid, Task Master, beads or GitHub, or an export.",
    ),
    "template": (
        "waybook.cli.commands.template:group",
        "Templates of plans: list, show, save, use.",
    ),
    "dag": ("waybook.cli.commands.dag:group", "Prepared workflows: list, show, add."),
    "usage": ("waybook.cli.commands.usage:command", "Show token usage and cost."),
    "audit": (
        "waybook.cli.commands.audit:group",
        "Read and verify the audit log, or view past states.",
    ),
    "report": (
        "waybook.cli.commands.report:command",
        "Report progress from a run snapshot (no database).",
    ),
    "map": (
        "waybook.cli.commands.map:command",
        "Validate a workflow and show its expected jobs (no database).",
    ),
    "webhooks": (
        "waybook.cli.commands.webhooks:group",
        "Webhook deliveries: list, test, retry.",
    ),
    "org": ("waybook.cli.commands.groups:org_group", "Orgs: add, list, show, set, erase."),
    "user": (
        "waybook.cli.commands.groups:user_group",
        "The users of an org: add, list, scopes, disable, enable, erase.",
    ),
    "token": ("waybook.cli.commands.groups:token_group", "API tokens: add, list, revoke."),
    "retain": (
        "waybook.cli.commands.maintenance:retain_command",
        "Delete data past its retention period.",
    ),
    "backup": (
        "waybook.cli.commands.backup:backup_command",
        "Back up all data to a file while the server runs.",
    ),
    "restore": (
        "waybook.cli.commands.backup:restore_command",
        "Restore a backup into an empty database.",
    ),
    "migrate": (
        "waybook.cli.commands.maintenance:migrate_command",
        "Apply pending database migrations.",
    ),
    "doctor": (
        "waybook.cli.commands.doctor:command",
        "Check the configuration and environment.",
    ),
}


class CommandLine(LazyGroup):
    def invoke(self, ctx: click.Context) -> object:
        """Run the command. An exception becomes a one-line error with a hint."""
        try:
            return super().invoke(ctx)
        except WaybookError as error:
            raise CommandError(error) from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
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
    epilog="Run any command with --help. New here? Start with: waybook demo",
)
@click.version_option(package_name="waybook", message="%(prog)s %(version)s")
def app() -> None:
    """Durable plans and workflows for AI agents, over MCP and PostgreSQL."""


def main() -> Any:  # noqa: ANN401 - click ends the process itself
    replace_unprintable_characters()
    return app(prog_name="waybook")
