"""`waybook review`: what waits for a person, and decisions."""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from waybook.cli.access import (
    Body,
    Server,
    fields_option,
    open_page,
    server_command,
    web_option,
)
from waybook.cli.commands.plan import work_argument
from waybook.cli.lazy import load
from waybook.cli.output import print_json
from waybook.cli.terminal.console import SafeConsole, success
from waybook.cli.terminal.errors import HintedError, ToolError
from waybook.cli.terminal.rows import age_of, print_fields
from waybook.core.actions import Kind, action
from waybook.core.hidden_characters import escape_hidden

_plan = work_argument(Kind.PLAN, required=False)
_MAX_LINES: Final = 20
CONFIRMATIONS: Final = {
    "approve": "approved",
    "modify": "sent back with your feedback",
    "skip": "skipped",
    "reject": "rejected",
}


@server_command(_plan, fields_option, web_option)
def view_command(server: Server, *, work: str | None, fields: str | None, web: bool) -> None:
    """Show the open reviews with their results, of one plan or of all."""
    if web:
        open_page(f"{server.url}/inbox")
    else:
        _show(server, work, fields)


def _show(server: Server, plan: str | None, fields: str | None) -> None:
    answer = server.read("reviews", q=plan)
    reviews = _only_reviews(answer)
    if fields is not None:
        print_fields(reviews, fields)
        return
    console = SafeConsole()
    for review in reviews:
        console.print(_review_panel(review, console.width, server.hint))
    _say_rest(console, answer, empty=not reviews)


def _only_reviews(answer: Body) -> list[Body]:
    return [{**r, "now": answer["now"]} for r in answer["reviews"] if r["kind"] == "review"]


def _review_panel(review: Body, width: int, hint: str | None) -> Panel:
    parts: list[RenderableType] = [_markdown(review["summary"])]
    if review["questions"]:
        questions = "\n".join(f"? {question}" for question in review["questions"])
        parts += ["", Text(questions, style="magenta")]
    if "resultSummary" in review:
        parts += ["", Text("the result, if you approve", style="dim"), _result(review)]
    byline = f"requested by {review['requestedBy']}, {age_of(review, 'since')}"
    byline = f"{byline} · attempt {review['attempt']} · plan {review['planId']}"
    parts += ["", Text(byline, style="dim"), Text(review["reviewUrl"], style="dim")]
    parts += [Text(hint, style="dim")] if hint else []
    title = Text.assemble(" ", (review["name"], "bold"), f" · {_step_name(review)} ")
    return Panel(
        Group(*parts), title=title, title_align="left", border_style="magenta", width=width
    )


def _step_name(review: Body) -> str:
    return f"step {review['stepOrder']}, {review['title']}"


def _result(review: Body) -> Padding:
    result = review["resultSummary"]
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=2)
    lines = text.splitlines()
    left = len(lines) - _MAX_LINES
    shown = [*lines[:_MAX_LINES], "", f"… {left} more lines"] if left > 0 else lines
    shown_text = "\n".join(shown)
    return Padding(_markdown(shown_text) if isinstance(result, str) else Text(shown_text), (0, 2))


def _markdown(text: str) -> RenderableType:
    """Return rendered Markdown. The Markdown library is imported only if it is needed."""
    rendered: RenderableType = load("waybook.cli.terminal.markdown:terminal_markdown")(text)
    return rendered


def _waiting_lines(rows: Sequence[Body]) -> Group:
    lines: list[RenderableType] = []
    for row in rows:
        stage, run_id = row["title"], row["runId"]
        what, command = f"has failed jobs in {stage}", f"run retry {run_id} {stage}"
        if row["kind"] == "feedback":
            what = f"is waiting for your feedback on {stage}"
            command = f'feedback {run_id} {stage} "…"'
        reason = f" {what}, {age_of(row, 'since')}"
        lines.append(Text.assemble(("! ", "bold magenta"), (row["name"], "bold"), reason))
        lines.append(Text(f"  waybook {command}", style="dim"))
    return Group(*lines)


def _say_rest(console: Console, answer: Body, *, empty: bool) -> None:
    rows = [{**row, "now": answer["now"]} for row in answer["reviews"] if row["kind"] != "review"]
    if rows:
        console.print(_waiting_lines(rows))
    elif empty:
        console.print(success("Nothing is waiting for you."))


def _flag(decision: str) -> Callable[[Any], Any]:
    return click.option(f"--{decision}", is_flag=True, help=action(Kind.REVIEW, decision).help)


