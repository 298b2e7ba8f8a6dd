"""Stages of a run for its pages: a table of steps and models, with status and documents."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from waybook.app.queries.documents import DocumentListItem
from waybook.app.queries.forecast import StartPreview
from waybook.app.queries.runs.run import FailedJob, RunDetail
from waybook.dag.progress.report import StageReport, StepReport
from waybook.run.model import CompiledDag, StageRun

MAX_CELL_DOCUMENTS: Final = 3
MAX_STAGE_ROWS: Final = 25
MAX_PAGE_ROWS: Final = 60
#: Status that a cell shows for its jobs. The first that some job has is shown.
CELL_STATUSES: Final = MappingProxyType(
    {
        "failed": "failed",
        "retry_loop_failed": "failed",
        "processing": "in_progress",
        "retrying": "pending",
        "pending": "pending",
        "waiting": "pending",
        "completed": "completed",
        "superseded": "skipped",
    }
)
ATTENTION: Final = ("failed", "in_progress", "not_started", "completed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One model's work on one step: job status and latest documents."""

    model: str
    status: str
    done: int
    total: int
    documents: Sequence[DocumentListItem]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step of a stage, as a row of the stage's table."""

    anchor: str
    name: str
    report: StepReport
    started_at: datetime | None
    completed_at: datetime | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    anchor: str
    slug: str
    name: str
    report: StageReport
    done: int
    total: int
    failed: int
    running: int
    started: StageRun | None
    steps: tuple[StepView, ...]
    failures: tuple[FailedJob, ...]
    is_current: bool

    @property
    def status(self) -> str:
        return str(self.report["status"] or "unknown")


def stage_name(compiled_dag: CompiledDag, slug: str) -> str:
    return compiled_dag.stages[slug].name or slug


def reason_for_no_forecast(preview: StartPreview) -> str:
    if preview.total.known is None:
        return "the number of jobs is not known in advance."
    if preview.runs:
        s = "" if preview.runs == 1 else "s"
        return f"only {preview.runs} completed run{s} of this workflow so far."
    return "no completed runs of this workflow yet."


def current_stages(detail: RunDetail) -> frozenset[str]:
    open_stages = [slug for slug, stage in detail.run.stages.items() if stage.completed_at is None]
    started = sorted(detail.run.stages.values(), key=lambda stage: stage.started_at)
    return frozenset(open_stages or [stage.slug for stage in started[-1:]])


def stage_views(detail: RunDetail) -> list[StageView]:
    """Return all stages. Of a large stage, only the most urgent steps are shown."""
    reports = {report["stageSlug"]: report for report in detail.report["stages"]}
    cells, current = _Cells(detail), current_stages(detail)
    room = MAX_PAGE_ROWS - sum(
        min(MAX_STAGE_ROWS, len(reports[slug]["steps"] or ())) for slug in current
    )
    views = []
    for slug in detail.compiled_dag.order:
        steps = reports[slug]["steps"] or []
        most = MAX_STAGE_ROWS
        if slug not in current:
            most = len(steps) if len(steps) <= room else 0
            room -= most
        if len(steps) > most:
            urgency = {name: place for place, name in enumerate(ATTENTION)}
            ranked = sorted(
                range(len(steps)),
                key=lambda n: (urgency.get(str(steps[n]["status"]), len(urgency)), n),
            )
            steps = [steps[number] for number in sorted(ranked[:most])]
        views.append(_stage(detail, reports[slug], cells, steps, is_current=slug in current))
    return views


def stage_view(detail: RunDetail, slug: str, page: int, per_page: int) -> StageView:
    """Return one stage with one page of its steps."""
    report = detail.stage_report(slug)
    steps = (report["steps"] or [])[(page - 1) * per_page : page * per_page]
    return _stage(detail, report, _Cells(detail), steps, is_current=True)


def _stage(
    detail: RunDetail,
    report: StageReport,
    cells: "_Cells",
    steps: Sequence[StepReport],
    *,
    is_current: bool,
) -> StageView:
    slug, dag = report["stageSlug"], detail.compiled_dag
    progress = report["progress"] or {"completedSteps": 0, "totalSteps": 0, "failedSteps": 0}
    anchor, stage = f"stage-{dag.order.index(slug) + 1}", detail.run.stages.get(slug)
    places = {step.key: n for n, step in enumerate(dag.stages[slug].recipe.steps, 1)}
    names = {step.key: step.name or step.key for step in dag.stages[slug].recipe.steps}
    return StageView(
        anchor=anchor,
        slug=slug,
        name=stage_name(dag, slug),
        report=report,
        done=progress["completedSteps"],
        total=progress["totalSteps"] or len(names),
        failed=progress["failedSteps"],
        running=[str(step["status"]) for step in report["steps"] or ()].count("in_progress"),
        started=stage,
        steps=tuple(
            StepView(
                anchor=f"{anchor}-{places[step['stepKey']]}",
                name=names[step["stepKey"]],
                report=step,
                started_at=_time(step["startedAt"]),
                completed_at=_time(step["completedAt"]),
                cells=tuple(
                    cells.cell(slug, step["stepKey"], model)
                    for model in (stage.models if stage else ())
                ),
            )
            for step in steps
        ),
        failures=tuple(failure for failure in detail.failures if failure.stage == slug),
        is_current=is_current,
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


class _Cells:
    def __init__(self, detail: RunDetail) -> None:
        self._counts: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
        for row in detail.job_counts:
            self._counts[row.stage, row.step_key, row.model][row.status] = row.jobs
        self._documents: dict[tuple[str, str, str], list[DocumentListItem]] = defaultdict(list)
        for item in detail.documents:
            self._documents[item.stage, item.step_key, item.model].append(item)

    def cell(self, stage: str, key: str, model: str) -> Cell:
        counts = self._counts.get((stage, key, model), {})
        documents = self._documents.get((stage, key, model), [])
        shown = documents if len(documents) <= MAX_CELL_DOCUMENTS else []
        return Cell(
            model=model,
            status=next((shown for name, shown in CELL_STATUSES.items() if counts.get(name)), ""),
            done=counts.get("completed", 0),
            total=sum(counts.values()) - counts.get("superseded", 0),
            documents=shown,
            more=len(documents) - len(shown),
        )
