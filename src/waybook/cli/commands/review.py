"""`waybook review` and `waybook feedback`: the review inbox, decisions, and stage feedback."""

import json
import sys
from typing import cast

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from waybook.app.queries.inbox import ReviewRecord, list_reviews
from waybook.app.queries.work_list import (
    OPEN,
    RunFilter,
    RunSummary,
    list_runs,
    resolve_plan,
    resolve_run,
)
from waybook.app.request.caller import review_url
from waybook.cli.inputs import read_argument
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option
from waybook.cli.output import done, print_json
from waybook.cli.runtime import (
    AppSession,
    Outcome,
    app_command,
    get_console,
    load_settings,
    run_in_app,
    start_hint,
)
from waybook.cli.terminal.console import figures, plain_table, success, unwrapped
from waybook.cli.terminal.errors import ToolError
from waybook.core.durations import format_age
from waybook.core.hidden_characters import escape_hidden
from waybook.errors import NotAwaitingReview
from waybook.page_address import current_base_url
from waybook.settings import Settings


@app_command(
    click.argument("run"),
    click.argument("stage"),
    click.argument("text", callback=lambda _, __, text: read_argument(text, "TEXT").strip()),
    click.option(
        "--models", metavar="NAMES", help="Models for the next stage (a,b,c); default: unchanged."
    ),
    tight=True,
)
async def feedback_command(
    here: AppSession, run: str, stage: str, text: str, models: str | None
) -> Outcome:
    """Give feedback on a completed stage and start the next.

    RUN is an id, an id prefix, or part of the name. TEXT may be - to read it from stdin.
    """
    args: dict[str, object] = {"stageSlug": stage, "feedback": text}
    if models is not None:
        args["models"] = [name.strip() for name in models.split(",")]
    run_id = (await resolve_run(here.call, run)).id
    body = await here.result("submit_stage_feedback", {"runId": run_id, **args})
    lines = [done(f"your feedback on {stage} is stored")]
    for started in body["started"]:
        jobs = sum(step["jobs"] for step in started["openSteps"])
        count = "1 job is" if jobs == 1 else f"{jobs} jobs are"
        lines.append(escape_hidden(f"  {started['stageSlug']} has started: {count} ready"))
    return Outcome(body, lines)


_MAX_LINES = 20
MAX_RUNS = 100


def _review_panel(review: ReviewRecord, width: int, settings: Settings) -> Panel:
    parts: list[RenderableType] = [_markdown(review.summary)]
    if review.questions:
        questions = "\n".join(f"? {question}" for question in review.questions)
        parts += ["", Text(questions, style="magenta")]
    if review.result_summary is not None:
        parts += ["", Text("the result, if you approve", style="dim"), _result(review)]
    byline = f"requested by {review.requested_by}, {format_age(review.requested_at, review.now)}"
    plan_id = review.plan_id
    parts += ["", Text(f"{byline} · attempt {review.attempt} · plan {plan_id}", style="dim")]
    parts += [Text(review_url(plan_id, current_base_url(settings)), style="dim")]
    if hint := start_hint(settings):
        parts += [Text(hint, style="dim")]
    title = Text.assemble(" ", (review.plan_name, "bold"), f" · {_step_name(review)} ")
    return Panel(
        Group(*parts), title=title, title_align="left", border_style="magenta", width=width
    )


def _waiting_lines(runs: list[RunSummary]) -> Group:
    lines: list[RenderableType] = []
    for run in runs:
        waits = list[tuple[str, str]]()
        for stage in (stage.slug for stage in run.stages if stage.failed):
            args = json.dumps({"runId": run.id, "stageSlug": stage}, ensure_ascii=False)
            waits.append((f"has failed jobs in {stage}", f"call retry_failed '{args}'"))
        if run.awaiting:
            stage = run.awaiting.slug
            command = f'feedback {run.id} {stage} "…"'
            waits.append((f"is waiting for your feedback on {stage}", command))
        for what, command in waits:
            reason = f" {what}, {format_age(run.updated_at, run.now)}"
            lines.append(Text.assemble(("! ", "bold magenta"), (run.name, "bold"), reason))
            lines.append(Text(f"  waybook {command}", style="dim"))
    return Group(*lines)


def _step_name(review: ReviewRecord) -> str:
    first = review.title or review.instructions.strip().split("\n", 1)[0]
    return f"step {review.step_order}, {first}"


def _result(review: ReviewRecord) -> Padding:
    result = review.result_summary
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


_DecisionFlags = tuple[str, str | None]


@click.command()
@click.argument("plan", required=False)
@click.option("--approve", is_flag=True, help="Accept the step's result.")
@click.option("--modify", metavar="TEXT", help="Request changes with this feedback.")
@click.option("--skip", is_flag=True, help="Skip the step.")
@click.option("--reject", is_flag=True, help="Reject the step and fail the plan.")
@json_option
@database_options
def review_command(*, plan: str | None, as_json: bool, **given: object) -> None:
    """Review and decide pending requests.

    Without a decision option, shows the inbox interactively, and the runs that await feedback or
    have failed jobs. With a decision option, decides the review of the named plan, or the only open
    review.
    """
    chosen: list[_DecisionFlags] = [
        (name, None) for name in ("approve", "skip", "reject") if given.pop(name)
    ]
    feedback = cast("str | None", given.pop("modify"))
    chosen += [("modify", feedback)] if feedback is not None else []
    if len(chosen) > 1:
        raise click.UsageError("Choose one of --approve, --modify, --skip and --reject.")
    settings = load_settings(given)
    if chosen:
        body = run_in_app(settings, lambda here: _carry_out(here, plan, chosen[0]))
        _tell(body, as_json=as_json)
    elif as_json or not can_prompt():
        _show(settings, plan, as_json=as_json)
    else:
        run_in_app(settings, lambda here: _go_through(here, plan, settings))


