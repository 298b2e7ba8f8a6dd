"""Terminal views of progress reports, and of a workflow's map and definition."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from waybook.cli.terminal.bars import segmented_bar, status_text
from waybook.cli.terminal.console import GAP, figures, one_line, plain_table, unwrapped
from waybook.core.shown import Shown
from waybook.dag.model import ProgressStatus
from waybook.dag.progress.report import Report, StageReport, StepReport, shown_stage, shown_step
from waybook.dag.progress.structure import Map, StageMap
from waybook.plan.progress import percent

_INDENT = "   "
MIN_BAR_WIDTH, _MAX_BAR_WIDTH = 8, 40


def report_display(report: Report, width: int) -> RenderableType:
    progress = report["dagProgress"]
    done, total = progress["completedStages"], progress["totalStages"]
    heading = Text(f"{done} of {total} stages completed, {percent(done, total)} %", style="bold")
    stages = [_report_stage(stage, width) for stage in report["stages"]]
    return Group(heading, *stages, *_warnings(report["warnings"]))


def _report_stage(stage: StageReport, width: int) -> RenderableType:
    slug, state = (stage["stageSlug"], "bold"), shown_stage(stage, is_over=False, awaits=False)
    parts: list[RenderableType] = [
        Text(),
        one_line(Text.assemble(slug, "  ", status_text(state))),
    ]
    if stage["steps"]:
        counts = Counter(map(_state, stage["steps"]))
        label = f"  {stage_progress_text(stage)}"
        room = max(MIN_BAR_WIDTH, min(_MAX_BAR_WIDTH, width - len(_INDENT) - len(label)))
        bar = segmented_bar(counts, room)
        parts += [
            one_line(Text.assemble(_INDENT, bar, label)),
            _report_steps(stage["steps"], width),
        ]
    return Group(*parts, *_warnings(stage["warnings"]))


def _state(step: StepReport) -> Shown:
    return shown_step(step, is_over=False)


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


def _report_steps(steps: list[StepReport], width: int) -> Table:
    name_column = unwrapped(max_width=max(12, width - 44))
    columns = (Column(width=1), name_column, unwrapped(), unwrapped(style="dim"))
    table = plain_table(*columns, show_header=False)
    for step in steps:
        quiet = "dim" if step["status"] is ProgressStatus.NOT_STARTED else ""
        name = Text(step["stepKey"], style=quiet)
        jobs = step["jobs"]
        numbers = [(jobs["done"], "done"), (jobs["active"], "active"), (jobs["failed"], "failed")]
        counts = ", ".join(f"{number} {word}" for number, word in numbers if number)
        table.add_row("", name, status_text(_state(step)), counts)
    return table


def _warnings(warnings: Iterable[str]) -> Iterator[Text]:
    return (Text(f"▲ {warning}", style="yellow") for warning in warnings)


def map_display(answer: Map, width: int) -> RenderableType:
    stages: list[RenderableType] = []
    for stage in answer["stages"]:
        total = stage["expected"]["total"]
        units = "" if total is None else f", {total} jobs"
        name, summary = (stage["stageSlug"], "bold"), f"  {len(stage['order'])} steps{units}"
        stages.append(one_line(Text.assemble(name, summary)))
        stages.append(_map_steps(stage, width))
    return Group(*stages, *_warnings(answer.get("warnings", ())))


def _map_steps(stage: StageMap, width: int) -> Table:
    roots, leaves = set(stage["roots"]), set(stage["leaves"])
    number_column = Column(width=4, justify="right", style="dim")
    name_column = unwrapped(max_width=max(12, width - 30))
    columns = (number_column, name_column, figures(), unwrapped(style="dim"))
    table = plain_table(*columns, show_header=False)
    for number, key in enumerate(stage["order"], start=1):
        place = [word for word, keys in (("root", roots), ("leaf", leaves)) if key in keys]
        table.add_row(str(number), key, _count(stage["expected"], key), ", ".join(place))
    return table


def _count(expected: Mapping[str, Any], key: str) -> str:
    """Return the number of jobs of a step, or its maximum, or an empty text if both are unknown."""
    jobs, most = expected["steps"][key], expected.get("atMost", {}).get(key)
    if jobs is not None:
        return str(jobs)
    return "" if most is None else f"≤ {most}"


_MIN_WIDTH_FOR_STRATEGIES = 90
_TWIG_WIDTH, _TYPE_WIDTH, _STRATEGY_WIDTH, _JOBS_WIDTH, _ORDER_WIDTH = 7, 7, 30, 8, 18
MIN_NAME_WIDTH = 14

_Answered = Mapping[str, Any]


def dag_display(answer: _Answered, models: int, width: int) -> RenderableType:
    stages = list(answer["stages"])
    longest = max(len(key) for stage in stages for key in stage["order"])
    strategy = _STRATEGY_WIDTH if width >= _MIN_WIDTH_FOR_STRATEGIES else 0
    shown = (_TWIG_WIDTH, _TYPE_WIDTH, strategy, _JOBS_WIDTH)
    room = width - sum(cells + GAP for cells in shown if cells)
    names = max(MIN_NAME_WIDTH, min(longest, room))
    order = _ORDER_WIDTH if room - names - GAP >= _ORDER_WIDTH else 0
    widths = (_TWIG_WIDTH, names, _TYPE_WIDTH, strategy, _JOBS_WIDTH, order)
    parts: list[RenderableType] = [_dag_heading(answer, models)]
    for stage in stages:
        last = stage is stages[-1]
        parts += [_stage_line(stage, last=last), _dag_steps(stage, widths, last=last)]
    if not models:
        command = f"waybook workflow view {answer['dagSlug']} --models 3"
        hint = f"{command} also says how many jobs to expect"
        parts.append(Text(hint, style="dim"))
    return Group(*parts)


def _dag_heading(answer: _Answered, models: int) -> Text:
    totals = [stage["expected"]["total"] for stage in answer["stages"]]
    heading = Text.assemble(
        (answer["dagSlug"], "bold"), f"  {answer['name']}, version {answer['version']}"
    )
    if models and None not in totals:
        with_models = "1 model" if models == 1 else f"{models} models"
        heading.append(f"  {sum(totals):,} jobs with {with_models}", style="bold")
    return one_line(heading)


def _stage_line(stage: _Answered, *, last: bool) -> Text:
    total, steps = stage["expected"]["total"], len(stage["order"])
    counted = "1 step" if steps == 1 else f"{steps} steps"
    jobs = "" if total is None else f", {_jobs(total)}"
    name = "" if stage["name"].casefold() == stage["stageSlug"] else f"  {stage['name']}"
    branch = "└─ " if last else "├─ "
    return one_line(
        Text.assemble((branch, "dim"), (stage["stageSlug"], "bold"), name, f"  {counted}{jobs}")
    )


def _dag_steps(stage: _Answered, widths: Sequence[int], *, last: bool) -> Table:
    """Return the steps of a stage. Columns of width 0 are left out."""
    styles, sides = ("dim", "", "dim", "dim", "", "dim"), ("left",) * 4 + ("right", "left")
    columns = zip(widths, styles, sides, strict=True)
    table = plain_table(
        *(unwrapped(width=n, style=style, justify=side) for n, style, side in columns if n),
        show_header=False,
    )
    steps = {step["stepKey"]: step for step in stage["steps"]}
    for number, key in enumerate(stage["order"], start=1):
        step, jobs = steps[key], stage["expected"]["steps"][key]
        twig = f"{' ' if last else '│'} {'└─' if number == len(steps) else '├─'} {number}"
        count = _count(stage["expected"], key) if jobs is None else _jobs(jobs)
        cells = (twig, key, step["jobType"], step["granularityStrategy"], count, _after(stage, key))
        table.add_row(*(cell for cell, n in zip(cells, widths, strict=True) if n))
    return table


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _after(stage: _Answered, key: str) -> str:
    numbers = {key: number for number, key in enumerate(stage["order"], start=1)}
    before = sorted(numbers[source] for source, target in stage["edges"] if target == key)
    return f"after {', '.join(map(str, before))}" if before else ""
