"""Entry point of the command line: lists the commands, and prints errors as short messages."""

import gc
import os
import signal
from typing import Any, Final

import click

from waybook.cli.lazy import CommandGroup, Table
from waybook.cli.output import replace_unprintable_characters
from waybook.cli.terminal.errors import CommandError, InternalError
from waybook.errors import WaybookError

INTERRUPTED = 128 + signal.SIGINT
#: Threshold for garbage collection, higher than the number of objects that any command creates.
IMPORTED_OBJECTS = 500_000

COMMANDS: Final[Table] = {
    "demo": ("demo.command:command", "Run a 30-second live demo."),
    "serve": ("operator.serve:command", "Start the HTTP server (MCP, dashboard, API)."),
    "mcp": ("commands.mcp:command", "Start an MCP server over stdio."),
    "plugin": ("commands.plugin:command", "Show how to install a client's plugin, or install it."),
    "connect": ("commands.connect:command", "Connect an MCP client to Waybook."),
    "call": ("commands.call:command", "Call an MCP tool."),
    "login": ("commands.login:login_command", "Use a server from this terminal."),
    "logout": ("commands.login:logout_command", "Delete the stored login; use the local database."),
    "plan": ("commands.nouns:plan", "Plans: list, view, watch, start, retry, cancel, copy, share."),
    "run": ("commands.nouns:run", "Runs: list, view, watch, start, retry, cancel, copy."),
    "work": ("commands.nouns:work", "Workers: let agents of this machine work on plans and runs."),
    "review": ("commands.nouns:review", "Reviews: list, view, approve, modify, skip, reject."),
    "agent": ("commands.nouns:agent", "Agents that made calls in the last 30 days: list, view."),
    "workflow": ("commands.nouns:workflow", "Prepared workflows: list, view, add, start."),
    "search": ("commands.search:command", "Search stored research (full-text and semantic)."),
    "feedback": ("commands.run:feedback_command", "Give feedback on a stage and start the next."),
    "documents": ("commands.documents:command", "List or save the documents of a run."),
    "outputs": ("commands.outputs:command", "List or save the outputs of a plan."),
    "output": ("commands.outputs:output_command", "Print one output of a plan."),
    "export": ("commands.export:command", "Export a plan or run: Markdown, JSON, Mermaid or CSV."),
    "import": (
        "commands.import_plan:command",
        "Import a plan from a file, a tracker or an export.",
    ),
    "template": ("commands.template:group", "Templates of plans: list, show, save, use."),
    "usage": ("commands.usage:command", "Show token usage and cost."),
    "audit": ("operator.anchoring:group", "Read and verify the audit log, or view past states."),
    "report": ("commands.snapshots:report_command", "Show the progress of a run snapshot."),
    "map": ("commands.snapshots:map_command", "Validate a workflow and show its jobs."),
    "webhooks": ("operator.webhooks:group", "Webhook deliveries: list, test, retry."),
    "org": ("operator.members:org_group", "Orgs: add, list, show, set, erase."),
    "user": ("operator.members:user_group", "Users: add, list, scopes, disable, enable, erase."),
    "token": ("operator.members:token_group", "API tokens: add, list, revoke."),
    "retain": ("operator.maintenance:retain_command", "Delete data past its retention period."),
    "backup": ("operator.maintenance:backup_command", "Back up all data to a file."),
    "restore": ("operator.maintenance:restore_command", "Restore a backup into an empty database."),
    "migrate": ("operator.maintenance:migrate_command", "Apply pending database migrations."),
    "doctor": ("operator.doctor:command", "Check the configuration and environment."),
    "completion": ("commands.login:completion_command", "Print the completion for a shell."),
}
#: Old names of commands.
ALIASES: Final = {
    "plans": "plan list",
    "runs": "run list",
    "status": "plan view",
    "watch": "plan watch",
    "dag": "workflow",
}


class CommandLine(CommandGroup):
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
    aliases=ALIASES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Run any command with --help. New here? Start with: waybook demo",
)
@click.version_option(package_name="waybook", message="%(prog)s %(version)s")
def app() -> None:
    """Durable plans and workflows for AI agents, over MCP and PostgreSQL."""


def main() -> Any:  # noqa: ANN401 - click ends the process itself
    # Imported objects are never freed, so garbage collection during imports would only waste time.
    gc.set_threshold(IMPORTED_OBJECTS)
    # Prevent Pydantic from looking for plugins in every installed package, which is slow.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    replace_unprintable_characters()
    try:
        return app(prog_name="waybook")
    finally:
        gc.freeze()
