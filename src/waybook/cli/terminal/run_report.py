"""Terminal view of a progress report: stages with progress, their steps, and warnings."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.cli.terminal.bars import BAR_STATUS, PROGRESS_STYLES, UNKNOWN, segmented_bar
from waybook.cli.terminal.console import SafeConsole, plain_table
from waybook.dag.progress.report import Report, StageReport, StepReport
from waybook.dag.statuses import ProgressStatus
from waybook.plan.progress import percent

INDENT = "   "
MIN_BAR_WIDTH, MAX_BAR_WIDTH = 8, 40


def print_report(report: Report) -> None:
    console = SafeConsole()
    console.print(report_display(report, console.width))


def report_display(report: Report, width: int) -> RenderableType:
    progress = report["dagProgress"]
    done, total = progress["completedStages"], progress["totalStages"]
    heading = Text(f"{done} of {total} stages completed, {percent(done, total)} %", style="bold")
    stages = [_stage(stage, width) for stage in report["stages"]]
    return Group(heading, *stages, *_warnings(report["warnings"]))


def _stage(stage: StageReport, width: int) -> RenderableType:
    status = stage["status"]
    look = UNKNOWN if status is None else PROGRESS_STYLES[status]
    slug = (stage["stageSlug"], "bold")
    parts: list[RenderableType] = [
        Text(),
        Text.assemble(slug, "  ", look.text(), no_wrap=True, overflow="ellipsis"),
    ]
    if stage["steps"]:
        counts = Counter(BAR_STATUS[step["status"]] for step in stage["steps"])
        label = f"  {stage_progress_text(stage)}"
        room = max(MIN_BAR_WIDTH, min(MAX_BAR_WIDTH, width - len(INDENT) - len(label)))
        bar = segmented_bar(counts, room)
        parts += [
            Text.assemble(INDENT, bar, label, no_wrap=True, overflow="ellipsis"),
            _steps(stage["steps"], width),
        ]
    return Group(*parts, *_warnings(stage["warnings"]))


def stage_progress_text(stage: StageReport) -> str:
    progress = stage["progress"]
    if progress is None:
        return ""
    done, total = progress["completedSteps"], progress["totalSteps"]
    parts = [f"{done} of {total} steps", f"{percent(done, total)} %"]
    if progress["failedSteps"]:
        parts.append(f"{progress['failedSteps']} failed")
    expected = stage["documentsExpected"]
    of = "" if expected is None else f" of {expected}"
    if expected or stage["documentsAvailable"]:
        parts.append(f"{stage['documentsAvailable']}{of} documents")
    return ", ".join(parts)


def _steps(steps: list[StepReport], width: int) -> Table:
    table = plain_table(show_header=False)
    table.add_column(width=1)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width - 44))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", style="dim")
    for step in steps:
        look = PROGRESS_STYLES[step["status"]]
        quiet = "dim" if step["status"] is ProgressStatus.NOT_STARTED else ""
        name = Text(step["stepKey"], style=quiet)
        jobs = step["jobs"]
        numbers = [(jobs["done"], "done"), (jobs["active"], "active"), (jobs["failed"], "failed")]
        counts = ", ".join(f"{number} {word}" for number, word in numbers if number)
        table.add_row("", name, look.text(), counts)
    return table


def _warnings(warnings: list[str]) -> Iterator[Text]:
    return (Text(f"▲ {warning}", style="yellow") for warning in warnings)
