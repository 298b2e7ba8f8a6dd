"""Entry point of the command line: lists the commands, and prints errors as short messages."""

import gc
import os
import signal
from typing import Any, Final

import click

from waybook.cli.lazy import LazyGroup, Table
from waybook.cli.output import replace_unprintable_characters
from waybook.cli.terminal.errors import CommandError, InternalError
from waybook.errors import WaybookError

INTERRUPTED = 128 + signal.SIGINT
#: Threshold for garbage collection, higher than the number of objects that any command creates.
IMPORTED_OBJECTS = 500_000

AUDIT_COMMANDS: Final[Table] = {
    "anchor": (
        "commands.anchoring:anchor_command",
        "Write the last seal of every chain to a file outside the database.",
    ),
    "as-of": (
        "commands.anchoring:as_of_command",
        "Show a plan or run as of a time or an audit entry number.",
    ),
    "list": (
        "commands.anchoring:list_command",
        "List audit entries, newest first, for one plan or run or all.",
    ),
    "verify": (
        "commands.anchoring:verify_command",
        "Verify the audit chain and replay it against the database.",
    ),
}
ORG_COMMANDS: Final[Table] = {
    "add": ("commands.members:add_org_command", "Create an org (an isolated tenant)."),
    "list": ("commands.members:list_orgs_command", "List orgs."),
    "show": (
        "commands.members:show_org_command",
        "Show an org: name, review policy, number of users.",
    ),
    "set": ("commands.members:set_org_command", "Change an org's name or review policy."),
    "erase": ("commands.maintenance:org", "Erase an org and all its data."),
}
USER_COMMANDS: Final[Table] = {
    "add": ("commands.members:add_user_command", "Add a user (person or service) to an org."),
    "list": ("commands.members:list_users_command", "List the users of an org."),
    "scopes": ("commands.members:scopes_command", "Set a user's scopes."),
    "disable": ("commands.members:disable_command", "Disable a user immediately."),
    "enable": ("commands.members:enable_command", "Enable a user; existing tokens work again."),
    "erase": ("commands.maintenance:user", "Erase a user (replace the name with a pseudonym)."),
}
TOKEN_COMMANDS: Final[Table] = {
    "add": ("commands.members:add_token_command", "Create a token for a user (shown once)."),
    "list": (
        "commands.members:list_tokens_command",
        "List the tokens of an org (without secrets).",
    ),
    "revoke": ("commands.members:revoke_command", "Revoke a token permanently."),
}
COMMANDS: Final[Table] = {
    "demo": ("demo.command:command", "Run a 30-second live demo."),
    "serve": ("commands.serve:command", "Start the HTTP server (MCP, dashboard, API)."),
    "mcp": ("commands.mcp:command", "Start an MCP server over stdio."),
    "plugin": (
        "commands.plugin:command",
        "Show how to install the plugin of a client, or install it.",
    ),
    "connect": ("commands.connect:command", "Connect an MCP client to Waybook."),
    "call": ("commands.call:command", "Call an MCP tool."),
    "plans": ("commands.lists:plans_command", "List the plans, newest activity first."),
    "status": ("commands.work:status_command", "Show the status of a plan."),
    "watch": ("commands.work:watch_command", "Watch a plan live."),
    "review": ("commands.review:review_command", "Review and decide pending requests."),
    "search": ("commands.search:command", "Search stored research (full-text and semantic)."),
    "runs": ("commands.lists:runs_command", "List the runs, newest activity first."),
    "run": ("commands.work:run_command", "Show the progress of a run."),
    "feedback": (
        "commands.review:feedback_command",
        "Give feedback on a completed stage and start the next.",
    ),
    "documents": (
        "commands.documents:command",
        "List the documents of a run, or write them into a folder.",
    ),
    "outputs": (
        "commands.outputs:command",
        "List the outputs of a plan, or write them into a folder.",
    ),
    "output": ("commands.outputs:output_command", "Print one output of a plan."),
    "export": (
        "commands.export:command",
        "Export a plan or run as Markdown, JSON, Mermaid or CSV.",
    ),
    "import": (
        "commands.import_plan:command",
        "Import a plan from Markdown, Mermaid, Task Master, beads or GitHub, or an export.",
    ),
    "template": ("commands.template:group", "Templates of plans: list, show, save, use."),
    "dag": ("commands.dag:group", "Prepared workflows: list, show, add."),
    "usage": ("commands.usage:command", "Show token usage and cost."),
    "audit": (AUDIT_COMMANDS, "Read and verify the audit log, or view past states."),
    "report": ("commands.report:command", "Report progress from a run snapshot (no database)."),
    "map": (
        "commands.map:command",
        "Validate a workflow and show its expected jobs (no database).",
    ),
    "webhooks": ("commands.webhooks:group", "Webhook deliveries: list, test, retry."),
    "org": (ORG_COMMANDS, "Orgs: add, list, show, set, erase."),
    "user": (
        USER_COMMANDS,
        "The users of an org: add, list, scopes, disable, enable, erase.",
    ),
    "token": (TOKEN_COMMANDS, "API tokens: add, list, revoke."),
    "retain": ("commands.maintenance:retain_command", "Delete data past its retention period."),
    "backup": (
        "commands.maintenance:backup_command",
        "Back up all data to a file while the server runs.",
    ),
    "restore": ("commands.maintenance:restore_command", "Restore a backup into an empty database."),
    "migrate": ("commands.maintenance:migrate_command", "Apply pending database migrations."),
    "doctor": ("commands.doctor:command", "Check the configuration and environment."),
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
    # Imported objects are never freed, so garbage collection during imports would only waste time.
    gc.set_threshold(IMPORTED_OBJECTS)
    # Prevent Pydantic from looking for plugins in every installed package, which is slow.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    replace_unprintable_characters()
    try:
        return app(prog_name="waybook")
    finally:
        gc.freeze()
