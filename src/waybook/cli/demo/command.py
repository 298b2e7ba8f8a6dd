"""`waybook demo`: the main job, played by scripted agents on a real database."""

import asyncio
import contextlib
import sys
from dataclasses import replace
from datetime import timedelta

import click
from rich.console import Console
from rich.text import Text

from waybook.cli.demo.acts import DemoOutput, plan_scenario, run_scenario
from waybook.cli.demo.clock import FAST, SLOW, SLOW_RUN, SimulatedClock
from waybook.cli.demo.ending import print_summary
from waybook.cli.demo.feed import EventLog
from waybook.cli.demo.place import temporary_database
from waybook.cli.demo.scene import DemoContext
from waybook.cli.inside import get_console, load_settings, open_app
from waybook.cli.options import database_options
from waybook.cli.verdicts import verify_all
from waybook.doorway import Channel
from waybook.settings import Settings
from waybook.wiring import Application

#: The story ends about now.
STORY = timedelta(minutes=360)


@click.command()
@click.option("--fast", is_flag=True, help="Without pauses.")
@click.option("--keep", is_flag=True, help="In your own database, where plan and run stay.")
@database_options
def command(*, fast: bool, keep: bool, **flags: object) -> None:
    """See the main job done, live, in half a minute.

    Three agents and a person work through a research plan, on an embedded PostgreSQL: with a
    branch, a repeated call, a killed agent, a stall, a new conversation and a review. Then three
    models work through a run of the dialectic: 221 jobs, one of them tried twice, one in two parts,
    one left behind, and a person's feedback between the stages. The agents are scripted, the engine
    is not. Their working day passes in seconds.
    """
    keep = keep or any(flags.values())
    with contextlib.ExitStack() as stack:
        if not keep:
            with get_console().status("starting PostgreSQL …"):
                flags["data_dir"] = stack.enter_context(temporary_database())
        settings = replace(load_settings(flags), token=None)  # everybody in it is made up
        asyncio.run(_play(settings, fast=fast, keep=keep))


async def _play(settings: Settings, *, fast: bool, keep: bool) -> None:
    console = get_console()
    audience = DemoOutput(console, live=console.is_terminal and not fast)
    async with open_app(settings) as here:
        scene = await _set_scene(here.app)
        scene.clock.pace = FAST if fast else SLOW
        await plan_scenario(scene, audience)
        _between(console)
        scene.clock.pace = FAST if fast else SLOW_RUN
        board = await run_scenario(scene, audience)
        verdicts = [one.verdict for one in await verify_all(scene.call, bar=False)]
        await print_summary(console, scene, board, verdicts, keep=keep)
    sys.exit(0 if all(verdict.ok for verdict in verdicts) else 1)


def _between(console: Console) -> None:
    said = "The plan says yes; how to do it is asked of a prepared workflow, the dialectic."
    more = "Three models propose, review each other and agree; a person speaks between the stages."
    console.print(Text.assemble(("\n", ""), (said, "bold"), f"\n{more}\n"))


async def _set_scene(services: Application) -> DemoContext:
    database = services.doorway.house.database
    (((now,),),) = await database.read_org(services.caller(Channel.CLI).org_id, "select app_now()")
    clock = SimulatedClock(database, now - STORY, FAST)
    return DemoContext(app=services, clock=clock, feed=EventLog(clock))
