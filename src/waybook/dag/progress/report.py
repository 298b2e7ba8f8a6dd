"""The progress report: the structure of a run and its progress, as one JSON value.

An unknown value is null, with a warning.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict

from waybook.core.shown import Shown, shown_group
from waybook.dag.diagnostics import quote_name, sorted_messages
from waybook.dag.expansion.inputs import StageCounts, documents_expected
from waybook.dag.expansion.units import NO_LENGTHS, Lengths
from waybook.dag.graph import Graph
from waybook.dag.model import JobStatus, ProgressStatus, Stage
from waybook.dag.progress.structure import (
    NO_EVIDENCE,
    Evidence,
    Structure,
    overlay,
    stage_status,
    structure_counts,
)

RENDERED = "rendered_document"


class RenderJob(NamedTuple):
    id: str
    stage: str | None
    status: str
    document_key: str | None
    model_id: str | None


class Resource(NamedTuple):
    id: str
    job_id: str | None
    document_key: str | None
    model_id: str | None


class AvailableDocument(NamedTuple):
    document_key: str | None
    model_id: str | None
    resource_id: str
    #: True if an input of the document has a newer version.
    outdated: bool = False

    def as_json(self) -> dict[str, object]:
        return {
            "documentKey": self.document_key,
            "modelId": self.model_id,
            "resourceId": self.resource_id,
            "status": "available",
            **({"outdated": True} if self.outdated else {}),
        }


_Finding = tuple[str | None, AvailableDocument | str]


class StageDocuments(NamedTuple):
    documents: tuple[AvailableDocument, ...]
    warnings: tuple[str, ...]


def available_documents(
    renders: Iterable[RenderJob], resources: Iterable[Resource]
) -> dict[str | None, StageDocuments]:
    by_stage: dict[str | None, set[AvailableDocument | str]] = {}
    for stage, finding in _findings(renders, resources):
        by_stage.setdefault(stage, set()).add(finding)
    return {stage: _sorted(findings) for stage, findings in by_stage.items()}


def _sorted(findings: Iterable[AvailableDocument | str]) -> StageDocuments:
    documents = [finding for finding in findings if isinstance(finding, AvailableDocument)]
    documents.sort(key=lambda d: (d.document_key or "", d.model_id or "", d.resource_id))
    warnings = sorted(finding for finding in findings if isinstance(finding, str))
    return StageDocuments(tuple(documents), tuple(warnings))


def _findings(renders: Iterable[RenderJob], resources: Iterable[Resource]) -> Iterator[_Finding]:
    def doubt(job: RenderJob) -> tuple[bool, tuple[str, ...]]:
        return job.status != JobStatus.COMPLETED, tuple(map(str, job))

    jobs: dict[str, RenderJob] = {}
    for render in renders:
        jobs[render.id] = min(render, jobs.get(render.id, render), key=doubt)
    fetched: set[str | None] = set()
    for resource in resources:
        fetched.add(resource.job_id)
        yield from _examine_resource(resource, jobs.get(resource.job_id or ""))
    for job in jobs.values():
        if job.status == JobStatus.COMPLETED and job.id not in fetched:
            message = (
                f"the RENDER job {quote_name(job.id)} is completed, but there is no document of it"
            )
            yield job.stage, message


def _examine_resource(resource: Resource, job: RenderJob | None) -> Iterator[_Finding]:
    name = f"the rendered document {quote_name(resource.id)}"
    if job is None:
        yield None, f"{name} belongs to no known RENDER job ({quote_name(resource.job_id)})"
    elif job.status == JobStatus.COMPLETED and job.stage is not None:
        key = resource.document_key or job.document_key
        model = resource.model_id or job.model_id
        yield job.stage, AvailableDocument(key, model, resource.id)
        missing = [word for word, value in (("key", key), ("model", model)) if value is None]
        yield from ((job.stage, f"{name} does not say its {word}") for word in missing)
    elif job.status == JobStatus.COMPLETED:
        yield None, f"{name} is of a job that names no stage of this DAG ({quote_name(job.id)})"
    elif job.status != JobStatus.SUPERSEDED:
        # A superseded job gets no warning, because its document is only an older version.
        yield job.stage, f"{name} is of a RENDER job that is not completed ({quote_name(job.id)})"


class StepReport(TypedDict):
    stepKey: str
    status: ProgressStatus
    jobs: dict[Literal["done", "active", "failed"], int]
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


class Report(TypedDict):
    dagProgress: dict[Literal["completedStages", "totalStages"], int]
    stages: list[StageReport]
    warnings: list[str]


def shown_step(step: StepReport, *, is_over: bool) -> Shown:
    return shown_group(step["status"], goes_on=step["jobs"]["active"] > 0, is_over=is_over)


def shown_stage(stage: StageReport, *, is_over: bool, awaits: bool) -> Shown:
    """Return the state of a stage. One that awaits feedback needs a person."""
    if awaits:
        return Shown.NEEDS_YOU
    goes_on = any(step["jobs"]["active"] for step in stage["steps"] or ())
    return shown_group(stage["status"], goes_on=goes_on, is_over=is_over)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEvidence:
    models: tuple[str, ...] | None = None
    steps: Mapping[str, Evidence] = field(default_factory=dict)
    #: Status of each step, if it is known. With None, the statuses are derived from jobs.
    standings: Mapping[str, ProgressStatus] | None = None
    documents: tuple[AvailableDocument, ...] = ()


_Warnings = Mapping[str | None, Iterable[str]]


def report(
    structure: Structure,
    seen: Mapping[str, StageEvidence],
    warnings: _Warnings | None = None,
    lengths: Lengths = NO_LENGTHS,
) -> Report:
    """Return the progress report of a run. A stage that is not in `seen` has not started.

    `warnings` are additional warnings by stage; general warnings have the key None. `lengths` are
    the known lengths of the lists by which steps are split.
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


