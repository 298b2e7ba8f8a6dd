"""Notifications about a run: a stage awaits feedback or failed, or the run has ended."""

from collections.abc import Iterator

from waybook.core.events import (
    MAX_NAMES_LISTED,
    MAX_SUMMARY_LENGTH,
    Notification,
    NotificationKind,
    shorten,
)
from waybook.json_values import Json
from waybook.run.model import CompiledDag, Run


def run_notifications(
    before: Run | None, run: Run, compiled_dag: CompiledDag
) -> tuple[Notification, ...]:
    return tuple(_notices(before, run, compiled_dag))


def _notices(before: Run | None, run: Run, compiled_dag: CompiledDag) -> Iterator[Notification]:
    for slug, keys in _failing(run).items():
        if slug not in _failing(before):
            failed: list[Json] = [*keys[:MAX_NAMES_LISTED]]
            payload = {**_stage(run, compiled_dag, slug), "failedSteps": failed}
            yield Notification(NotificationKind.STAGE_FAILED, run.id, payload)
    ended = _complete(run) - _complete(before)
    for slug in compiled_dag.order:
        if slug in ended and run.stages[slug].feedback is None and compiled_dag.dag.after(slug):
            yield Notification(
                NotificationKind.AWAITING_FEEDBACK, run.id, _stage(run, compiled_dag, slug)
            )
    if run.completed_at is not None and (before is None or before.completed_at is None):
        yield Notification(NotificationKind.RUN_COMPLETED, run.id, _run(run, compiled_dag))
    if run.canceled_at is not None and before is not None and before.canceled_at is None:
        reason = shorten(run.cancel_reason or "", MAX_SUMMARY_LENGTH)
        payload = {**_run(run, compiled_dag), "reason": reason}
        yield Notification(NotificationKind.RUN_CANCELED, run.id, payload)


def _failing(run: Run | None) -> dict[str, list[str]]:
    by_stage: dict[str, list[str]] = {}
    for step in run.failed_steps if run else ():
        by_stage.setdefault(step.stage, []).append(step.key)
    return by_stage


def _complete(run: Run | None) -> set[str]:
    stages = run.stages.items() if run else ()
    return {slug for slug, stage in stages if stage.completed_at is not None}


def _run(run: Run, compiled_dag: CompiledDag) -> dict[str, Json]:
    done, total = len(_complete(run)), len(compiled_dag.order)
    return {
        "runId": run.id,
        "runName": shorten(run.name),
        "dagSlug": compiled_dag.dag.slug,
        "progress": {"completedStages": done, "totalStages": total},
    }


def _stage(run: Run, compiled_dag: CompiledDag, slug: str) -> dict[str, Json]:
    name = shorten(compiled_dag.stages[slug].name)
    return {**_run(run, compiled_dag), "stageSlug": slug, "stageName": name}