@server_command(
    _plan,
    _flag("approve"),
    click.option("--modify", metavar="TEXT", help="Request changes with this feedback."),
    _flag("skip"),
    _flag("reject"),
    fields_option,
)
def review_command(
    server: Server, *, work: str | None, fields: str | None, modify: str | None, **given: bool
) -> None:
    """Review and decide pending requests.

    Without a decision option, shows the inbox interactively, and the runs that await feedback or
    have failed jobs. With a decision option, decides the review of the named plan, or the only open
    review.
    """
    chosen = [name for name, value in given.items() if value]
    chosen += ["modify"] if modify is not None else []
    if len(chosen) > 1:
        raise click.UsageError("Choose one of --approve, --modify, --skip and --reject.")
    if chosen:
        _decide(server, work, chosen[0], modify, fields)
    elif fields is not None or not can_prompt():
        _show(server, work, fields)
    else:
        _go_through(server, work)


def can_prompt() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _decider(decision: str, *options: Any) -> click.Command:  # noqa: ANN401 - as in click
    @server_command(_plan, *options, fields_option, act_on=(Kind.REVIEW, decision))
    def command(
        server: Server, *, work: str | None, fields: str | None, feedback: str | None = None
    ) -> None:
        """PLAN may be left out if only one review is open."""
        _decide(server, work, decision, feedback, fields)

    return command


_feedback_option = partial(click.option, "--feedback", metavar="TEXT")
approve_command = _decider("approve")
modify_command = _decider("modify", _feedback_option(prompt="what should be done differently"))
skip_command = _decider("skip", _feedback_option(help="Why."))
reject_command = _decider("reject", _feedback_option(help="Why."))


def _decide(
    server: Server, plan: str | None, decision: str, feedback: str | None, fields: str | None
) -> None:
    reviews = _only_reviews(server.read("reviews", q=plan))
    if len(reviews) > 1:
        raise click.UsageError(f"{len(reviews)} reviews are open: name the plan.")
    if not reviews and plan is None:
        raise HintedError("there is no open review to decide", "waybook review list")
    # If no review is open, the tool refuses the call. Its error says who decided the last review.
    named = _seen(reviews[0]) if reviews else {"planId": server.read("plan", q=plan)["planId"]}
    body = _submit(server, decision, feedback, **named)
    if fields is not None:
        print_json(body, tight=True)
    else:
        _tell(body)


def _seen(review: Body) -> dict[str, str]:
    """Return the ids of the displayed review, so that no other review is decided by mistake."""
    return {"planId": review["planId"], "reviewId": review["reviewId"]}


def _submit(server: Server, decision: str, feedback: str | None, **named: str) -> Body:
    values = named | ({"feedback": feedback} if feedback else {})
    return server.call(*action(Kind.REVIEW, decision).call(values.pop("planId"), **values))


def _tell(body: Body) -> None:
    step, plan = (str(body[name]).replace("_", " ") for name in ("stepStatus", "planStatus"))
    click.secho(f"✓ {CONFIRMATIONS[str(body['decision'])]}", fg="green")
    click.echo(f"  the step is {step}, the plan {plan}")


def _go_through(server: Server, plan: str | None) -> None:
    console = SafeConsole()
    while reviews := _only_reviews(answer := server.read("reviews", q=plan)):
        for number, review in enumerate(reviews, start=1):
            place = f"{review['name']}  {_step_name(review)}  {age_of(review, 'since')}"
            console.print(Text(f"{number:2}  {place}"), overflow="ellipsis", no_wrap=True)
        chosen = 1
        if len(reviews) > 1:
            numbers = click.IntRange(1, len(reviews))
            chosen = click.prompt("which one", type=numbers, default=1)
        review = reviews[chosen - 1]
        console.print(_review_panel(review, console.width, server.hint))
        decided = _prompt_decision()
        if decided is None:
            return
        try:
            _tell(_submit(server, *decided, **_seen(review)))
        except ToolError as refusal:
            click.secho(f"✗ {escape_hidden(str(refusal))}", fg="yellow")
    _say_rest(console, answer, empty=True)


def _prompt_decision() -> tuple[str, str | None] | None:
    prompt = "[a]pprove, [m]odify, [s]kip, [r]eject, [l]ater"
    message = click.prompt(prompt, type=click.Choice(list("amsrl")), show_choices=False)
    if message == "m":
        return "modify", click.prompt("what should be done differently")
    decision = {"a": "approve", "s": "skip", "r": "reject"}.get(message)
    question = decision and action(Kind.REVIEW, decision).confirmation
    if not decision or (question and not click.confirm(f"{question} Continue?")):
        return None
    return decision, None
