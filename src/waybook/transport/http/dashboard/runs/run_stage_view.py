"""View models of a run's stages: a table of steps and models, with status and documents."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from waybook.app.queries.documents import DocumentListItem
from waybook.app.queries.runs.run import FailedJob, RunDetail
from waybook.dag.progress.report import StageReport, StepReport
from waybook.run.model import CompiledDag, StageRun
from waybook.transport.http.html.run_urls import run_document_url, run_step_url

MAX_CELL_DOCUMENTS: Final = 3
MAX_STAGE_ROWS: Final = 25
MAX_PAGE_ROWS: Final = 60
CELL_STATUSES: Final = (
    ("failed", "failed"),
    ("retry_loop_failed", "failed"),
    ("processing", "in_progress"),
    ("retrying", "pending"),
    ("pending", "pending"),
    ("waiting", "pending"),
    ("completed", "completed"),
    ("superseded", "skipped"),
)
ATTENTION: Final = ("failed", "in_progress", "not_started", "completed")


@dataclass(frozen=True, slots=True)
class DocumentLink:
    url: str
    text: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One model's work on one step: job status and latest documents."""

    model: str
    status: str
    done: int
    total: int
    documents: tuple[DocumentLink, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    anchor: str
    url: str
    key: str
    name: str
    status: str
    done: int
    active: int
    failed: int
    started_at: datetime | None
    completed_at: datetime | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    anchor: str
    slug: str
    name: str
    status: str
    done: int
    total: int
    failed: int
    running: int
    started: StageRun | None
    expected: int | None
    available: int
    warnings: tuple[str, ...]
    steps: tuple[StepView, ...]
    failures: tuple[FailedJob, ...]
    is_current: bool

    @property
    def models(self) -> Sequence[str]:
        return self.started.models if self.started else ()

    @property
    def counts(self) -> Mapping[str, int]:
        return {"completed": self.done, "failed": self.failed, "in_progress": self.running}


def stage_name(compiled_dag: CompiledDag, slug: str) -> str:
    return compiled_dag.stages[slug].name or slug


def current_stages(detail: RunDetail) -> frozenset[str]:
    open_stages = [slug for slug, stage in detail.run.stages.items() if stage.completed_at is None]
    started = sorted(detail.run.stages.values(), key=lambda stage: stage.started_at)
    return frozenset(open_stages or [stage.slug for stage in started[-1:]])


def stage_views(detail: RunDetail) -> tuple[StageView, ...]:
    reports = {report["stageSlug"]: report for report in detail.report["stages"]}
    cells, current = _Cells(detail), current_stages(detail)
    room = MAX_PAGE_ROWS - sum(
        min(MAX_STAGE_ROWS, len(reports[slug]["steps"] or ())) for slug in current
    )
    views = []
    for place, slug in enumerate(detail.compiled_dag.order, 1):
        steps = reports[slug]["steps"] or []
        most = MAX_STAGE_ROWS
        if slug not in current:
            most = len(steps) if len(steps) <= room else 0
            room -= most
        shown = steps if len(steps) <= most else _most_urgent(steps, most)
        views.append(_stage(detail, place, reports[slug], cells, shown, is_current=slug in current))
    return tuple(views)


def stage_view(detail: RunDetail, slug: str, page: int, per_page: int) -> StageView:
    report = next(item for item in detail.report["stages"] if item["stageSlug"] == slug)
    shown = (report["steps"] or [])[(page - 1) * per_page : page * per_page]
    place = detail.compiled_dag.order.index(slug) + 1
    return _stage(detail, place, report, _Cells(detail), shown, is_current=True)


def _most_urgent(steps: Sequence[StepReport], most: int) -> list[StepReport]:
    order = {name: place for place, name in enumerate(ATTENTION)}
    ranked = sorted(
        range(len(steps)), key=lambda n: (order.get(str(steps[n]["status"]), len(order)), n)
    )
    return [steps[number] for number in sorted(ranked[:most])]


def _stage(
    detail: RunDetail,
    place: int,
    report: StageReport,
    cells: "_Cells",
    shown: Sequence[StepReport],
    *,
    is_current: bool,
) -> StageView:
    slug = report["stageSlug"]
    progress = report["progress"] or {"completedSteps": 0, "totalSteps": 0, "failedSteps": 0}
    anchor = f"stage-{place}"
    names = {
        step.key: (f"{anchor}-{number}", step.name or step.key)
        for number, step in enumerate(detail.compiled_dag.stages[slug].recipe.steps, 1)
    }
    statuses = [str(step["status"]) for step in report["steps"] or ()]
    return StageView(
        anchor=anchor,
        slug=slug,
        name=stage_name(detail.compiled_dag, slug),
        status=str(report["status"] or "unknown"),
        done=progress["completedSteps"],
        total=progress["totalSteps"] or len(names),
        failed=progress["failedSteps"],
        running=statuses.count("in_progress"),
        started=detail.run.stages.get(slug),
        expected=report["documentsExpected"],
        available=report["documentsAvailable"],
        warnings=tuple(report["warnings"]),
        steps=tuple(_step(detail, slug, *names[step["stepKey"]], step, cells) for step in shown),
        failures=tuple(failure for failure in detail.failures if failure.stage == slug),
        is_current=is_current,
    )


def _step(
    detail: RunDetail, slug: str, anchor: str, name: str, report: StepReport, cells: "_Cells"
) -> StepView:
    jobs, key = report["jobs"], report["stepKey"]
    stage = detail.run.stages.get(slug)
    return StepView(
        anchor=anchor,
        url=run_step_url(detail.run.id, slug, key),
        key=key,
        name=name,
        status=str(report["status"]),
        done=jobs["done"],
        active=jobs["active"],
        failed=jobs["failed"],
        started_at=_time(report["startedAt"]),
        completed_at=_time(report["completedAt"]),
        cells=tuple(cells.cell(slug, key, model) for model in stage.models) if stage else (),
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


class _Cells:
    def __init__(self, detail: RunDetail) -> None:
        self._run_id = detail.run.id
        self._counts: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
        for row in detail.job_counts:
            self._counts[row.stage, row.step_key, row.model][row.status] = row.jobs
        self._documents: dict[tuple[str, str, str], list[DocumentListItem]] = defaultdict(list)
        for item in detail.documents:
            self._documents[item.stage, item.step_key, item.model].append(item)

    def cell(self, stage: str, key: str, model: str) -> Cell:
        counts = self._counts.get((stage, key, model), {})
        documents = self._documents.get((stage, key, model), [])
        linked = documents[:MAX_CELL_DOCUMENTS] if len(documents) <= MAX_CELL_DOCUMENTS else []
        return Cell(
            model=model,
            status=next((shown for name, shown in CELL_STATUSES if counts.get(name)), ""),
            done=counts.get("completed", 0),
            total=sum(counts.values()) - counts.get("superseded", 0),
            documents=tuple(_links(self._run_id, linked)),
            more=len(documents) - len(linked),
        )


def _links(run_id: str, documents: Sequence[DocumentListItem]) -> Iterable[DocumentLink]:
    for item in documents:
        version = f" v{item.version}" if item.version > 1 else ""
        yield DocumentLink(
            url=run_document_url(run_id, item.resource_id),
            text=f"{item.document_key}{version}",
            label=f"{item.document_key} of {item.model}, {item.lineage}, version {item.version}",
        )
