"""Terminal views of progress reports, and of the maps of workflows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from waybook.cli.terminal.bars import segmented_bar, status_text
from waybook.cli.terminal.console import figures, one_line, plain_table, unwrapped
from waybook.dag.progress.report import Report, StageReport, shown_stage, shown_step
from waybook.plan.progress import percent

_INDENT = "   "
_MIN_BAR_WIDTH, _MAX_BAR_WIDTH = 8, 40
#: In narrower terminals, maps leave out the types and strategies of steps.
_MIN_WIDTH_FOR_STRATEGIES = 90
_MIN_NAME_WIDTH, _NUMBER_WIDTH = 12, 7
_OTHER_COLUMNS_WIDTH, _WIDTH_WITH_STRATEGIES = 30, 48

_Body = Mapping[str, Any]


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
    steps = [(step, shown_step(step, is_over=False)) for step in stage["steps"] or ()]
    if steps:
        label = f"  {_progress_text(stage)}"
        room = max(_MIN_BAR_WIDTH, min(_MAX_BAR_WIDTH, width - len(_INDENT) - len(label)))
        bar = segmented_bar(Counter(state for _, state in steps), room)
        name = unwrapped(max_width=max(_MIN_NAME_WIDTH, width - 44))
        columns = (Column(width=1), name, unwrapped(), unwrapped(style="dim"))
        table = plain_table(*columns, show_header=False)
        for step, state in steps:
            jobs = ", ".join(f"{number} {word}" for word, number in step["jobs"].items() if number)
            table.add_row("", Text(step["stepKey"]), status_text(state), jobs)
        parts += [one_line(Text.assemble(_INDENT, bar, label)), table]
    return Group(*parts, *_warnings(stage["warnings"]))


def _progress_text(stage: StageReport) -> str:
    progress = stage["progress"]
    if progress is None:
        return ""
    done, total = progress["completedSteps"], progress["totalSteps"]
    parts = [f"{done} of {total} steps", f"{percent(done, total)} %"]
    if progress["failedSteps"]:
        parts.append(f"{progress['failedSteps']} failed")
    expected, available = stage["documentsExpected"], stage["documentsAvailable"]
    if expected or available:
        of = "" if expected is None else f" of {expected}"
        parts.append(f"{available}{of} documents")
    return ", ".join(parts)


def _warnings(warnings: Iterable[str]) -> Iterator[Text]:
    return (Text(f"▲ {warning}", style="yellow") for warning in warnings)


def dag_display(answer: _Body, models: int, width: int) -> RenderableType:
    """Return a workflow with its map, and the number of jobs with this number of models."""
    totals = [stage["expected"]["total"] for stage in answer["stages"]]
    heading = Text.assemble(
        (answer["dagSlug"], "bold"), f"  {answer['name']}, version {answer['version']}"
    )
    if models and None not in totals:
        with_models = "1 model" if models == 1 else f"{models} models"
        heading.append(f"  {sum(totals):,} jobs with {with_models}", style="bold")
    parts = [one_line(heading), map_display(answer, width)]
    if not models:
        command = f"waybook workflow view {answer['dagSlug']} --models 3"
        parts.append(Text(f"{command} also says how many jobs to expect", style="dim"))
    return Group(*parts)


def map_display(answer: _Body, width: int) -> RenderableType:
    """Return the stages of a workflow, with their steps and the expected jobs, as a tree."""
    stages, parts = answer["stages"], list[RenderableType]()
    longest = max((len(key) for stage in stages for key in stage["order"]), default=0)
    has_kinds = width >= _MIN_WIDTH_FOR_STRATEGIES and any("steps" in stage for stage in stages)
    others = _WIDTH_WITH_STRATEGIES if has_kinds else _OTHER_COLUMNS_WIDTH
    names = min(longest, max(_MIN_NAME_WIDTH, width - others))
    for stage in stages:
        is_last = stage is stages[-1]
        total, slug = stage["expected"]["total"], stage["stageSlug"]
        title, count = stage.get("name", slug), len(stage["order"])
        name = "" if title.casefold() == slug else f"  {title}"
        rest = f"{name}  {'1 step' if count == 1 else f'{count} steps'}{_jobs(total, ', ')}"
        branch = "└─ " if is_last else "├─ "
        parts.append(one_line(Text.assemble((branch, "dim"), (slug, "bold"), rest)))
        parts.append(_map_steps(stage, names, " " if is_last else "│", is_wide=has_kinds))
    return Group(*parts, *_warnings(answer.get("warnings", ())))


def _map_steps(stage: _Body, names: int, line: str, *, is_wide: bool) -> Table:
    order, expected = stage["order"], stage["expected"]
    most, numbers = expected.get("atMost", {}), {key: n for n, key in enumerate(order, start=1)}
    named = {step["stepKey"]: step for step in stage.get("steps", ())}
    has_kinds = bool(named) and is_wide
    number = unwrapped(style="dim", width=max(_NUMBER_WIDTH, len(f"{line} ├─ {len(order)}")))
    *kinds, place = (unwrapped(style="dim") for _ in range(3 if has_kinds else 1))
    columns = (number, unwrapped(width=names), *kinds, figures(), place)
    table = plain_table(*columns, show_header=False)
    for key, n in numbers.items():
        twig = f"{line} {'└─' if n == len(order) else '├─'} {n}"
        limit = f"≤ {most[key]}" if key in most else ""
        jobs = _jobs(expected["steps"][key]) or limit
        step = named.get(key, {})
        kind = (step["jobType"], step["granularityStrategy"]) if has_kinds else ()
        table.add_row(twig, key, *kind, jobs, _place(stage, key, numbers))
    return table


def _place(stage: _Body, key: str, numbers: Mapping[str, int]) -> str:
    """Return after which steps a step comes or, without edges, whether it is a root or leaf."""
    if "edges" not in stage:
        ends = (("root", stage["roots"]), ("leaf", stage["leaves"]))
        return ", ".join(word for word, keys in ends if key in keys)
    before = sorted(numbers[source] for source, target in stage["edges"] if target == key)
    return f"after {', '.join(map(str, before))}" if before else ""


def _jobs(count: int | None, before: str = "") -> str:
    if count is None:
        return ""
    return f"{before}1 job" if count == 1 else f"{before}{count:,} jobs"
