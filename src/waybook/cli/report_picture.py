"""The picture of a report: the stages, how far each is, and its steps; what is strange, below."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.cli.bar import segmented
from waybook.cli.looks import STANDING_LOOKS, Look
from waybook.cli.terminal import Terminal
from waybook.dag.model import Standing
from waybook.dag.report import Jobs, Report, StageReport, StepReport
from waybook.plan.progress import percent
from waybook.plan.states import StepStatus

UNKNOWN = Look("?", "unknown", "yellow")
INDENT = "   "
NARROWEST_BAR, WIDEST_BAR = 8, 40

#: How a step's standing looks in a bar.
IN_A_BAR = {
    Standing.COMPLETED: StepStatus.COMPLETED,
    Standing.FAILED: StepStatus.FAILED,
    Standing.IN_PROGRESS: StepStatus.IN_PROGRESS,
    Standing.NOT_STARTED: StepStatus.PENDING,
}


def show(report: Report) -> None:
    """Print the picture."""
    console = Terminal()
    console.print(picture(report, console.width))


def picture(report: Report, width: int) -> RenderableType:
    """The whole report, for a terminal of this width."""
    progress = report["dagProgress"]
    done, total = progress["completedStages"], progress["totalStages"]
    heading = Text(f"{done} of {total} stages completed, {percent(done, total)} %", style="bold")
    stages = [_stage(stage, width) for stage in report["stages"]]
    return Group(heading, *stages, *_warnings(report["warnings"]))


def _stage(stage: StageReport, width: int) -> RenderableType:
    status = stage["status"]
    look = UNKNOWN if status is None else STANDING_LOOKS[status]
    slug = (stage["stageSlug"], "bold")
    parts: list[RenderableType] = [
        Text(),
        Text.assemble(slug, "  ", look.text(), no_wrap=True, overflow="ellipsis"),
    ]
    if stage["steps"]:
        parts += [_bar_line(stage, stage["steps"], width), _steps(stage["steps"], width)]
    return Group(*parts, *_warnings(stage["warnings"]))


def _bar_line(stage: StageReport, steps: list[StepReport], width: int) -> Text:
    counts = Counter(IN_A_BAR[step["status"]] for step in steps)
    said = f"  {figures(stage)}"
    room = max(NARROWEST_BAR, min(WIDEST_BAR, width - len(INDENT) - len(said)))
    bar = segmented(counts, room)
    return Text.assemble(INDENT, bar, said, no_wrap=True, overflow="ellipsis")


def figures(stage: StageReport) -> str:
    """How far a stage is: "3 of 13 steps, 23 %, 8 of 36 documents"."""
    progress = stage["progress"]
    if progress is None:
        return ""
    done, total = progress["completedSteps"], progress["totalSteps"]
    said = [f"{done} of {total} steps", f"{percent(done, total)} %"]
    if progress["failedSteps"]:
        said.append(f"{progress['failedSteps']} failed")
    expected = stage["documentsExpected"]
    of = "" if expected is None else f" of {expected}"
    if expected or stage["documentsAvailable"]:
        said.append(f"{stage['documentsAvailable']}{of} documents")
    return ", ".join(said)


def _steps(steps: list[StepReport], width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(width=1)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width - 44))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", style="dim")
    for step in steps:
        look = STANDING_LOOKS[step["status"]]
        quiet = "dim" if step["status"] is Standing.NOT_STARTED else ""
        name = Text(step["stepKey"], style=quiet)
        table.add_row("", name, look.text(), _jobs(step["jobs"]))
    return table


def _jobs(jobs: Jobs) -> str:
    numbers = [(jobs["done"], "done"), (jobs["active"], "active"), (jobs["failed"], "failed")]
    return ", ".join(f"{number} {word}" for number, word in numbers if number)


def _warnings(warnings: list[str]) -> Iterator[Text]:
    return (Text(f"▲ {warning}", style="yellow") for warning in warnings)
