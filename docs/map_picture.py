"""Draw the picture of the map: the demo's run in the middle of its third stage, as SVG.

`python docs/map_picture.py` plays the run on a database of its own and writes
docs/pictures/map.svg.
"""
# ruff: noqa: INP001, T201 - a script beside the pages; it prints what it did

import asyncio
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from waybook.cli.demo.acts import play_run
from waybook.cli.demo.clock import FAST, StoryClock
from waybook.cli.demo.command import STORY
from waybook.cli.demo.feed import Feed
from waybook.cli.demo.place import a_place_for_once
from waybook.cli.demo.scene import Scene
from waybook.cli.inside import inside
from waybook.cli.looks import STANDING_LOOKS
from waybook.dag.model import Standing
from waybook.dag.recipe import Graph
from waybook.dag.report import StageReport, StepReport
from waybook.doorway import Channel
from waybook.settings import Settings
from waybook.usecases.watch_run import RunBoard, watch_run

TARGET = Path(__file__).resolve().parent / "pictures" / "map.svg"

#: When to look: so many jobs of this step are done.
STAGE, STEP, DONE = "synthesis", "synthesis_pairwise_feature_spec", 11

NODE_WIDTH, NODE_HEIGHT, ROW, COLUMN_GAP = 220, 24, 32, 26
LABEL_WIDTH, MARGIN, BAND_GAP, PADDING = 212, 16, 30, 10
LONGEST_NAME = 23

#: Readable on light and dark pages alike: its own dark ground, colours of even brightness.
GROUND, PAPER, INK, QUIET, LINE = "#181a1f", "#22252c", "#dee0e4", "#9095a0", "#5b616e"
COLOURS: Mapping[Standing, str] = {
    Standing.COMPLETED: "#7ecb7a",
    Standing.FAILED: "#f07178",
    Standing.IN_PROGRESS: "#68a9ff",
    Standing.NOT_STARTED: QUIET,
}


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


# The drawing


def drawn(board: RunBoard) -> str:
    """The whole map as SVG, stage below stage."""
    top, parts, tops = MARGIN, list[str](), list[tuple[int, int]]()
    for slug in board.chart.order:
        height = band_height(board.chart.graphs[slug])
        tops.append((top, height))
        parts += band(board, slug, top, height)
        top += height + BAND_GAP
    for (above, height), (below, _), slug in zip(tops, tops[1:], board.chart.order, strict=False):
        parts += transition(board, slug, above + height, below)
    return page(width_of(board), top - BAND_GAP + MARGIN, parts)


def width_of(board: RunBoard) -> int:
    most = max(len(columns(graph)) for graph in board.chart.graphs.values())
    return 2 * MARGIN + LABEL_WIDTH + PADDING + most * (NODE_WIDTH + COLUMN_GAP)


def band_height(graph: Graph) -> int:
    rows = max(map(len, columns(graph)))
    return max(3 * 18, rows * ROW) + 2 * PADDING


def columns(graph: Graph) -> list[list[str]]:
    """The steps by how many must be completed one after the other before them."""
    depth: dict[str, int] = {}
    for key in graph.order:
        depth[key] = max((depth[before] + 1 for before in graph.predecessors[key]), default=0)
    return [[k for k in graph.order if depth[k] == d] for d in range(max(depth.values()) + 1)]


def band(board: RunBoard, slug: str, top: int, height: int) -> Iterator[str]:
    """A stage: its label, its steps, and the edges between them."""
    stage = next(one for one in board.report["stages"] if one["stageSlug"] == slug)
    graph, width = board.chart.graphs[slug], width_of(board)
    places = placed(graph, top, height)
    yield box(MARGIN, top, width - 2 * MARGIN, height, PAPER)
    yield from label(board, stage, top)
    for source, target in ((s, t) for t in graph.order for s in graph.predecessors[t]):
        yield edge(places[source], places[target])
    told = {step["stepKey"]: step for step in stage["steps"] or ()}
    for key, place in places.items():
        yield from node(board, slug, key, told.get(key), place)


def placed(graph: Graph, top: int, height: int) -> dict[str, tuple[int, int]]:
    """Where each step stands."""
    places = {}
    for number, keys in enumerate(columns(graph)):
        left = MARGIN + LABEL_WIDTH + number * (NODE_WIDTH + COLUMN_GAP)
        first = top + (height - len(keys) * ROW) // 2 + (ROW - NODE_HEIGHT) // 2
        places.update({key: (left, first + row * ROW) for row, key in enumerate(keys)})
    return places


