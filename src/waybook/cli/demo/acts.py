"""The two acts of the demo: a plan that is improvised, and a run of what was prepared."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live

from waybook.cli.board import Viewport
from waybook.cli.demo import cast, crew
from waybook.cli.demo.scene import DemoContext
from waybook.cli.demo.stage import DisplayedSubject, build_frame, plan_subject, run_subject
from waybook.usecases.watch_plan import PlanOverview, read_plan_overview
from waybook.usecases.watch_run import RunOverview, read_run_overview

#: Lines below a picture.
FOOTER_LINES = 3
Look = Callable[[], Awaitable[DisplayedSubject]]
Part = Coroutine[object, object, None]
Show = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DemoOutput:
    """Who watches: live on a terminal, or told line by line."""

    console: Console
    live: bool


async def plan_scenario(scene: DemoContext, audience: DemoOutput) -> PlanOverview:
    """Play the plan to its end."""
    boards: list[PlanOverview] = []

    async def look() -> DisplayedSubject:
        boards.append(await read_plan_overview(scene.call, scene.plan_id, *boards[-1:]))
        del boards[:-1]
        return plan_subject(boards[0])

    await _perform(scene, audience, start_plan_actors, look)
    if not boards[0].is_closed:
        raise RuntimeError("the plan did not complete")
    return boards[0]


async def run_scenario(scene: DemoContext, audience: DemoOutput) -> RunOverview:
    """Play the run to its end."""
    boards: list[RunOverview] = []
    scene.feed.lines.clear()

    async def look() -> DisplayedSubject:
        boards[:] = [await read_run_overview(scene.call, scene.run_id)]
        return run_subject(boards[0])

    await _perform(scene, audience, start_run_actors, look)
    if not boards[0].is_closed:
        raise RuntimeError("the run did not complete")
    return boards[0]


async def start_plan_actors(scene: DemoContext, show: Show) -> None:
    """Let everybody of the plan act."""
    await cast.create_plan(scene)
    parts = (cast.ada, cast.ben, cast.cleo, cast.cleo_again, cast.mira)
    await _act(scene, [part(scene) for part in parts], show)


async def start_run_actors(scene: DemoContext, show: Show) -> None:
    """Let everybody of the run act."""
    await crew.start_run(scene)
    once = crew.scripted_failures()
    parts = [crew.work(scene, hand, once) for hand in crew.agent_sessions()]
    parts += [crew.replacement(scene), crew.render_documents(scene), crew.give_feedback(scene)]
    await _act(scene, parts, show)


async def _perform(
    scene: DemoContext,
    audience: DemoOutput,
    play: Callable[[DemoContext, Show], Awaitable[None]],
    look: Look,
) -> None:
    """Play a story to its end, shown live or told line by line."""
    console = audience.console
    if not audience.live:
        scene.feed.listener = lambda line: console.print(line.text(), soft_wrap=True)
        await play(scene, _nothing)
        subject = await look()
        console.print()
        high = subject.max_lines + FOOTER_LINES
        console.print(subject.render(Viewport(width=console.width, height=high, holders=True)))
        return
    with Live(console=console, auto_refresh=False) as screen:

        async def show() -> None:
            screen.update(build_frame(await look(), scene.feed, console), refresh=True)

        await play(scene, show)
        await show()


async def _act(scene: DemoContext, parts: list[Part], show: Show) -> None:
    actors = [scene.clock.add_actor(part) for part in parts]
    await scene.clock.run(show)
    actors += scene.later
    for actor in actors:
        actor.cancel()
    for outcome in await asyncio.gather(*actors, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


async def _nothing() -> None:
    """Nobody watches."""
