"""`waybook plan`: list, view, watch and act on plans."""

from functools import partial
from typing import Any

import click

from waybook.cli.access import (
    Body,
    Server,
    fields_option,
    server_command,
    web_option,
)
from waybook.cli.completion import completer
from waybook.cli.diagram_files import export_options
from waybook.cli.lazy import load
from waybook.cli.output import done
from waybook.cli.terminal.errors import HintedError

plan_argument = partial(click.argument, "plan", shell_complete=completer("plans", "planId"))
_steps_argument = click.argument("steps", nargs=-1, type=int, metavar="[STEP]...")
name_option = click.option("--name", metavar="NAME", help="Name of the copy.")
reason_option = click.option("--reason", metavar="TEXT", prompt=True, help="Why; for the audit.")


@server_command(plan_argument(required=False), export_options, fields_option, web_option)
def view_command(server: Server, *, plan: str | None, **options: Any) -> None:  # noqa: ANN401
    """Show a plan with its steps.

    PLAN is an id, an id prefix, or part of the name; optional if only one plan is open.
    """
    load("waybook.cli.commands.boards:view")(server, "plan", plan, options)


@server_command(
    plan_argument(required=False),
    click.option("--once", is_flag=True, help="Print once and exit."),
)
def watch_command(server: Server, *, plan: str | None, once: bool) -> None:
    """Watch a plan live.

    PLAN is an id, an id prefix, or part of the name; optional if only one plan is open. Read-only.
    Keys: q quits, r refreshes, j and k or the arrows choose a step, enter shows it.
    """
    load("waybook.cli.commands.boards:watch")(server, "plan", plan, once=once)


def _modify(server: Server, plan: Body, modifications: list[Body]) -> Body:
    arguments = {"planId": plan["planId"], "modifications": modifications}
    return server.call("modify_plan", arguments)


def _reset(server: Server, text: str, steps: tuple[int, ...], status: str, what: str) -> None:
    """Let agents claim the chosen steps again, or all with this status."""
    plan = server.read("plan", q=text)
    chosen = [s for s in plan["steps"] if (s["stepOrder"] in steps if steps else _is(s, status))]
    if not chosen:
        missing = f"step {steps[0]}" if steps else f"{what} step"
        hint = f"waybook plan view {plan['planId']}"
        raise HintedError(f"the plan “{plan['name']}” has no {missing}", hint)
    _modify(server, plan, [{"action": "retry_step", "stepId": s["stepId"]} for s in chosen])
    named = ", ".join(str(step["stepOrder"]) for step in chosen)
    click.echo(done(f"agents can claim step {named} of “{plan['name']}” again"))


def _is(step: Body, status: str) -> bool:
    return "silentSeconds" in step if status == "stalled" else bool(step["status"] == status)


@server_command(plan_argument(), _steps_argument)
def retry_command(server: Server, *, plan: str, steps: tuple[int, ...]) -> None:
    """Retry the failed steps, or the steps with these numbers."""
    _reset(server, plan, steps, "failed", "failed")


@server_command(plan_argument(), _steps_argument)
def reassign_command(server: Server, *, plan: str, steps: tuple[int, ...]) -> None:
    """Take steps back from silent agents, or the steps with these numbers."""
    _reset(server, plan, steps, "stalled", "stalled")


@server_command(plan_argument(), reason_option)
def cancel_command(server: Server, *, plan: str, reason: str) -> None:
    """Cancel a plan. This cannot be undone."""
    detail = server.read("plan", q=plan)
    _modify(server, detail, [{"action": "cancel_plan", "reason": reason}])
    click.echo(done(f"the plan “{detail['name']}” is canceled"))


@server_command(
    plan_argument(),
    click.option("--from", "first", type=int, metavar="STEP", help="Redo from this step on."),
    name_option,
)
def copy_command(server: Server, *, plan: str, first: int | None, name: str | None) -> None:
    """Copy a plan, to continue or redo it. Results before the first step are kept."""
    arguments: Body = {"planId": server.read("plan", q=plan)["planId"]}
    arguments |= {"upToStep": max(0, first - 1)} if first is not None else {}
    arguments |= {"name": name} if name else {}
    made = server.call("copy_plan", arguments)
    click.echo(done(f"the copy is the plan {made['planId']}"))


@server_command(
    plan_argument(),
    click.option("--days", type=int, default=30, help="Days until the link ends (default: 30)."),
)
def share_command(server: Server, *, plan: str, days: int) -> None:
    """Create a link to a snapshot of a plan, which anyone with the link can read."""
    click.echo(server.share(server.read("plan", q=plan)["planId"], days))