def _not_initiated(stage: Stage, warnings: _Warnings) -> StageReport:
    return {
        "stageSlug": stage.slug,
        "status": ProgressStatus.NOT_STARTED,
        "modelCount": None,
        "progress": _progress(()),
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
    warnings: _Warnings,
) -> StageReport:
    standings, strange = seen.standings, [*warnings.get(stage.slug, ())]
    if standings is None:
        graph = structure.graphs.get(stage.slug)
        standings = overlay(graph, seen.steps) if graph else None
        strange += _unknowns(graph, seen, counts)
    known = {} if standings is None else standings
    return {
        "stageSlug": stage.slug,
        "status": None if standings is None else stage_status(known.values()),
        "modelCount": None if seen.models is None else len(seen.models),
        "progress": None if standings is None else _progress(known.values()),
        "steps": None if standings is None else [_step(key, known[key], seen) for key in known],
        "documents": [document.as_json() for document in seen.documents],
        "documentsExpected": documents_expected(stage, counts) if counts and seen.models else None,
        "documentsAvailable": len(seen.documents),
        "warnings": sorted_messages(strange),
    }


def _progress(standings: Collection[ProgressStatus]) -> Progress:
    counts = Counter(standings)
    return {
        "completedSteps": counts[ProgressStatus.COMPLETED],
        "totalSteps": len(standings),
        "failedSteps": counts[ProgressStatus.FAILED],
    }


def _step(key: str, standing: ProgressStatus, seen: StageEvidence) -> StepReport:
    evidence = seen.steps.get(key, NO_EVIDENCE)
    return {
        "stepKey": key,
        "status": standing,
        "jobs": {"done": evidence.done, "active": evidence.active, "failed": evidence.failed},
        "startedAt": evidence.started_at,
        "completedAt": evidence.completed_at,
    }


def _unknowns(
    graph: Graph | None, seen: StageEvidence, counts: StageCounts | None
) -> Iterator[str]:
    if graph is None:
        yield "step progress is unknown: the recipe is not a valid graph"
    if not seen.models:
        yield "expected documents unknown: models are not set"
    elif counts is None:
        yield "expected documents unknown: an earlier recipe is not a valid graph"
