"""`waybook demo`: runs scripted agents that work on a real database.

The demo has two parts: a plan that an agent creates, and a run of a prepared workflow.
"""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waybook.app.queries.audit import list_audit
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.runs.run_work import read_document
from waybook.app.queries.work_views import ViewQuery, read_view
from waybook.cli.commands.boards import BOARDS
from waybook.cli.demo.actors import STORY, DemoContext, play_plan, play_run
from waybook.cli.demo.environment import (
    FAST,
    SLOW,
    SLOW_RUN,
    SimulatedClock,
    temporary_database,
)
from waybook.cli.operator.anchoring import Verdicts, summary, verify_all
from waybook.cli.options import database_options
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.cli.terminal.console import FIXED_ROWS, Viewport, one_line
from waybook.cli.terminal.run_board import documents_available
from waybook.core.decision_context import Channel
from waybook.json_values import Body
from waybook.settings import Settings

#: The demo's clock starts this long ago, so that the demo ends at about the current time.
STORY_TIME = timedelta(minutes=345)
_FOOTER_LINES = 3
_MIN_FEED_LINES = 3
_MAX_WIDTH = 92
_SHOWN_DOCUMENT = "advisor_recommendations"

BETWEEN = (
    "The answer is yes. A prepared workflow, the dialectic, now works out how.",
    "Three models propose, review and agree; a person gives feedback on each stage.",
)
_SURVIVED = {
    "two killed agents": "Others took over and completed their work.",
    "a lost reply": "The result was submitted again, and counted once.",
    "two agents on one job": "The late result was refused; the job is done once.",
    "a model's timeout": "Only this job was repeated.",
    "a new conversation": "cleo continued from what is stored in the plan.",
    "a person's review": "The plan waited, then went on with the feedback.",
}
_NEXT = {
    "waybook connect claude-code": "connect your agent (also codex, cursor, …)",
    "waybook serve": "serve agents and the dashboard over HTTP",
}
AGAIN = {"waybook demo --keep": "repeat the demo, and keep its results"}
STORED = {
    "waybook plan list --state all": "list the plan of this demo",
    "waybook run list --state all": "list the run of this demo",
}


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
    live = console.is_terminal and not fast
    async with open_app(settings) as here:
        database = here.app.services.database
        now = await database.read_now(here.app.caller(Channel.CLI).org_id)
        clock = SimulatedClock(database, now - STORY_TIME, FAST if fast else SLOW)
        scene = DemoContext(app=here.app, clock=clock)
        await _perform(scene, console, "plan", live=live)
        console.print(Text.assemble("\n", (BETWEEN[0], "bold"), f"\n{BETWEEN[1]}\n"))
        scene.lines.clear()
        clock.pace = FAST if fast else SLOW_RUN
        board = await _perform(scene, console, "run", live=live)
        verdicts = await verify_all(scene.call, bar=False)
        await _print_summary(console, scene, board, verdicts, keep=keep)
    sys.exit(0 if all(verdict.ok for _, verdict in verdicts) else 1)


#: For the plan and the run: the function that plays it, and the number of its rows to show.
_PARTS = {"plan": (play_plan, 11), "run": (play_run, 18)}


async def _perform(scene: DemoContext, console: Console, noun: str, *, live: bool) -> Body:
    """Play a part, and return its plan or run. With `live`, redraw the screen continuously."""
    play, most = _PARTS[noun]
    if live:
        with Live(console=console, auto_refresh=False) as screen:

            async def show() -> None:
                board = await _read(scene, noun)
                screen.update(_frame(noun, board, scene.lines, console), refresh=True)

            await play(scene, show)
            await show()
    else:
        scene.listener = lambda line: console.print(line, soft_wrap=True)
        await play(scene, partial(asyncio.sleep, 0))
    board = await _read(scene, noun)
    if not live:
        height = most + FIXED_ROWS + _FOOTER_LINES
        console.print()
        frame = Viewport(width=console.width, height=height, holders=True)
        console.print(BOARDS[noun].display(board, frame))
    if not board["closed"]:
        raise RuntimeError("a part of the demo did not complete")
    return board


async def _read(scene: DemoContext, noun: str) -> Body:
    work_id = scene.plan_id if noun == "plan" else scene.run_id
    return await read_view(scene.call, noun, ViewQuery(work_id))


def _frame(noun: str, board: Body, lines: list[Text], console: Console) -> RenderableType:
    """Return the plan or run, with the last lines of the log below it."""
    width, height, draw = console.width, console.height - 1, BOARDS[noun]
    high = min(_PARTS[noun][1] + FIXED_ROWS, height - _MIN_FEED_LINES)
    above = draw.display(board, Viewport(width=width, height=high, holders=True, foot=False))
    rows = max(1, height - min(draw.count(board) + FIXED_ROWS, high))
    last = [one_line(line.copy()) for line in lines[-rows:]]
    return Group(above, *last)


async def _print_summary(
    console: Console,
    scene: DemoContext,
    board: Body,
    verdicts: Verdicts,
    *,
    keep: bool,
) -> None:
    _heading(console, "The plan's answer")
    console.print(_facts(STORY["work"]["Write the recommendation"]["result"]))
    _heading(console, "One of the documents that the run produced")
    detail = await read_run_detail(scene.call, scene.run_id, RunInclude.DOCUMENTS)
    chosen = next(item for item in detail.documents if item.document_key == _SHOWN_DOCUMENT)
    document = await read_document(scene.call, chosen.resource_id)
    title = Text(f" {chosen.document_key}, by {chosen.model} ", style="dim")
    page = Panel(Markdown(document.markdown), title=title, border_style="dim")
    console.print(Padding(page, (0, 2)), width=min(console.width, _MAX_WIDTH))
    write = f"waybook documents {scene.run_id} --out documents"
    available = documents_available(board)
    console.print(_facts({available: write if keep else "to keep them, use --keep"}))
    _heading(console, "What the work survived")
    console.print(_facts(_SURVIVED))
    _heading(console, "Proof: every change is recorded in a hash-chained audit log")
    console.print(Padding(summary(verdicts), (0, 2)))
    for name, subject in (("plan", scene.plan_id), ("run", scene.run_id)):
        entries = await list_audit(scene.call, subject, limit=1)
        seal = str(entries[0]["hash"])[:16]
        line = f"  the {name} has {entries[0]['seq']} entries; the last has the seal {seal}…"
        console.print(Text(line, "dim"))
    _heading(console, "Next")
    _print_path(console)
    console.print(_facts({**_NEXT, **(STORED if keep else AGAIN)}))


def _print_path(console: Console) -> None:
    if shutil.which("waybook") is None:
        program = Path(sys.argv[0] if Path(sys.argv[0]).stem == "waybook" else sys.executable)
        folder = program.absolute().parent
        line = f'  waybook is not on your PATH. First:\n  export PATH="{folder}:$PATH"'
        console.print(Text(line), soft_wrap=True)


def _heading(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold"))


def _facts(facts: Mapping[str, object]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for name, value in facts.items():
        table.add_row(name, str(value))
    return Padding(table, (0, 2))
