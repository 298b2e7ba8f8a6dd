"""`waybook feedback`: what a person says of a completed stage; it opens the next one."""

import asyncio
from typing import Any, cast

import click

from waybook.cli.faults import ToolError
from waybook.cli.inputs import read_argument
from waybook.cli.inside import load_settings, open_app
from waybook.cli.options import database_options, json_option
from waybook.cli.printing import print_json, print_line
from waybook.doorway import Channel
from waybook.settings import Settings
from waybook.usecases.find_runs import resolve_run


@click.command()
@click.argument("run")
@click.argument("stage")
@click.argument("text")
@click.option("--models", metavar="NAMES", help="For the next stage (a,b,c), if it has others.")
@json_option
@database_options
def command(
    *, run: str, stage: str, text: str, models: str | None, as_json: bool, **flags: object
) -> None:
    """Say something of a completed stage; it opens the next one.

    RUN is its id, the beginning of it, or a part of its name. TEXT may be - to read it from stdin.
    """
    said = read_argument(text, "TEXT").strip()
    asked: dict[str, object] = {"stageSlug": stage, "feedback": said}
    if models is not None:
        asked["models"] = [name.strip() for name in models.split(",")]
    body = asyncio.run(_pass_on(load_settings(flags), run, asked))
    if as_json:
        print_json(body, tight=True)
        return
    click.secho(f"✓ your feedback on {stage} is kept", fg="green")
    for started in body["started"]:
        jobs = sum(step["jobs"] for step in started["openSteps"])
        count = "1 job is" if jobs == 1 else f"{jobs} jobs are"
        print_line(f"  {started['stageSlug']} has begun: {count} ready")


async def _pass_on(settings: Settings, text: str, asked: dict[str, object]) -> dict[str, Any]:
    async with open_app(settings) as here:
        run = await resolve_run(here.call, text)
        caller, tool = here.app.caller(Channel.CLI), "submit_stage_feedback"
        answer = await here.app.doorway.dispatch(caller, tool, {"runId": run.id, **asked})
    if answer.is_error:
        raise ToolError(cast("dict[str, object]", answer.body["error"]))
    return answer.body
