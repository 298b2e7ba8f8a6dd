"""Draw the picture of the map: the demo's run in the middle of its third stage, as SVG.

`make pictures` plays the run on a database of its own and writes docs/pictures/map.svg.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from waybook.cli.demo.acts import play_run
from waybook.cli.demo.clock import FAST, StoryClock
from waybook.cli.demo.command import STORY
from waybook.cli.demo.feed import Feed
from waybook.cli.demo.place import a_place_for_once
from waybook.cli.demo.scene import Scene
from waybook.cli.inside import inside
from waybook.dag.drawing.drawing import Form, drawn_as
from waybook.dag.report import StepReport
from waybook.doorway import Channel
from waybook.settings import Settings
from waybook.usecases.drawings import run_drawing
from waybook.usecases.watch_run import RunBoard, watch_run

TARGET = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "map.svg"

#: When to look: so many jobs of this step are done.
STAGE, STEP, DONE = "synthesis", "synthesis_pairwise_feature_spec", 11

# The moment


async def board_in_the_middle(data_dir: Path) -> RunBoard:
    """The demo's run, at the moment that is drawn."""
    seen: list[RunBoard] = []
    async with inside(Settings(data_dir=data_dir)) as here:
        database = here.house.doorway.house.database
        org_id = here.house.caller(Channel.CLI).org_id
        (((now,),),) = await database.read(org_id, "select app_now()")
        clock = StoryClock(database, now - STORY, FAST)
        scene = Scene(house=here.house, clock=clock, feed=Feed(clock))

        async def show() -> None:
            if not seen:
                board = await watch_run(scene.call, scene.run_id)
                seen.extend([board] if done_of(board) >= DONE else [])

        await play_run(scene, show)
    return seen[0]


def done_of(board: RunBoard) -> int:
    """How many jobs of the step are done."""
    steps = {step["stepKey"]: step for _, step in steps_of(board)}
    return steps[STEP]["jobs"]["done"] if STEP in steps else 0


def steps_of(board: RunBoard) -> Iterator[tuple[str, StepReport]]:
    for stage in board.report["stages"]:
        yield from ((stage["stageSlug"], step) for step in stage["steps"] or ())


if __name__ == "__main__":
    with a_place_for_once() as folder:
        found = asyncio.run(board_in_the_middle(folder))
    TARGET.write_text(drawn_as(Form.SVG, run_drawing(found)), encoding="utf-8")
    sys.stdout.write(f"written  {TARGET.name}\n")