def can_prompt() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


async def _carry_out(
    here: AppSession, plan: str | None, decided: _DecisionFlags
) -> dict[str, object]:
    reviews = await _reviews(here, plan)
    if len(reviews) > 1:
        raise click.UsageError(f"{len(reviews)} reviews are open: name the plan.")
    if reviews:
        return await _submit(here, decided, **_seen(reviews[0]))
    if plan is None:
        raise NotAwaitingReview("there is no open review to decide")
    # No review is open, so the tool refuses the call. Its error says who decided the last review.
    return await _submit(here, decided, planId=(await resolve_plan(here.call, plan)).id)


def _seen(review: ReviewRecord) -> dict[str, str]:
    """Return the ids of the displayed review, so that no other review is decided by mistake."""
    return {"planId": review.plan_id, "reviewId": review.id}


async def _submit(here: AppSession, decided: _DecisionFlags, **named: str) -> dict[str, object]:
    decision, feedback = decided
    args = {**named, "decision": decision}
    args |= {"feedback": feedback} if feedback else {}
    return await here.result("submit_user_decision", args)


def _tell(body: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(body, tight=True)
        return
    step, plan = (str(body[name]).replace("_", " ") for name in ("stepStatus", "planStatus"))
    click.secho(f"✓ {CONFIRMATIONS[str(body['decision'])]}", fg="green")
    click.echo(f"  the step is {step}, the plan {plan}")


CONFIRMATIONS = {
    "approve": "approved",
    "modify": "sent back with your feedback",
    "skip": "skipped",
    "reject": "rejected",
}


async def _reviews(here: AppSession, plan: str | None) -> list[ReviewRecord]:
    plan_id = (await resolve_plan(here.call, plan)).id if plan else None
    return await list_reviews(here.call, plan_id)


#: Fields that only a decided review has. They are left out when open reviews are printed.
_DECISION_FIELDS = {"decision", "feedback", "decided_by", "decided_at", "plan_state"}


def _show(settings: Settings, plan: str | None, *, as_json: bool) -> None:
    async def read(here: AppSession) -> tuple[list[ReviewRecord], list[RunSummary]]:
        return await _reviews(here, plan), await _waiting_runs(here, plan)

    reviews, runs = run_in_app(settings, read)
    if as_json:
        base, payload = current_base_url(settings), []
        for review in reviews:
            fields = {n: v for n, v in review._asdict().items() if n not in _DECISION_FIELDS}
            payload.append({**fields, "reviewUrl": review_url(fields["plan_id"], base)})
        print_json(payload)
        return
    console = get_console()
    for review in reviews:
        console.print(_review_panel(review, console.width, settings))
    _say_rest(console, runs, empty=not reviews)


async def _go_through(here: AppSession, plan: str | None, settings: Settings) -> None:
    console = get_console()
    while reviews := await _reviews(here, plan):
        table = plain_table(figures("#"), "plan", "step", unwrapped("asked"))
        for number, review in enumerate(reviews, start=1):
            when = Text(format_age(review.requested_at, review.now), style="dim")
            table.add_row(str(number), review.plan_name, _step_name(review), when)
        console.print(table)
        chosen = 1
        if len(reviews) > 1:
            numbers = click.IntRange(1, len(reviews))
            chosen = click.prompt("which one", type=numbers, default=1)
        review = reviews[chosen - 1]
        console.print(_review_panel(review, console.width, settings))
        decided = _prompt_decision()
        if decided is None:
            return
        try:
            _tell(await _submit(here, decided, **_seen(review)), as_json=False)
        except ToolError as refusal:
            click.secho(f"✗ {escape_hidden(str(refusal))}", fg="yellow")
    _say_rest(console, await _waiting_runs(here, plan), empty=True)


async def _waiting_runs(here: AppSession, plan: str | None) -> list[RunSummary]:
    runs = [] if plan else (await list_runs(here.call, RunFilter(state=OPEN), MAX_RUNS))[0]
    return [run for run in runs if run.awaiting or run.steps_failed]


def _say_rest(console: Console, runs: list[RunSummary], *, empty: bool) -> None:
    if runs:
        console.print(_waiting_lines(runs))
    elif empty:
        console.print(success("Nothing is waiting for you."))


def _prompt_decision() -> _DecisionFlags | None:
    prompt = "[a]pprove, [m]odify, [s]kip, [r]eject, [l]ater"
    message = click.prompt(prompt, type=click.Choice(list("amsrl")), show_choices=False)
    if message == "m":
        return "modify", click.prompt("what should be done differently")
    if message == "r" and not click.confirm("Rejecting fails the whole plan. Continue?"):
        return None
    decision = {"a": "approve", "s": "skip", "r": "reject"}.get(message)
    return (decision, None) if decision else None
