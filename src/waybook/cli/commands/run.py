"""`waybook run`: view, watch and act on runs of workflows."""

from functools import partial

import click

from waybook.cli.access import Body, Server, find, server_command
from waybook.cli.commands.plan import (
    make_cancel,
    make_comment,
    make_view,
    make_watch,
    name_option,
    work_argument,
)
from waybook.cli.completion import completer
from waybook.cli.inputs import read_argument
from waybook.cli.options import json_option
from waybook.cli.output import done, print_json
from waybook.core.actions import Kind, action
from waybook.core.hidden_characters import escape_hidden

_models_option = partial(
    click.option,
    "--models",
    metavar="NAMES",
    callback=lambda _, __, text: [name.strip() for name in text.split(",")] if text else [],
)
view_command = make_view(Kind.RUN, "Show the progress of a run.")
watch_command = make_watch(Kind.RUN)
cancel_command = make_cancel(Kind.RUN)
comment_command = make_comment(
    Kind.RUN, click.option("--job", "part", metavar="ID", help="Id of the job."), lambda _, job: job
)


@server_command(
    work_argument(Kind.RUN),
    click.argument("stage", required=False),
    click.option("--step", metavar="KEY", help="Only the jobs of this step."),
    act_on=(Kind.RUN, "retry"),
)
def retry_command(server: Server, *, work: str, stage: str | None, step: str | None) -> None:
    """With STAGE, retry only those of this stage."""
    detail, retry = find(server, Kind.RUN, work, "retry")
    failed = [s["stageSlug"] for s in detail["stages"] if (s["progress"] or {}).get("failedSteps")]
    for slug in [stage] if stage else failed:
        more = {"stepKey": step} if step else {}
        server.call(*retry.call(detail["runId"], stageSlug=slug, **more))
        click.echo(done(f"agents can claim the failed jobs of {slug} again"))


@server_command(
    work_argument(Kind.RUN),
    click.option("--from", "stage", metavar="STAGE", help="Repeat from this stage on."),
    _models_option(help="Models (a,b,c); default: those of the stage."),
    name_option,
    act_on=(Kind.RUN, "copy"),
)
def copy_command(
    server: Server, *, work: str, stage: str | None, models: list[str], name: str | None
) -> None:
    """Documents of earlier stages are kept."""
    detail, copy = find(server, Kind.RUN, work, "copy")
    first = stage or detail["stages"][0]["stageSlug"]
    more = {name: value for name, value in (("models", models), ("name", name)) if value}
    made = server.call(*copy.call(detail["runId"], fromStage=first, **more))
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
    work_argument(Kind.RUN),
    click.argument("stage"),
    click.argument("text", callback=lambda _, __, text: read_argument(text, "TEXT").strip()),
    _models_option(help="Models for the next stage (a,b,c); default: unchanged."),
    json_option,
    act_on=(Kind.RUN, "feedback"),
)
def feedback_command(
    server: Server, *, work: str, stage: str, text: str, models: list[str], as_json: bool
) -> None:
    """RUN is an id, an id prefix, or part of the name. TEXT may be - to read it from stdin."""
    args: Body = {"stageSlug": stage, "feedback": text, **({"models": models} if models else {})}
    run_id = server.read("run", q=work)["runId"]
    body = server.call(*action(Kind.RUN, "feedback").call(run_id, **args))
    if as_json:
        print_json(body, tight=True)
        return
    click.echo(done(f"your feedback on {stage} is stored"))
    for started in body["started"]:
        jobs = sum(step["jobs"] for step in started["openSteps"])
        count = "1 job is" if jobs == 1 else f"{jobs} jobs are"
        click.echo(escape_hidden(f"  {started['stageSlug']} has started: {count} ready"))
