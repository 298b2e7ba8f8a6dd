"""Draw the map of the demo's run in the middle of its third stage: docs/pictures/map.svg.

The demo uses a temporary database: `make harness NAME=pictures`.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.cli.demo.actors import DemoContext, play_run
from waybook.cli.demo.command import STORY_TIME
from waybook.cli.demo.environment import FAST, SimulatedClock, temporary_database
from waybook.cli.runtime import open_app
from waybook.core.decision_context import Channel
from waybook.dag.diagram.svg import export_drawing
from waybook.dag.model import DrawingFormat
from waybook.dag.progress.report import StepReport
from waybook.settings import Settings

TARGET = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "map.svg"

#: The map shows the moment at which the step `STEP` has `DONE` completed jobs.
STEP, DONE = "synthesis_pairwise_feature_spec", 11


async def play_demo(data_dir: Path) -> RunDetail:
    """Run the demo; return its run at the moment when `DONE` jobs of the step were completed."""
    snapshots: list[RunDetail] = []
    async with open_app(Settings(data_dir=data_dir)) as runtime:
        database = runtime.app.services.database
        org_id = runtime.app.caller(Channel.CLI).org_id
        (((now,),),) = await database.read_org(org_id, "select app_now()")
        clock = SimulatedClock(database, now - STORY_TIME, FAST)
        scene = DemoContext(app=runtime.app, clock=clock)

        async def observe() -> None:
            if not snapshots:
                run = await read_run_detail(scene.call, scene.run_id, RunInclude.BOARD)
                snapshots.extend([run] if count_done_jobs(run) >= DONE else [])

        await play_run(scene, observe)
    return snapshots[0]


def count_done_jobs(run: RunDetail) -> int:
    steps = {step["stepKey"]: step for step in steps_of(run)}
    return steps[STEP]["jobs"]["done"] if STEP in steps else 0


def steps_of(run: RunDetail) -> Iterator[StepReport]:
    for stage in run.report["stages"]:
        yield from stage["steps"] or ()


def main() -> None:
    with temporary_database() as folder:
        run = asyncio.run(play_demo(folder))
    TARGET.write_text(export_drawing(DrawingFormat.SVG, run_drawing(run)), encoding="utf-8")
    sys.stdout.write(f"written  {TARGET.name}\n")


if __name__ == "__main__":
    main()
