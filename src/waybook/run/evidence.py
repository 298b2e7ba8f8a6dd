"""What a run's own rows say of its stages, in the form in which the report takes it."""

from collections.abc import Iterable
from datetime import datetime

from waybook.dag.documents import AvailableDocument
from waybook.dag.overlay import Evidence
from waybook.dag.report import StageEvidence
from waybook.run.model import Run, StepRun


def run_evidence(
    run: Run, available: Iterable[tuple[str, AvailableDocument]] = ()
) -> dict[str, StageEvidence]:
    """What is known of each stage that has been started.

    `available` are the documents that can be fetched, each with its stage.
    """
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
