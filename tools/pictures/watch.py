"""Draw the output of `waybook plan watch` during the demo, for the README: docs/pictures/watch.svg.

`make harness NAME=pictures` runs this module. The demo uses a temporary database.
"""

import asyncio
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.work_views import plan_view
from waybook.cli.demo.actors import DemoContext, play_plan
from waybook.cli.demo.command import STORY_TIME
from waybook.cli.demo.environment import PlaybackSpeed, SimulatedClock, temporary_database
from waybook.cli.runtime import open_app
from waybook.cli.terminal.console import Viewport
from waybook.cli.terminal.plan_board import plan_display
from waybook.core.decision_context import Channel
from waybook.settings import Settings

TARGET = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "watch.svg"
WIDTH = 100

#: Colors that suit both light and dark pages: a dark background, and texts of similar brightness.
THEME = TerminalTheme(
    (24, 26, 31),
    (222, 224, 228),
    [
        (24, 26, 31),
        (240, 113, 120),
        (126, 203, 122),
        (229, 192, 92),
        (104, 169, 255),
        (209, 140, 240),
        (86, 200, 205),
        (222, 224, 228),
    ],
)


async def play_demo(data_dir: Path) -> PlanDetail:
    """Run the demo; return its plan at the last moment at which a step was stalled."""
    snapshots: list[PlanDetail] = []
    async with open_app(Settings(data_dir=data_dir)) as runtime:
        database = runtime.app.services.database
        org_id = runtime.app.caller(Channel.CLI).org_id
        (((now,),),) = await database.read_org(org_id, "select app_now()")
        clock = SimulatedClock(database, now - STORY_TIME, PlaybackSpeed(0.05, 0))
        scene = DemoContext(app=runtime.app, clock=clock)

        async def observe() -> None:
            plan = await read_plan_detail(scene.call, scene.plan_id, PlanInclude.BOARD)
            if plan.stalled:
                snapshots.append(plan)

        await play_plan(scene, observe)
    return snapshots[-1]


def render_svg(plan: PlanDetail) -> str:
    """Return the terminal output as SVG, in common monospaced fonts that need no download."""
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True)
    console.print(plan_display(plan_view(plan), Viewport(width=WIDTH)))
    return export_svg(console, "waybook plan watch")


def export_svg(console: Console, title: str) -> str:
    svg = console.export_svg(title=title, theme=THEME, unique_id=title.rsplit(maxsplit=1)[-1])
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    fonts = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    svg = svg.replace("font-family: Fira Code, monospace", f"font-family: {fonts}")
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def main() -> None:
    with temporary_database() as folder:
        plan = asyncio.run(play_demo(folder))
    TARGET.write_text(render_svg(plan), encoding="utf-8")
    sys.stdout.write(f"written  {TARGET.name}\n")


if __name__ == "__main__":
    main()
