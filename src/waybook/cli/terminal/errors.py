"""What went wrong, told to a person: one line in red, and what to do next."""

import json
from collections.abc import Mapping
from typing import IO, Any

import click

from waybook.core.hidden_characters import escape_hidden
from waybook.errors import Misconfigured, NextCall, Unavailable, WaybookError
from waybook.redaction import redact

#: The commands that do for a person what these tools do for an agent.
COMMANDS = {
    "list_active_plans": "waybook plans",
    "get_plan_status": "waybook status {planId}",
    "get_research_context": "waybook status {planId}",
    "list_dags": "waybook runs, or waybook dag list",
    "get_run_progress": "waybook run {runId}",
    "submit_stage_feedback": 'waybook feedback {runId} {stageSlug} "…"',
}
#: What stands in a command for what the call does not name.
PLACEHOLDERS = {"planId": "ID", "runId": "ID", "stageSlug": "STAGE"}


class CommandError(click.ClickException):
    """An error of ours."""

    def __init__(self, error: WaybookError) -> None:
        """Tell this error."""
        super().__init__(error.message)
        self.hint = hint_for(error)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line and the hint."""
        print_error(self.message, self.hint, file)


class InternalError(click.ClickException):
    """Something that should not have happened."""

    def __init__(self, error: Exception) -> None:
        """Tell what, without its innards."""
        said = str(error).strip().splitlines()
        super().__init__(f"{type(error).__name__}: {said[0]}" if said else type(error).__name__)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line and the hint."""
        print_error(self.message, "waybook doctor; the whole story with WAYBOOK_DEBUG=1", file)


class ToolError(click.ClickException):
    """An error a tool answered with."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        """Tell the answer's error."""
        super().__init__(f"{error['code']}: {error['message']}")
        self.error = dict(error)
        following = error.get("next")
        self.hint = _hint_of(NextCall(**following)) if following else None

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line and the hint."""
        print_error(self.message, self.hint, file)


def print_error(message: str, hint: str | None, file: IO[Any] | None = None) -> None:
    """One red line, and what to do next if we know."""
    said = escape_hidden(redact(" ".join(message.split())))
    click.secho(f"✗ {said}", fg="red", file=file, err=file is None)
    if hint:
        click.echo(f"  try: {escape_hidden(hint)}", file=file, err=file is None)


def hint_for(error: WaybookError) -> str | None:
    """What a person can do about it."""
    if error.next_call is not None:
        return command_for(error.next_call)
    if isinstance(error, Misconfigured | Unavailable):
        return "waybook doctor"
    return None


def _hint_of(call: NextCall) -> str:
    """The next call as a command; that the same is to be done again is said in words."""
    return call.why if call.is_retry else command_for(call)


def command_for(call: NextCall) -> str:
    """The command line that does what this call does.

    >>> print(command_for(NextCall("get_plan_status", {"planId": "p1"}, "see")))
    waybook status p1
    >>> print(command_for(NextCall("get_next_step", {"planId": "p1"}, "go on")))
    waybook call get_next_step '{"planId": "p1"}'
    """
    if call.tool in COMMANDS:
        return COMMANDS[call.tool].format_map({**PLACEHOLDERS, **call.args})
    return f"waybook call {call.tool} '{json.dumps(dict(call.args))}'"
