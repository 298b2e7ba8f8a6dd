"""The picture of a map: each stage's steps in order, and the units expected of them."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.cli.terminal import SafeConsole
from waybook.dag.structure import Map, StageMap


def print_map(answer: Map) -> None:
    """Print the picture."""
    console = SafeConsole()
    console.print(map_display(answer, console.width))


def map_display(answer: Map, width: int) -> RenderableType:
    """The whole map, for a terminal of this width."""
    stages = [
        part for stage in answer["stages"] for part in (_heading(stage), _steps(stage, width))
    ]
    warnings = [Text(f"▲ {said}", style="yellow") for said in answer.get("warnings", ())]
    return Group(*stages, *warnings)


def _heading(stage: StageMap) -> Text:
    total = stage["expected"]["total"]
    units = "" if total is None else f", {total} units of work"
    said = f"  {len(stage['order'])} steps{units}"
    return Text.assemble((stage["stageSlug"], "bold"), said, no_wrap=True, overflow="ellipsis")


def _steps(stage: StageMap, width: int) -> Table:
    roots, leaves, units = set(stage["roots"]), set(stage["leaves"]), stage["expected"]["steps"]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(width=4, justify="right", style="dim")
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width - 30))
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="dim")
    for number, key in enumerate(stage["order"], start=1):
        place = [word for word, keys in (("root", roots), ("leaf", leaves)) if key in keys]
        count = units[key]
        table.add_row(str(number), key, "" if count is None else str(count), ", ".join(place))
    return table
