"""What went wrong, told to a person: one line in red, and what to do next."""

import json
from collections.abc import Mapping
from typing import IO, Any

import click

from waybook.errors import Misconfigured, NextCall, Unavailable, WaybookError
from waybook.record.oddities import visible
from waybook.redaction import redacted

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
MEANT = {"planId": "ID", "runId": "ID", "stageSlug": "STAGE"}


class Failure(click.ClickException):
    """An error of ours."""

    def __init__(self, fault: WaybookError) -> None:
        """Tell this error."""
        super().__init__(fault.message)
        self.hint = hint_for(fault)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line and the hint."""
        show(self.message, self.hint, file)


class Broken(click.ClickException):
    """Something that should not have happened."""

    def __init__(self, fault: Exception) -> None:
        """Tell what, without its innards."""
        said = str(fault).strip().splitlines()
        super().__init__(f"{type(fault).__name__}: {said[0]}" if said else type(fault).__name__)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line and the hint."""
        show(self.message, "waybook doctor; the whole story with WAYBOOK_DEBUG=1", file)


class Told(click.ClickException):
    """An error a tool answered with."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        """Tell the answer's error."""
        super().__init__(f"{error['code']}: {error['message']}")
        self.error = dict(error)
        following = error.get("next")
        self.hint = _hint_of(NextCall(**following)) if following else None

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line and the hint."""
        show(self.message, self.hint, file)


def show(message: str, hint: str | None, file: IO[Any] | None = None) -> None:
    """One red line, and what to do next if we know."""
    said = visible(redacted(" ".join(message.split())))
    click.secho(f"✗ {said}", fg="red", file=file, err=file is None)
    if hint:
        click.echo(f"  try: {visible(hint)}", file=file, err=file is None)


def hint_for(fault: WaybookError) -> str | None:
    """What a person can do about it."""
    if fault.next_call is not None:
        return command_for(fault.next_call)
    if isinstance(fault, Misconfigured | Unavailable):
        return "waybook doctor"
    return None


def _hint_of(call: NextCall) -> str:
    """The next call as a command; that the same is to be done again is said in words."""
    return call.why if call.repeats else command_for(call)


def command_for(call: NextCall) -> str:
    """The command line that does what this call does.

    >>> print(command_for(NextCall("get_plan_status", {"planId": "p1"}, "see")))
    waybook status p1
    >>> print(command_for(NextCall("get_next_step", {"planId": "p1"}, "go on")))
    waybook call get_next_step '{"planId": "p1"}'
    """
    if call.tool in COMMANDS:
        return COMMANDS[call.tool].format_map({**MEANT, **call.args})
    return f"waybook call {call.tool} '{json.dumps(dict(call.args))}'"
