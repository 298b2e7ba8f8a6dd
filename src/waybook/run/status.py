"""Computes the state of a run, the data for its progress, and its notifications."""

from collections.abc import Iterable, Iterator

from waybook.core.events import (
    MAX_NAMES_LISTED,
    MAX_SUMMARY_LENGTH,
    Notification,
    NotificationKind,
    shorten,
)
from waybook.core.shown import Shown, shown_group
from waybook.dag.model import RunState
from waybook.dag.progress.report import AvailableDocument, StageEvidence
from waybook.dag.progress.structure import Evidence
from waybook.json_values import Json
from waybook.run.model import CompiledDag, Run


def run_state(run: Run, compiled_dag: CompiledDag) -> RunState:
    if run.completed_at is not None:
        return RunState.COMPLETED
    if run.canceled_at is not None:
        return RunState.CANCELED
    if run.failed_steps:
        return RunState.FAILED
    waits = awaiting_feedback(run, compiled_dag) is not None
    return RunState.AWAITING_FEEDBACK if waits else RunState.IN_PROGRESS


def state_of_run(run: Run, compiled_dag: CompiledDag) -> Shown:
    """Return the state that people see."""
    goes_on = any(step.is_open for step in run.steps.values())
    return shown_group(run_state(run, compiled_dag), goes_on=goes_on)


def awaiting_feedback(run: Run, compiled_dag: CompiledDag) -> str | None:
    """Return the first stage that awaits feedback. While a stage is in progress, return None."""
    if run.canceled_at is not None:
        return None
    if any(stage.completed_at is None for stage in run.stages.values()):
        return None
    waiting = (
        slug
        for slug in compiled_dag.order
        if (stage := run.stages.get(slug))
        and stage.feedback is None
        and compiled_dag.dag.after(slug)
    )
    return next(waiting, None)


def run_evidence(
    run: Run, available: Iterable[tuple[str, AvailableDocument]] = ()
) -> dict[str, StageEvidence]:
    """Return the data from which the progress of each started stage is computed."""
    steps: dict[str, dict[str, Evidence]] = {slug: {} for slug in run.stages}
    documents: dict[str, list[AvailableDocument]] = {slug: [] for slug in run.stages}
    for step in run.steps.values():
        steps[step.stage][step.key] = Evidence(
            closed=step.closed_at is not None,
            done=step.done,
            active=step.total - step.done - step.failed,
            failed=step.failed,
            started_at=step.opened_at.isoformat(),
            completed_at=step.closed_at.isoformat() if step.closed_at else None,
        )
    for slug, document in available:
        documents[slug].append(document)
    return {
        slug: StageEvidence(
            models=stage.models, steps=steps[slug], documents=tuple(documents[slug])
        )
        for slug, stage in run.stages.items()
    }


def run_notifications(
    before: Run | None, run: Run, compiled_dag: CompiledDag
) -> Iterator[Notification]:
    failing_before = _failing(before)
    for slug, keys in _failing(run).items():
        if slug not in failing_before:
            failed: list[Json] = [*keys[:MAX_NAMES_LISTED]]
            payload = {**_stage(run, compiled_dag, slug), "failedSteps": failed}
            yield Notification(NotificationKind.STAGE_FAILED, run.id, payload)
    ended = _complete(run) - _complete(before)
    for slug in compiled_dag.order:
        if slug in ended and run.stages[slug].feedback is None and compiled_dag.dag.after(slug):
            payload = _stage(run, compiled_dag, slug)
            yield Notification(NotificationKind.AWAITING_FEEDBACK, run.id, payload)
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
