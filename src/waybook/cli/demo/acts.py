"""The two acts of the demo: a plan that is improvised, and a run of what was prepared."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live

from waybook.cli.board import Frame
from waybook.cli.demo import cast, crew
from waybook.cli.demo.scene import Scene
from waybook.cli.demo.stage import Subject, plan_subject, run_subject, stage
from waybook.usecases.watch_plan import Board, watch_plan
from waybook.usecases.watch_run import RunBoard, watch_run

#: Lines below a picture.
FOOT = 3
Look = Callable[[], Awaitable[Subject]]
Part = Coroutine[object, object, None]
Show = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Audience:
    """Who watches: live on a terminal, or told line by line."""

    console: Console
    live: bool


async def act_of_plan(scene: Scene, audience: Audience) -> Board:
    """Play the plan to its end."""
    boards: list[Board] = []

    async def look() -> Subject:
        boards.append(await watch_plan(scene.call, scene.plan_id, *boards[-1:]))
        del boards[:-1]
        return plan_subject(boards[0])

    await _perform(scene, audience, play_plan, look)
    if not boards[0].over:
        raise RuntimeError("the plan did not complete")
    return boards[0]


async def act_of_run(scene: Scene, audience: Audience) -> RunBoard:
    """Play the run to its end."""
    boards: list[RunBoard] = []
    scene.feed.lines.clear()

    async def look() -> Subject:
        boards[:] = [await watch_run(scene.call, scene.run_id)]
        return run_subject(boards[0])

    await _perform(scene, audience, play_run, look)
    if not boards[0].over:
        raise RuntimeError("the run did not complete")
    return boards[0]


async def play_plan(scene: Scene, show: Show) -> None:
    """Let everybody of the plan act."""
    await cast.write_the_plan(scene)
    parts = (cast.ada, cast.ben, cast.cleo, cast.cleo_again, cast.mira)
    await _act(scene, [part(scene) for part in parts], show)


async def play_run(scene: Scene, show: Show) -> None:
    """Let everybody of the run act."""
    await crew.start_the_run(scene)
    once = crew.misfortunes()
    parts = [crew.work(scene, hand, once) for hand in crew.crew()]
    parts += [crew.replacement(scene), crew.renders(scene), crew.speaks(scene)]
    await _act(scene, parts, show)


async def _perform(
    scene: Scene, audience: Audience, play: Callable[[Scene, Show], Awaitable[None]], look: Look
) -> None:
    """Play a story to its end, shown live or told line by line."""
    console = audience.console
    if not audience.live:
        scene.feed.listener = lambda line: console.print(line.text(), soft_wrap=True)
        await play(scene, _nothing)
        subject = await look()
        console.print()
        high = subject.most + FOOT
        console.print(subject.drawn(Frame(width=console.width, height=high, holders=True)))
        return
    with Live(console=console, auto_refresh=False) as screen:

        async def show() -> None:
            screen.update(stage(await look(), scene.feed, console), refresh=True)

        await play(scene, show)
        await show()


async def _act(scene: Scene, parts: list[Part], show: Show) -> None:
    actors = [scene.clock.enter(part) for part in parts]
    await scene.clock.run(show)
    actors += scene.later
    for actor in actors:
        actor.cancel()
    for outcome in await asyncio.gather(*actors, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


async def _nothing() -> None:
    """Nobody watches."""
