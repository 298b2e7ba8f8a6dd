"""`waybook demo`: scripted agents that work on a real database.

The demo has two parts: an improvised plan, and a run of a prepared workflow.
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.application import BasicApplication
from waybook.cli.commands.anchoring import verify_all
from waybook.cli.demo import plan_agents, run_agents
from waybook.cli.demo.ending import print_summary
from waybook.cli.demo.environment import (
    FAST,
    SLOW,
    SLOW_RUN,
    EventLog,
    SimulatedClock,
    temporary_database,
)
from waybook.cli.demo.scene import (
    DemoContext,
    DisplayedSubject,
    build_frame,
    plan_subject,
    run_subject,
)
from waybook.cli.options import database_options
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.cli.terminal.console import Viewport
from waybook.core.decision_context import Channel
from waybook.settings import Settings

FOOTER_LINES = 3
Look = Callable[[], Awaitable[DisplayedSubject]]
Part = Coroutine[object, object, None]
Show = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DemoOutput:
    """Console of the demo. If `live` is set, the screen is redrawn instead of printing lines."""

    console: Console
    live: bool


async def plan_scenario(scene: DemoContext, audience: DemoOutput) -> PlanDetail:
    boards: list[PlanDetail] = []

    async def look() -> DisplayedSubject:
        before = boards[-1] if boards else None
        board = await read_plan_detail(scene.call, scene.plan_id, PlanInclude.BOARD, before=before)
        boards.append(board)
        del boards[:-1]
        return plan_subject(boards[0])

    await _perform(scene, audience, start_plan_actors, look)
    if not boards[0].is_closed:
        raise RuntimeError("the plan did not complete")
    return boards[0]


async def run_scenario(scene: DemoContext, audience: DemoOutput) -> RunDetail:
    boards: list[RunDetail] = []
    scene.feed.lines.clear()

    async def look() -> DisplayedSubject:
        boards[:] = [await read_run_detail(scene.call, scene.run_id, RunInclude.BOARD)]
        return run_subject(boards[0])

    await _perform(scene, audience, start_run_actors, look)
    if not boards[0].is_closed:
        raise RuntimeError("the run did not complete")
    return boards[0]


async def start_plan_actors(scene: DemoContext, show: Show) -> None:
    await plan_agents.create_plan(scene)
    parts = (
        plan_agents.ada,
        plan_agents.ben,
        plan_agents.cleo,
        plan_agents.cleo_again,
        plan_agents.mira,
    )
    await _act(scene, [part(scene) for part in parts], show)


async def start_run_actors(scene: DemoContext, show: Show) -> None:
    await run_agents.start_run(scene)
    once = run_agents.scripted_failures()
    parts = [run_agents.work(scene, session, once) for session in run_agents.agent_sessions()]
    parts += [
        run_agents.replacement(scene),
        run_agents.render_documents(scene),
        run_agents.give_feedback(scene),
    ]
    await _act(scene, parts, show)


async def _perform(
    scene: DemoContext,
    audience: DemoOutput,
    play: Callable[[DemoContext, Show], Awaitable[None]],
    look: Look,
) -> None:
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


async def _nothing() -> None: ...


#: The demo's clock starts this long ago, so that the demo ends at about the current time.
STORY = timedelta(minutes=360)


@click.command()
@click.option("--fast", is_flag=True, help="Run without pauses.")
@click.option("--keep", is_flag=True, help="Use your configured database and keep the results.")
@database_options
def command(*, fast: bool, keep: bool, **flags: object) -> None:
    """Run a 30-second live demo.

    Three agents and a person work through a research plan with a branch, a retried call, a killed
    agent, a new conversation and a review. Then three models work through a run of the workflow
    dialectic: 221 jobs, one retried, one in two parts, one abandoned, with a person's feedback
    after each stage. The agents are scripted; the server and its embedded PostgreSQL are real.
    """
    keep = keep or any(flags.values())
    with contextlib.ExitStack() as stack:
        if not keep:
            with get_console().status("starting PostgreSQL …", spinner="line"):
                flags["data_dir"] = stack.enter_context(temporary_database())
        # The demo acts for fictional users, so it ignores the configured token.
        settings = replace(load_settings(flags), token=None)
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
        verdicts = [org_verdict.verdict for org_verdict in await verify_all(scene.call, bar=False)]
        await print_summary(console, scene, board, verdicts, keep=keep)
    sys.exit(0 if all(verdict.ok for verdict in verdicts) else 1)


def _between(console: Console) -> None:
    headline = "The answer is yes. A prepared workflow, the dialectic, now works out how."
    more = "Three models propose, review and agree; a person gives feedback on each stage."
    console.print(Text.assemble(("\n", ""), (headline, "bold"), f"\n{more}\n"))


async def _set_scene(app: BasicApplication) -> DemoContext:
    database = app.services.database
    now = await database.read_now(app.caller(Channel.CLI).org_id)
    clock = SimulatedClock(database, now - STORY, FAST)
    return DemoContext(app=app, clock=clock, feed=EventLog(clock))
