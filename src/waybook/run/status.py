"""The overall state of a run, and the data for its progress report."""

from collections.abc import Iterable
from datetime import datetime

from waybook.dag.progress.report import AvailableDocument, StageEvidence
from waybook.dag.progress.structure import Evidence
from waybook.dag.statuses import RunState
from waybook.run.model import CompiledDag, Run, StepRun


def run_state(run: Run, compiled_dag: CompiledDag) -> RunState:
    if run.completed_at is not None:
        return RunState.COMPLETED
    if run.canceled_at is not None:
        return RunState.CANCELED
    if run.failed_steps:
        return RunState.FAILED
    waits = awaiting_feedback(run, compiled_dag) is not None
    return RunState.AWAITING_FEEDBACK if waits else RunState.IN_PROGRESS


def awaiting_feedback(run: Run, compiled_dag: CompiledDag) -> str | None:
    """Return the stage that awaits feedback, unless another stage is in progress."""
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
        steps[step.stage][step.key] = _step(step)
    for slug, document in available:
        documents[slug].append(document)
    return {
        slug: StageEvidence(
            models=stage.models, steps=steps[slug], documents=tuple(documents[slug])
        )
        for slug, stage in run.stages.items()
    }


def _step(step: StepRun) -> Evidence:
    return Evidence(
        closed=step.closed_at is not None,
        done=step.done,
        active=step.total - step.done - step.failed,
        failed=step.failed,
        started_at=_time(step.opened_at),
        completed_at=_time(step.closed_at),
    )


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
