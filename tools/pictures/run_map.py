"""Draw the picture of the map: the demo's run in the middle of its third stage, as SVG.

`make pictures` plays the run on a database of its own and writes docs/pictures/map.svg.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.run import RunDetail, RunInclude, read_run_detail
from waybook.cli.demo.command import STORY, start_run_actors
from waybook.cli.demo.environment import FAST, EventLog, SimulatedClock, temporary_database
from waybook.cli.demo.scene import DemoContext
from waybook.cli.runtime import open_app
from waybook.core.decision_context import Channel
from waybook.dag.diagram.export import DrawingFormat, export_drawing
from waybook.dag.progress.report import StepReport
from waybook.settings import Settings

TARGET = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "map.svg"

#: When to look: so many jobs of this step are done.
STAGE, STEP, DONE = "synthesis", "synthesis_pairwise_feature_spec", 11

# The moment


async def board_in_the_middle(data_dir: Path) -> RunDetail:
    """The demo's run, at the moment that is drawn."""
    seen: list[RunDetail] = []
    async with open_app(Settings(data_dir=data_dir)) as here:
        database = here.app.dispatcher.services.database
        org_id = here.app.caller(Channel.CLI).org_id
        (((now,),),) = await database.read_org(org_id, "select app_now()")
        clock = SimulatedClock(database, now - STORY, FAST)
        scene = DemoContext(app=here.app, clock=clock, feed=EventLog(clock))

        async def show() -> None:
            if not seen:
                board = await read_run_detail(scene.call, scene.run_id, RunInclude.BOARD)
                seen.extend([board] if done_of(board) >= DONE else [])

        await start_run_actors(scene, show)
    return seen[0]


def done_of(board: RunDetail) -> int:
    """How many jobs of the step are done."""
    steps = {step["stepKey"]: step for _, step in steps_of(board)}
    return steps[STEP]["jobs"]["done"] if STEP in steps else 0


def steps_of(board: RunDetail) -> Iterator[tuple[str, StepReport]]:
    for stage in board.report["stages"]:
        yield from ((stage["stageSlug"], step) for step in stage["steps"] or ())


if __name__ == "__main__":
    with temporary_database() as folder:
        found = asyncio.run(board_in_the_middle(folder))
    TARGET.write_text(export_drawing(DrawingFormat.SVG, run_drawing(found)), encoding="utf-8")
    sys.stdout.write(f"written  {TARGET.name}\n")