def label(board: RunBoard, stage: StageReport, top: int) -> Iterator[str]:
    slug, left = stage["stageSlug"], MARGIN + 14
    standing = stage["status"] or Standing.NOT_STARTED
    look = STANDING_LOOKS[standing]
    yield text(left, top + 24, slug, INK, "bold")
    name_left = left + 7 * len(slug) + 16
    yield text(name_left, top + 24, board.chart.stages[slug].name, QUIET)
    yield text(left, top + 42, f"{look.icon} {look.word}", COLOURS[standing])
    yield text(left, top + 60, figures(board, stage), QUIET)


def figures(board: RunBoard, stage: StageReport) -> str:
    progress, graph = stage["progress"], board.chart.graphs[stage["stageSlug"]]
    if not progress or not progress["totalSteps"]:
        return f"{len(graph.order)} steps"
    done = f"{progress['completedSteps']} of {progress['totalSteps']} steps"
    return f"{done}, {stage['documentsAvailable']} of {stage['documentsExpected']} docs"


def node(
    board: RunBoard, slug: str, key: str, step: StepReport | None, place: tuple[int, int]
) -> Iterator[str]:
    left, top = place
    standing = step["status"] if step else Standing.NOT_STARTED
    colour, icon = COLOURS[standing], STANDING_LOOKS[standing].icon
    yield box(left, top, NODE_WIDTH, NODE_HEIGHT, GROUND, colour, dashed=step is None)
    name = short(board.chart.graphs[slug].steps[key].name)
    yield text(left + 8, top + 16, f"{icon} {name}", colour if step else QUIET)
    count = counted(board, slug, key, step)
    yield text(left + NODE_WIDTH - 8, top + 16, count, QUIET, anchor="end")


def counted(board: RunBoard, slug: str, key: str, step: StepReport | None) -> str:
    """How many jobs are done of how many; of a step that is not open, how many there will be."""
    jobs = step["jobs"] if step else {"done": 0, "active": 0, "failed": 0}
    total = sum(jobs.values())  # type: ignore[arg-type]  # numbers, all of them
    if total:
        return f"{jobs['done']}/{total}"
    counts = board.expected.get(slug)
    return str(counts.units.get(key, "")) if counts else ""


def short(name: str) -> str:
    told = name
    for beginning in ("Generate ", "Render Final ", "Prepare "):
        told = told.removeprefix(beginning)
    told = told.replace("Pairwise Synthesis \u2013 ", "Pairwise ").replace(" Across Models", "")
    return told if len(told) <= LONGEST_NAME else f"{told[: LONGEST_NAME - 1]}…"


def transition(board: RunBoard, slug: str, top: int, bottom: int) -> Iterator[str]:
    """The way to the next stage, and the words that opened it."""
    left = MARGIN + 22
    stage = board.run.stages.get(slug)
    said = stage.feedback if stage else None
    colour = COLOURS[Standing.COMPLETED] if said else LINE
    yield f'<path d="M{left} {top}V{bottom - 5}" stroke="{colour}" marker-end="url(#a)"/>'
    told = f"a person: “{said}”" if said else "opens with a person's feedback"
    yield text(left + 14, (top + bottom) // 2 + 4, told, INK if said else QUIET)


# Shapes


def edge(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = source[0] + NODE_WIDTH, source[1] + NODE_HEIGHT // 2
    x2, y2 = target[0], target[1] + NODE_HEIGHT // 2
    bend = min(COLUMN_GAP, x2 - x1)
    return f'<path d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2 - 1} {y2}" stroke="{LINE}"/>'


def box(
    left: int,
    top: int,
    width: int,
    height: int,
    fill: str,
    line: str = "none",
    *,
    dashed: bool = False,
) -> str:
    dashes = ' stroke-dasharray="3 3"' if dashed else ""
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="5" fill="{fill}" '
        f'stroke="{line}"{dashes}/>'
    )


def text(
    left: int, top: int, said: str, fill: str, weight: str = "normal", *, anchor: str = "start"
) -> str:
    heavy = f' font-weight="{weight}"' if weight != "normal" else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return (
        f'<text x="{left}" y="{top}" fill="{fill}"{heavy}{where}>{escape(said, quote=False)}</text>'
    )


def page(width: int, height: int, parts: list[str]) -> str:
    style = "text{font:12px ui-sans-serif,system-ui,sans-serif;stroke:none}path{fill:none}"
    arrow = (
        '<marker id="a" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto">'
        f'<path d="M0 0L6 3L0 6" stroke="{QUIET}"/></marker>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">'
        "<title>A run on its map: two stages completed, the third in progress</title>"
    )
    ground = box(0, 0, width, height, GROUND)
    inner = [f"<defs><style>{style}</style>{arrow}</defs>", ground, *parts]
    return "\n".join([head, *inner, "</svg>", ""])


if __name__ == "__main__":
    with a_place_for_once() as folder:
        found = asyncio.run(board_in_the_middle(folder))
    TARGET.write_text(drawn(found), encoding="utf-8")
    print(f"written  {TARGET.name}")
