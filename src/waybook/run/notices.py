"""What people are told of a run: that a stage waits for them or failed, or that it is over."""

from collections.abc import Iterator

from waybook.record.moment import Json
from waybook.record.notice import MOST_NAMED, Notice, Occasion, in_short
from waybook.run.model import Chart, Run


def run_notices(before: Run | None, run: Run, chart: Chart) -> tuple[Notice, ...]:
    """What there is to tell once the run has become so."""
    return tuple(_notices(before, run, chart))


def _notices(before: Run | None, run: Run, chart: Chart) -> Iterator[Notice]:
    was_failing = _failing(before)
    for slug, keys in _failing(run).items():
        if slug not in was_failing:
            failed: list[Json] = [*keys[:MOST_NAMED]]
            told = {**_stage(run, chart, slug), "failedSteps": failed}
            yield Notice(Occasion.STAGE_FAILED, run.id, told)
    ended = _complete(run) - _complete(before)
    for slug in chart.order:
        if slug in ended and run.stages[slug].feedback is None and chart.dag.after(slug):
            yield Notice(Occasion.AWAITING_FEEDBACK, run.id, _stage(run, chart, slug))
    if run.completed_at is not None and (before is None or before.completed_at is None):
        yield Notice(Occasion.RUN_COMPLETED, run.id, _run(run, chart))


def _failing(run: Run | None) -> dict[str, list[str]]:
    """The steps that failed for good and have not been given a fresh start, by their stage."""
    found: dict[str, list[str]] = {}
    for step in run.steps.values() if run else ():
        if step.failed and step.closed_at is None:
            found.setdefault(step.stage, []).append(step.key)
    return found


def _complete(run: Run | None) -> set[str]:
    stages = run.stages.items() if run else ()
    return {slug for slug, stage in stages if stage.completed_at is not None}


def _run(run: Run, chart: Chart) -> dict[str, Json]:
    done, total = len(_complete(run)), len(chart.order)
    return {
        "runId": run.id,
        "runName": in_short(run.name),
        "dagSlug": chart.dag.slug,
        "progress": {"completedStages": done, "totalStages": total},
    }


def _stage(run: Run, chart: Chart, slug: str) -> dict[str, Json]:
    name = in_short(chart.stages[slug].name)
    return {**_run(run, chart), "stageSlug": slug, "stageName": name}
