"""`waybook plan`: view, watch and act on plans; and what `waybook run` does in the same way."""

from collections.abc import Callable
from textwrap import indent
from typing import Any

import click

from waybook.cli.access import Body, Server, fields_option, find, server_command, web_option
from waybook.cli.completion import completer
from waybook.cli.diagram_files import export_options
from waybook.cli.lazy import load
from waybook.cli.options import Option
from waybook.cli.output import done
from waybook.cli.terminal.errors import HintedError
from waybook.core.actions import Kind, action
from waybook.core.hidden_characters import escape_hidden

_ABOUT = "{0} is an id, an id prefix, or part of the name; optional if only one {1} is open."
name_option = click.option("--name", metavar="NAME", help="Name of the copy.")


def work_argument(noun: Kind, *, required: bool = True) -> Option:
    """Return the argument `work`, which names a plan or run."""
    shown = noun.upper() if required else f"[{noun.upper()}]"
    complete = completer(f"{noun}s", f"{noun}Id")
    return click.argument("work", required=required, metavar=shown, shell_complete=complete)


def make_view(noun: Kind, first_line: str) -> click.Command:
    @server_command(
        work_argument(noun, required=False),
        click.option("--watch", is_flag=True, hidden=True),
        export_options,
        fields_option,
        web_option,
        text=f"{first_line}\n\n{_ABOUT.format(noun.upper(), noun)}",
    )
    def command(server: Server, *, work: str | None, watch: bool, **options: Any) -> None:  # noqa: ANN401
        if watch:
            load("waybook.cli.commands.boards:watch")(server, noun, work, once=False)
        else:
            load("waybook.cli.commands.boards:view")(server, noun, work, options)

    return command


def make_watch(noun: Kind) -> click.Command:
    @server_command(
        work_argument(noun, required=False),
        click.option("--once", is_flag=True, help="Print once and exit."),
        text=f"Watch a {noun} live.\n\n{_ABOUT.format(noun.upper(), noun)} Read-only. Keys: q "
        "quits, r refreshes, j and k or the arrows choose a row, enter shows it.",
    )
    def command(server: Server, *, work: str | None, once: bool) -> None:
        load("waybook.cli.commands.boards:watch")(server, noun, work, once=once)

    return command


def make_cancel(noun: Kind) -> click.Command:
    question = f"{action(noun, 'cancel').confirmation}\nReason"

    @server_command(
        work_argument(noun),
        click.option("--reason", metavar="TEXT", prompt=question, help="Why; for the audit."),
        act_on=(noun, "cancel"),
    )
    def command(server: Server, *, work: str, reason: str) -> None:
        found, cancel = find(server, noun, work, "cancel")
        server.call(*cancel.call(found[f"{noun}Id"], reason=reason))
        click.echo(done(f"the {noun} “{found['name']}” is canceled"))

    return command


def make_comment(noun: Kind, part: Option, id_of: Callable[[Body, Any], str]) -> click.Command:
    """Make a command that comments on a plan or run, or on the part that its option names."""

    @server_command(
        work_argument(noun),
        click.argument("text", required=False),
        part,
        click.option("--assign", metavar="USER", help="Assign the thread to this user."),
        click.option("--resolve", multiple=True, metavar="ID", help="Resolve this comment."),
        act_on=(noun, "comment"),
        text="Without TEXT, show the open comments. @name in TEXT mentions a user; agents read it "
        "too.",
    )
    def command(
        server: Server,
        *,
        work: str,
        part: object,
        assign: str | None,
        resolve: tuple[str, ...],
        text: str | None,
    ) -> None:
        found = server.read(noun, q=work)
        subject = found[f"{noun}Id"] if part is None else id_of(found, part)
        values: Body = {"text": text, "assignee": assign, "resolveIds": [*resolve]}
        if arguments := {name: value for name, value in values.items() if value}:
            server.call(*action(noun, "comment").call(subject, **arguments))
            click.echo(done("your comment is stored" if text else "done"))
            return
        comments = server.read("comments", q=subject)["comments"]
        for comment in reversed(comments):
            for_ = f", for {comment['assignee']}" if "assignee" in comment else ""
            click.echo(escape_hidden(f"{comment['commentId']}  {comment['name']}{for_}"))
            click.echo(indent(escape_hidden(comment.get("text", "")), "  "))
        if not comments:
            click.echo("No open comments.")

    return command


def _step_id(plan: Body, number: int) -> str:
    for step in plan["steps"]:
        if step["stepOrder"] == number:
            return str(step["stepId"])
    hint = f"waybook plan view {plan['planId']}"
    raise HintedError(f"the plan “{plan['name']}” has no step {number}", hint)


def _make_reset(name: str, text: str) -> click.Command:
    @server_command(
        work_argument(Kind.PLAN),
        click.argument("steps", nargs=-1, type=int, metavar="[STEP]..."),
        act_on=(Kind.PLAN, name),
        text=text,
    )
    def command(server: Server, *, work: str, steps: tuple[int, ...]) -> None:
        if steps:
            plan, reset = server.read("plan", q=work), action(Kind.PLAN, name)
        else:
            plan, reset = find(server, Kind.PLAN, work, name)
        offering = [step["stepOrder"] for step in plan["steps"] if name in step["actions"]]
        chosen = sorted({*(steps or offering)})
        server.call(*reset.call(plan["planId"], *(_step_id(plan, n) for n in chosen)))
        named = ", ".join(map(str, chosen))
        click.echo(done(f"agents can claim step {named} of “{plan['name']}” again"))

    return command


view_command = make_view(Kind.PLAN, "Show a plan with its steps.")
watch_command = make_watch(Kind.PLAN)
cancel_command = make_cancel(Kind.PLAN)
comment_command = make_comment(
    Kind.PLAN, click.option("--step", "part", type=int, help="Number of the step."), _step_id
)
retry_command = _make_reset("retry", "With STEP, retry the steps with these numbers.")
reassign_command = _make_reset("reassign", "With STEP, take the steps with these numbers back.")


@server_command(
    work_argument(Kind.PLAN),
    click.option("--from", "first", type=int, metavar="STEP", help="Redo from this step on."),
    name_option,
    act_on=(Kind.PLAN, "copy"),
)
def copy_command(server: Server, *, work: str, first: int | None, name: str | None) -> None:
    """Results before the first step are kept."""
    plan, copy = find(server, Kind.PLAN, work, "copy")
    more: Body = {"upToStep": max(0, first - 1)} if first is not None else {}
    more |= {"name": name} if name else {}
    made = server.call(*copy.call(plan["planId"], **more))
    click.echo(done(f"the copy is the plan {made['planId']}"))


@server_command(
    work_argument(Kind.PLAN),
    click.option("--days", type=int, default=30, help="Days until the link ends (default: 30)."),
    act_on=(Kind.PLAN, "share"),
)
def share_command(server: Server, *, work: str, days: int) -> None:
    """Anyone with the link can read the snapshot."""
    click.echo(server.share(find(server, Kind.PLAN, work, "share")[0]["planId"], days))
