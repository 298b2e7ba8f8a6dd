"""`waybook demo`: the main job, played by scripted agents on a real database."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta

import click
from rich.console import Console
from rich.live import Live

from waybook.cli.board import Frame, picture
from waybook.cli.demo import cast
from waybook.cli.demo.clock import FAST, SLOW, Pace, StoryClock
from waybook.cli.demo.ending import tell_ending
from waybook.cli.demo.feed import Feed
from waybook.cli.demo.place import a_place_for_once
from waybook.cli.demo.scene import Scene
from waybook.cli.demo.stage import stage
from waybook.cli.inside import inside, quiet_settings, the_console
from waybook.cli.options import database_options
from waybook.cli.verdicts import verify_all
from waybook.doorway import Channel
from waybook.settings import Settings
from waybook.usecases.watch_plan import Board, watch_plan
from waybook.wiring import Running

#: The story ends about now.
STORY = timedelta(minutes=120)


@click.command()
@click.option("--fast", is_flag=True, help="Without pauses.")
@click.option("--keep", is_flag=True, help="In your own database, where the plan stays.")
@database_options
def command(*, fast: bool, keep: bool, **flags: object) -> None:
    """See the main job done, live, in half a minute.

    Three agents and a person work through a research plan, on an embedded PostgreSQL: with a
    branch, a repeated call, a killed agent, a stall, a new conversation and a review. The agents
    are scripted, the engine is not. Their two hours pass in seconds.
    """
    keep = keep or any(flags.values())
    with contextlib.ExitStack() as stack:
        if not keep:
            with the_console().status("starting PostgreSQL …"):
                flags["data_dir"] = stack.enter_context(a_place_for_once())
        asyncio.run(_play(quiet_settings(flags), FAST if fast else SLOW))


async def _play(settings: Settings, pace: Pace) -> None:
    console = the_console()
    async with inside(settings) as here:
        scene = await _set_scene(here.house, pace)
        board = await _perform(scene, console, live=console.is_terminal and bool(pace.per_minute))
        if not board.over:
            raise RuntimeError("the plan did not complete")
        verdicts = await verify_all(scene.call, bar=False)
        await tell_ending(console, scene, verdicts)
    sys.exit(0 if all(verdict.ok for verdict in verdicts) else 1)


async def _set_scene(house: Running, pace: Pace) -> Scene:
    database = house.doorway.house.database
    (((now,),),) = await database.read(house.caller(Channel.CLI).org_id, "select app_now()")
    clock = StoryClock(database, now - STORY, pace)
    return Scene(house=house, clock=clock, feed=Feed(clock))


async def _perform(scene: Scene, console: Console, *, live: bool) -> Board:
    """Play the story to its end, shown live or told line by line."""
    if not live:
        scene.feed.listener = lambda line: console.print(line.text(), soft_wrap=True)
        await _act(scene, _nothing)
        board = await watch_plan(scene.call, scene.plan_id)
        console.print()
        console.print(picture(board, Frame(width=console.width, holders=True)))
        return board
    with Live(console=console, auto_refresh=False) as screen:
        boards: list[Board] = []

        async def show() -> None:
            boards.append(await watch_plan(scene.call, scene.plan_id, *boards[-1:]))
            del boards[:-1]
            screen.update(stage(boards[0], scene.feed, console), refresh=True)

        await _act(scene, show)
        await show()
        return boards[0]


async def _act(scene: Scene, show: Callable[[], Awaitable[None]]) -> None:
    await cast.write_the_plan(scene)
    parts = (cast.ada, cast.ben, cast.cleo, cast.cleo_again, cast.mira)
    actors = [scene.clock.enter(part(scene)) for part in parts]
    await scene.clock.run(show)
    for actor in actors:
        actor.cancel()
    for outcome in await asyncio.gather(*actors, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


async def _nothing() -> None:
    """Nobody watches."""
