"""Prints errors in the terminal: one red line, and a hint about the next action."""

import json
from collections.abc import Mapping
from typing import IO, Any

import click

from waybook.core.hidden_characters import escape_hidden
from waybook.errors import Misconfigured, NextCall, Unavailable, WaybookError
from waybook.redaction import redact

COMMANDS = {
    "list_active_plans": "waybook plan list",
    "get_plan_status": "waybook plan view {planId}",
    "get_research_context": "waybook plan view {planId}",
    "list_dags": "waybook run list, or waybook workflow list",
    "get_run_progress": "waybook run view {runId}",
    "submit_stage_feedback": 'waybook feedback {runId} {stageSlug} "…"',
}
_PLACEHOLDERS = {"planId": "ID", "runId": "ID", "stageSlug": "STAGE"}


class HintedError(click.ClickException):
    """Error with a hint, for display in the terminal."""

    def __init__(self, message: str, hint: str | None) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        print_error(self.message, self.hint, file)


class UnreachableError(HintedError):
    """A server did not answer."""


class CommandError(HintedError):
    """A `WaybookError`, for display in the terminal."""

    def __init__(self, error: WaybookError) -> None:
        super().__init__(error.message, hint_for(error))


class InternalError(HintedError):
    """An unexpected exception, for display in the terminal."""

    def __init__(self, error: Exception) -> None:
        lines = str(error).strip().splitlines()
        message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        super().__init__(message, "waybook doctor; for a traceback set WAYBOOK_DEBUG=1")


class ToolError(HintedError):
    """Error that a tool returned, for display in the terminal."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        following = error.get("next")
        call = NextCall(**following) if following else None
        hint = (call.why if call.is_retry else command_for(call)) if call else None
        super().__init__(f"{error['code']}: {error['message']}", hint)
        self.error = dict(error)


def print_error(message: str, hint: str | None, file: IO[Any] | None = None) -> None:
    text = escape_hidden(redact(" ".join(message.split())))
    click.secho(f"✗ {text}", fg="red", file=file, err=file is None)
    if hint:
        click.echo(f"  try: {escape_hidden(hint)}", file=file, err=file is None)


def hint_for(error: WaybookError) -> str | None:
    if error.next_call is not None:
        return command_for(error.next_call)
    if isinstance(error, Misconfigured | Unavailable):
        return "waybook doctor"
    return None


def command_for(call: NextCall) -> str:
    """Return the command line that does the same as this tool call.

    >>> print(command_for(NextCall("get_plan_status", {"planId": "p1"}, "see")))
    waybook plan view p1
    >>> print(command_for(NextCall("get_next_step", {"planId": "p1"}, "go on")))
    waybook call get_next_step '{"planId": "p1"}'
    """
    if call.tool in COMMANDS:
        return COMMANDS[call.tool].format_map({**_PLACEHOLDERS, **call.args})
    return f"waybook call {call.tool} '{json.dumps(dict(call.args))}'"
