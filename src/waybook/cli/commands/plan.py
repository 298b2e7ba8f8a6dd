"""`waybook plan`: list, view, watch and act on plans."""

from collections.abc import Callable
from functools import partial
from textwrap import indent
from typing import Any

import click

from waybook.cli.access import (
    Body,
    Server,
    do,
    fields_option,
    find,
    server_command,
    web_option,
)
from waybook.cli.completion import completer
from waybook.cli.diagram_files import export_options
from waybook.cli.lazy import load
from waybook.cli.options import Option
from waybook.cli.output import done
from waybook.cli.terminal.errors import HintedError
from waybook.core.actions import Kind, action
from waybook.core.hidden_characters import escape_hidden

plan_argument = partial(click.argument, "plan", shell_complete=completer("plans", "planId"))
_steps_argument = click.argument("steps", nargs=-1, type=int, metavar="[STEP]...")
name_option = click.option("--name", metavar="NAME", help="Name of the copy.")


def reason_option(kind: Kind) -> Callable[[Any], Any]:
    question = f"{action(kind, 'cancel').confirmation}\nReason"
    return click.option("--reason", metavar="TEXT", prompt=question, help="Why; for the audit.")


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


def _reset(server: Server, text: str, numbers: tuple[int, ...], name: str) -> None:
    """Let agents claim the chosen steps again, or all that offer the action."""
    if numbers:
        plan, done_action = server.read("plan", q=text), action(Kind.PLAN, name)
    else:
        plan, done_action = find(server, Kind.PLAN, text, name)
    orders = {step["stepOrder"]: step for step in plan["steps"]}
    if missing := [number for number in numbers if number not in orders]:
        hint = f"waybook plan view {plan['planId']}"
        raise HintedError(f"the plan “{plan['name']}” has no step {missing[0]}", hint)
    chosen = [n for n, s in orders.items() if (n in numbers if numbers else name in s["actions"])]
    do(server, done_action, plan["planId"], *(orders[number]["stepId"] for number in chosen))
    named = ", ".join(map(str, chosen))
    click.echo(done(f"agents can claim step {named} of “{plan['name']}” again"))


@server_command(plan_argument(), _steps_argument, act_on=(Kind.PLAN, "retry"))
def retry_command(server: Server, *, plan: str, steps: tuple[int, ...]) -> None:
    """With STEP, retry the steps with these numbers."""
    _reset(server, plan, steps, "retry")


@server_command(plan_argument(), _steps_argument, act_on=(Kind.PLAN, "reassign"))
def reassign_command(server: Server, *, plan: str, steps: tuple[int, ...]) -> None:
    """With STEP, take the steps with these numbers back."""
    _reset(server, plan, steps, "reassign")


@server_command(plan_argument(), reason_option(Kind.PLAN), act_on=(Kind.PLAN, "cancel"))
def cancel_command(server: Server, *, plan: str, reason: str) -> None:
    detail, cancel = find(server, Kind.PLAN, plan, "cancel")
    do(server, cancel, detail["planId"], reason=reason)
    click.echo(done(f"the plan “{detail['name']}” is canceled"))


@server_command(
    plan_argument(),
    click.option("--from", "first", type=int, metavar="STEP", help="Redo from this step on."),
    name_option,
    act_on=(Kind.PLAN, "copy"),
)
def copy_command(server: Server, *, plan: str, first: int | None, name: str | None) -> None:
    """Results before the first step are kept."""
    detail, copy = find(server, Kind.PLAN, plan, "copy")
    more: Body = {"upToStep": max(0, first - 1)} if first is not None else {}
    more |= {"name": name} if name else {}
    made = do(server, copy, detail["planId"], **more)
    click.echo(done(f"the copy is the plan {made['planId']}"))


@server_command(
    plan_argument(),
    click.option("--days", type=int, default=30, help="Days until the link ends (default: 30)."),
    act_on=(Kind.PLAN, "share"),
)
def share_command(server: Server, *, plan: str, days: int) -> None:
    """Anyone with the link can read the snapshot."""
    click.echo(server.share(find(server, Kind.PLAN, plan, "share")[0]["planId"], days))


def comment_on(
    server: Server, subject: str, text: str | None, assignee: str | None, resolved: tuple[str, ...]
) -> None:
    """Write a comment or resolve comments; without either, print the open comments."""
    values: Body = {"text": text, "assignee": assignee, "resolveIds": [*resolved]}
    arguments = {name: value for name, value in values.items() if value}
    if arguments:
        server.call("comment", {"subjectId": subject, **arguments})
        click.echo(done("your comment is stored" if text else "done"))
        return
    comments = server.read("comments", q=subject)["comments"]
    for comment in reversed(comments):
        for_ = f", for {comment['assignee']}" if "assignee" in comment else ""
        click.echo(escape_hidden(f"{comment['commentId']}  {comment['name']}{for_}"))
        click.echo(indent(escape_hidden(comment.get("text", "")), "  "))
    if not comments:
        click.echo("No open comments.")


def comment_options(*part: Option) -> tuple[Option, ...]:
    return (
        click.argument("text", required=False),
        *part,
        click.option("--assign", metavar="USER", help="Assign the thread to this user."),
        click.option("--resolve", multiple=True, metavar="ID", help="Resolve this comment."),
    )


@server_command(
    plan_argument(),
    *comment_options(click.option("--step", type=int, help="Number of the step.")),
)
def comment_command(
    server: Server,
    *,
    plan: str,
    text: str | None,
    step: int | None,
    assign: str | None,
    resolve: tuple[str, ...],
) -> None:
    """Comment on a plan or a step.

    Without TEXT, show the open comments. @name in TEXT mentions a user; agents read it too.
    """
    detail = server.read("plan", q=plan)
    subject = detail["planId"]
    if step is not None:
        ids = {s["stepOrder"]: s["stepId"] for s in detail["steps"]}
        if step not in ids:
            hint = f"waybook plan view {subject}"
            raise HintedError(f"the plan “{detail['name']}” has no step {step}", hint)
        subject = ids[step]
    comment_on(server, subject, text, assign, resolve)
