"""Invariants that hold for every progress report."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from waybook.dag.model import ProgressStatus
from waybook.dag.progress.report import Progress, Report, StageReport, StepReport


def completed_steps_add_up(report: Report) -> bool:
    """Check invariant 1: the number of completed steps matches the listed statuses."""
    return all(
        progress["completedSteps"] == _count(steps, ProgressStatus.COMPLETED)
        for _, progress, steps in _stages(report)
    )


def total_steps_are_the_list(report: Report) -> bool:
    """Check invariant 2: the total equals the number of listed steps."""
    return all(progress["totalSteps"] == len(steps) for _, progress, steps in _stages(report))


def failed_steps_add_up(report: Report) -> bool:
    """Check invariant 3: the number of failed steps matches the listed statuses."""
    return all(
        progress["failedSteps"] == _count(steps, ProgressStatus.FAILED)
        for _, progress, steps in _stages(report)
    )


def completed_means_every_step(report: Report) -> bool:
    """Check invariant 4: a stage is completed if and only if it has steps, all completed."""
    return all(
        (stage["status"] == ProgressStatus.COMPLETED)
        == (
            0 < progress["totalSteps"] == progress["completedSteps"] and not progress["failedSteps"]
        )
        for stage, progress, _ in _stages(report)
    )


def completed_stages_add_up(report: Report) -> bool:
    """Check invariant 5: the number of completed stages matches the listed statuses."""
    completed = sum(stage["status"] == ProgressStatus.COMPLETED for stage in report["stages"])
    return report["dagProgress"]["completedStages"] == completed


def completed_never_decreases(before: Report, after: Report) -> bool:
    """Check invariant 6: completed steps and stages stay completed."""
    later = {stage["stageSlug"]: (stage, progress) for stage, progress, _ in _stages(after)}
    pairs = [
        (was, progress, *later[was["stageSlug"]])
        for was, progress, _ in _stages(before)
        if was["stageSlug"] in later
    ]
    return all(
        then["completedSteps"] <= now["completedSteps"]
        and (
            was["status"] != ProgressStatus.COMPLETED or stage["status"] == ProgressStatus.COMPLETED
        )
        for was, then, stage, now in pairs
    )


def _stages(report: Report) -> Iterator[tuple[StageReport, Progress, list[StepReport]]]:
    for stage in report["stages"]:
        if stage["progress"] is not None and stage["steps"] is not None:
            yield stage, stage["progress"], stage["steps"]


def _count(steps: list[StepReport], standing: ProgressStatus) -> int:
    return sum(step["status"] == standing for step in steps)


_SINGLE_REPORT_INVARIANTS: Mapping[str, Callable[[Report], bool]] = MappingProxyType(
    {
        rule.__name__: rule
        for rule in (
            completed_steps_add_up,
            total_steps_are_the_list,
            failed_steps_add_up,
            completed_means_every_step,
            completed_stages_add_up,
        )
    }
)


def check(report: Report, before: Report | None = None) -> list[str]:
    broken = [name for name, holds in _SINGLE_REPORT_INVARIANTS.items() if not holds(report)]
    if before is not None and not completed_never_decreases(before, report):
        broken.append(completed_never_decreases.__name__)
    return broken
