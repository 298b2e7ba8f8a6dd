"""View model of the run page."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from waybook.app.queries.audit import RUN, event_label
from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.documents import DocumentListItem
from waybook.app.queries.run import FailedJob, RunDetail, RunEvent
from waybook.app.request.layout_worker import DrawingJob, Links
from waybook.dag.progress.report import StageReport, StepReport
from waybook.run.model import CompiledDag, StageRun
from waybook.transport.http.dashboard.cards import FeedbackCard

#: Number of documents shown on one page of the document list.
DOCUMENTS_PER_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    anchor: str
    key: str
    name: str
    status: str
    done: int
    active: int
    failed: int
    started_at: datetime | None
    completed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    anchor: str
    slug: str
    name: str
    status: str
    done: int
    total: int
    failed: int
    #: Stage run of the stage; None if the stage has not started.
    started: StageRun | None
    expected: int | None
    available: int
    warnings: tuple[str, ...]
    steps: tuple[StepView, ...]
    failures: tuple[FailedJob, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of steps by status, for the progress bar."""
        running = sum(step.status == "in_progress" for step in self.steps)
        return {"completed": self.done, "failed": self.failed, "in_progress": running}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistoryRow:
    """History entry as a sentence."""

    seq: int
    at: datetime
    who: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    detail: RunDetail
    stages: tuple[StageView, ...]
    map_svg: Markup
    input_text: str
    documents: Sequence[DocumentListItem]
    #: Number of the current page of the document list, and total number of its pages.
    document_page: int
    document_pages: int
    history: tuple[RunHistoryRow, ...]
    warnings: tuple[str, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of steps of all stages by status, for the progress bar."""
        counts = Counter[str]()
        for stage in self.stages:
            counts.update(stage.counts)
        return counts

    @property
    def card(self) -> FeedbackCard | None:
        """Card for the stage that awaits feedback, or None if no stage awaits feedback."""
        detail = self.detail
        stage = detail.run.stages.get(detail.awaiting or "")
        if stage is None:
            return None
        return FeedbackCard(
            run_id=detail.run.id,
            run_name=detail.run.name,
            stage_slug=stage.slug,
            stage_name=stage_name(detail.compiled_dag, stage.slug),
            since=stage.completed_at or detail.now,
            following=tuple(
                stage_name(detail.compiled_dag, slug)
                for slug in detail.compiled_dag.dag.after(stage.slug)
            ),
            models=", ".join(stage.models),
        )


def run_view(detail: RunDetail, svg: str, piece: int = 1) -> RunView:
    """Return the view model of the run page, with the map and one page of documents."""
    documents = detail.documents
    pieces = max(1, -(-len(documents) // DOCUMENTS_PER_PAGE))
    piece = min(max(piece, 1), pieces)
    return RunView(
        detail=detail,
        stages=_stages(detail),
        # The SVG can be inserted into the page without escaping, because Waybook drew it and
        # escaped every text in it.
        map_svg=Markup(svg),  # noqa: S704
        input_text=_readable(detail.input_text),
        documents=documents[(piece - 1) * DOCUMENTS_PER_PAGE : piece * DOCUMENTS_PER_PAGE],
        document_page=piece,
        document_pages=pieces,
        history=tuple(_to_history_row(event) for event in reversed(detail.history)),
        warnings=tuple(detail.report["warnings"]),
    )


def stage_name(compiled_dag: CompiledDag, slug: str) -> str:
    """Return the display name of a stage."""
    return compiled_dag.stages[slug].name or slug


def _stages(detail: RunDetail) -> tuple[StageView, ...]:
    compiled_dag, reports = detail.compiled_dag, detail.report["stages"]
    reports_by_slug = {report["stageSlug"]: report for report in reports}
    return tuple(
        _stage(detail, place, reports_by_slug[slug])
        for place, slug in enumerate(compiled_dag.order, 1)
    )


def _stage(detail: RunDetail, place: int, report: StageReport) -> StageView:
    slug = report["stageSlug"]
    progress = report["progress"] or {"completedSteps": 0, "totalSteps": 0, "failedSteps": 0}
    names = {step.key: step.name for step in detail.compiled_dag.stages[slug].recipe.steps}
    return StageView(
        anchor=f"stage-{place}",
        slug=slug,
        name=stage_name(detail.compiled_dag, slug),
        status=str(report["status"] or "unknown"),
        done=progress["completedSteps"],
        total=progress["totalSteps"],
        failed=progress["failedSteps"],
        started=detail.run.stages.get(slug),
        expected=report["documentsExpected"],
        available=report["documentsAvailable"],
        warnings=tuple(report["warnings"]),
        steps=tuple(
            _step(f"step-{place}-{number}", names[step["stepKey"]], step)
            for number, step in enumerate(report["steps"] or (), 1)
        ),
        failures=tuple(failure for failure in detail.failures if failure.stage == slug),
    )


def _step(anchor: str, name: str, report: StepReport) -> StepView:
    jobs = report["jobs"]
    return StepView(
        anchor=anchor,
        key=report["stepKey"],
        name=name or report["stepKey"],
        status=str(report["status"]),
        done=jobs["done"],
        active=jobs["active"],
        failed=jobs["failed"],
        started_at=_time(report["startedAt"]),
        completed_at=_time(report["completedAt"]),
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def map_job(detail: RunDetail) -> DrawingJob:
    """Return the drawing job for the run map, with links to the started stages."""
    places = {slug: place for place, slug in enumerate(detail.compiled_dag.order, 1)}
    links = tuple((slug, f"#stage-{places[slug]}") for slug in detail.run.stages)
    return DrawingJob(run_drawing(detail), links=Links(by_stage=links))


def _to_history_row(event: RunEvent) -> RunHistoryRow:
    about = f": {event.subject}" if event.subject else ""
    return RunHistoryRow(
        seq=event.seq,
        at=event.at,
        who=event.session or event.actor,
        what=f"{event_label(event.event, event.action, RUN)}{about}",
    )


def _readable(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
