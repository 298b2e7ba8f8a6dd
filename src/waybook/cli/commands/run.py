"""`waybook run`: list, view, watch and act on runs of workflows."""

from functools import partial
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
from waybook.cli.commands.plan import (
    comment_on,
    comment_options,
    name_option,
    reason_option,
)
from waybook.cli.completion import completer
from waybook.cli.diagram_files import export_options
from waybook.cli.inputs import read_argument
from waybook.cli.lazy import load
from waybook.cli.options import json_option
from waybook.cli.output import done, print_json
from waybook.core.actions import Kind, action
from waybook.core.hidden_characters import escape_hidden

run_argument = partial(click.argument, "run", shell_complete=completer("runs", "runId"))
_models_option = partial(
    click.option, "--models", metavar="NAMES", callback=lambda *a: _names(a[2])
)


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


@server_command(
    run_argument(required=False),
    click.option("--watch", is_flag=True, hidden=True),
    export_options,
    fields_option,
    web_option,
)
def view_command(server: Server, *, run: str | None, watch: bool, **options: Any) -> None:  # noqa: ANN401
    """Show the progress of a run.

    RUN is an id, an id prefix, or part of the name; optional if only one run is open.
    """
    if watch:
        load("waybook.cli.commands.boards:watch")(server, "run", run, once=False)
    else:
        load("waybook.cli.commands.boards:view")(server, "run", run, options)


@server_command(
    run_argument(required=False),
    click.option("--once", is_flag=True, help="Print once and exit."),
)
def watch_command(server: Server, *, run: str | None, once: bool) -> None:
    """Watch a run live.

    RUN is an id, an id prefix, or part of the name; optional if only one run is open. Read-only.
    Keys: q quits, r refreshes, j and k or the arrows choose a row, enter shows it.
    """
    load("waybook.cli.commands.boards:watch")(server, "run", run, once=once)


@server_command(
    run_argument(),
    click.argument("stage", required=False),
    click.option("--step", metavar="KEY", help="Only the jobs of this step."),
    act_on=(Kind.RUN, "retry"),
)
def retry_command(server: Server, *, run: str, stage: str | None, step: str | None) -> None:
    """With STAGE, retry only those of this stage."""
    detail, retry = find(server, Kind.RUN, run, "retry")
    failed = [s["stageSlug"] for s in detail["stages"] if (s["progress"] or {}).get("failedSteps")]
    for slug in [stage] if stage else failed:
        more = {"stepKey": step} if step else {}
        do(server, retry, detail["runId"], stageSlug=slug, **more)
        click.echo(done(f"agents can claim the failed jobs of {slug} again"))


@server_command(run_argument(), reason_option(Kind.RUN), act_on=(Kind.RUN, "cancel"))
def cancel_command(server: Server, *, run: str, reason: str) -> None:
    detail, cancel = find(server, Kind.RUN, run, "cancel")
    do(server, cancel, detail["runId"], reason=reason)
    click.echo(done(f"the run “{detail['name']}” is canceled"))


@server_command(
    run_argument(),
    click.option("--from", "stage", metavar="STAGE", help="Repeat from this stage on."),
    _models_option(help="Models (a,b,c); default: those of the stage."),
    name_option,
    act_on=(Kind.RUN, "copy"),
)
def copy_command(
    server: Server, *, run: str, stage: str | None, models: list[str], name: str | None
) -> None:
    """Documents of earlier stages are kept."""
    detail, copy = find(server, Kind.RUN, run, "copy")
    first = stage or detail["stages"][0]["stageSlug"]
    more = {name: value for name, value in (("models", models), ("name", name)) if value}
    made = do(server, copy, detail["runId"], fromStage=first, **more)
    click.echo(done(f"the copy is the run {made['runId']}"))


@server_command(
    click.argument("workflow", shell_complete=completer("workflows", "dagSlug")),
    click.argument("name"),
    click.argument("text", metavar="INPUT"),
    _models_option(required=True, help="Models that do the jobs (a,b,c)."),
    act_on=(Kind.WORKFLOW, "start"),
)
def start_command(
    server: Server, *, workflow: str, name: str, text: str, models: list[str]
) -> None:
    """INPUT is the subject of the run: a text, or - to read it from stdin."""
    subject = read_argument(text, "INPUT")
    arguments = {"dagSlug": workflow, "name": name, "input": subject, "models": models}
    click.echo(done(f"the run is {server.call('start_run', arguments)['runId']}"))


@server_command(
    run_argument(),
    click.argument("stage"),
    click.argument("text", callback=lambda _, __, text: read_argument(text, "TEXT").strip()),
    _models_option(help="Models for the next stage (a,b,c); default: unchanged."),
    json_option,
    act_on=(Kind.RUN, "feedback"),
)
def feedback_command(
    server: Server, *, run: str, stage: str, text: str, models: list[str], as_json: bool
) -> None:
    """RUN is an id, an id prefix, or part of the name. TEXT may be - to read it from stdin."""
    args: Body = {"stageSlug": stage, "feedback": text, **({"models": models} if models else {})}
    run_id = server.read("run", q=run)["runId"]
    body = do(server, action(Kind.RUN, "feedback"), run_id, **args)
    if as_json:
        print_json(body, tight=True)
        return
    click.echo(done(f"your feedback on {stage} is stored"))
    for started in body["started"]:
        jobs = sum(step["jobs"] for step in started["openSteps"])
        count = "1 job is" if jobs == 1 else f"{jobs} jobs are"
        click.echo(escape_hidden(f"  {started['stageSlug']} has started: {count} ready"))


@server_command(
    run_argument(),
    *comment_options(click.option("--job", metavar="ID", help="Id of the job.")),
)
def comment_command(
    server: Server,
    *,
    run: str,
    text: str | None,
    job: str | None,
    assign: str | None,
    resolve: tuple[str, ...],
) -> None:
    """Comment on a run or a job.

    Without TEXT, show the open comments. @name in TEXT mentions a user; agents read it too.
    """
    comment_on(server, job or server.read("run", q=run)["runId"], text, assign, resolve)
