"""`waybook feedback`: what a person says of a completed stage; it opens the next one."""

import asyncio
from typing import Any, cast

import click

from waybook.cli.faults import Told
from waybook.cli.inputs import typed
from waybook.cli.inside import inside, quiet_settings
from waybook.cli.options import as_json, database_options
from waybook.cli.printing import say, say_json
from waybook.doorway import Channel
from waybook.settings import Settings
from waybook.usecases.find_runs import meant_run


@click.command()
@click.argument("run")
@click.argument("stage")
@click.argument("text")
@click.option("--models", metavar="NAMES", help="For the next stage (a,b,c), if it has others.")
@as_json
@database_options
def command(
    *, run: str, stage: str, text: str, models: str | None, as_json: bool, **flags: object
) -> None:
    """Say something of a completed stage; it opens the next one.

    RUN is its id, the beginning of it, or a part of its name. TEXT may be - to read it from stdin.
    """
    said = typed(text, "TEXT").strip()
    asked: dict[str, object] = {"stageSlug": stage, "feedback": said}
    if models is not None:
        asked["models"] = [name.strip() for name in models.split(",")]
    body = asyncio.run(_pass_on(quiet_settings(flags), run, asked))
    if as_json:
        say_json(body, tight=True)
        return
    click.secho(f"✓ your feedback on {stage} is kept", fg="green")
    for started in body["started"]:
        jobs = sum(step["jobs"] for step in started["openSteps"])
        count = "1 job is" if jobs == 1 else f"{jobs} jobs are"
        say(f"  {started['stageSlug']} has begun: {count} ready")


async def _pass_on(settings: Settings, text: str, asked: dict[str, object]) -> dict[str, Any]:
    async with inside(settings) as here:
        run = await meant_run(here.call, text)
        caller, tool = here.house.caller(Channel.CLI), "submit_stage_feedback"
        answer = await here.house.doorway.enter(caller, tool, {"runId": run.id, **asked})
    if answer.is_error:
        raise Told(cast("dict[str, object]", answer.body["error"]))
    return answer.body
