"""The progress report: the structure of a run and its progress, as one JSON value.

An unknown value is null, with a warning.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from waybook.dag.diagnostics import sorted_messages
from waybook.dag.expansion.counts import StageCounts, documents_expected
from waybook.dag.expansion.items import NO_LENGTHS, Lengths
from waybook.dag.model import Stage
from waybook.dag.progress.documents import AvailableDocument
from waybook.dag.progress.overlay import NO_EVIDENCE, Evidence, overlay, stage_status
from waybook.dag.progress.structure import Structure, structure_counts
from waybook.dag.statuses import ProgressStatus


class Jobs(TypedDict):
    done: int
    active: int
    failed: int


class StepReport(TypedDict):
    stepKey: str
    status: ProgressStatus
    jobs: Jobs
    startedAt: str | None
    completedAt: str | None


class Progress(TypedDict):
    completedSteps: int
    totalSteps: int
    failedSteps: int


class StageReport(TypedDict):
    stageSlug: str
    status: ProgressStatus | None
    modelCount: int | None
    progress: Progress | None
    steps: list[StepReport] | None
    documents: list[dict[str, object]]
    documentsExpected: int | None
    documentsAvailable: int
    warnings: list[str]


class DagProgress(TypedDict):
    completedStages: int
    totalStages: int


class Report(TypedDict):
    dagProgress: DagProgress
    stages: list[StageReport]
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEvidence:
    models: tuple[str, ...] | None = None
    steps: Mapping[str, Evidence] = field(default_factory=dict)
    #: Reported status of each step. Empty if the statuses are derived from jobs.
    standings: Mapping[str, ProgressStatus] | None = None
    documents: tuple[AvailableDocument, ...] = ()


Warnings = Mapping[str | None, Iterable[str]]


def report(
    structure: Structure,
    seen: Mapping[str, StageEvidence],
    warnings: Warnings | None = None,
    lengths: Lengths = NO_LENGTHS,
) -> Report:
    """Return the progress report of a run. A stage that is not in `seen` has not started.

    `warnings` are additional warnings by stage. Warnings about no single stage have the key None.
    `lengths` are the known lengths of the lists by which steps are split.
    """
    warnings_by_stage = warnings or {}
    counts = structure_counts(
        structure,
        {slug: evidence.models for slug, evidence in seen.items() if evidence.models},
        lengths,
    )
    stages = [
        _initiated(stage, structure, seen[stage.slug], counts.get(stage.slug), warnings_by_stage)
        if stage.slug in seen
        else _not_initiated(stage, warnings_by_stage)
        for stage in structure.dag.stages
    ]
    completed = sum(stage["status"] is ProgressStatus.COMPLETED for stage in stages)
    return {
        "dagProgress": {"completedStages": completed, "totalStages": len(stages)},
        "stages": stages,
        "warnings": sorted_messages(warnings_by_stage.get(None, ())),
    }


def _not_initiated(stage: Stage, warnings: Warnings) -> StageReport:
    return {
        "stageSlug": stage.slug,
        "status": ProgressStatus.NOT_STARTED,
        "modelCount": None,
        "progress": {"completedSteps": 0, "totalSteps": 0, "failedSteps": 0},
        "steps": [],
        "documents": [],
        "documentsExpected": None,
        "documentsAvailable": 0,
        "warnings": sorted_messages(warnings.get(stage.slug, ())),
    }


def _initiated(
    stage: Stage,
    structure: Structure,
    seen: StageEvidence,
    counts: StageCounts | None,
    warnings: Warnings,
) -> StageReport:
    standings = _standings(stage, structure, seen)
    expected = documents_expected(stage, counts) if counts and seen.models else None
    strange = [*warnings.get(stage.slug, ()), *_unknowns(stage, structure, seen, counts)]
    return {
        "stageSlug": stage.slug,
        "status": None if standings is None else stage_status(standings.values()),
        "modelCount": None if seen.models is None else len(seen.models),
        "progress": None if standings is None else _progress(standings),
        "steps": None if standings is None else _steps(standings, seen.steps),
        "documents": [document.as_json() for document in seen.documents],
        "documentsExpected": expected,
        "documentsAvailable": len(seen.documents),
        "warnings": sorted_messages(strange),
    }


def _standings(
    stage: Stage, structure: Structure, seen: StageEvidence
) -> Mapping[str, ProgressStatus] | None:
    graph = structure.graphs.get(stage.slug)
    if seen.standings is not None or graph is None:
        return seen.standings
    return overlay(graph, seen.steps)


def _progress(standings: Mapping[str, ProgressStatus]) -> Progress:
    statuses = list(standings.values())
    return {
        "completedSteps": statuses.count(ProgressStatus.COMPLETED),
        "totalSteps": len(statuses),
        "failedSteps": statuses.count(ProgressStatus.FAILED),
    }


def _steps(
    standings: Mapping[str, ProgressStatus], evidence: Mapping[str, Evidence]
) -> list[StepReport]:
    return [_step(key, status, evidence.get(key, NO_EVIDENCE)) for key, status in standings.items()]


def _step(key: str, standing: ProgressStatus, seen: Evidence) -> StepReport:
    return {
        "stepKey": key,
        "status": standing,
        "jobs": {"done": seen.done, "active": seen.active, "failed": seen.failed},
        "startedAt": seen.started_at,
        "completedAt": seen.completed_at,
    }


def _unknowns(
    stage: Stage, structure: Structure, seen: StageEvidence, counts: StageCounts | None
) -> Iterator[str]:
    if seen.standings is not None:
        return
    if stage.slug not in structure.graphs:
        yield "step progress is unknown: the recipe is not a valid graph"
    if not seen.models:
        yield "expected documents unknown: models are not set"
    elif counts is None:
        yield "expected documents unknown: an earlier recipe is not a valid graph"
