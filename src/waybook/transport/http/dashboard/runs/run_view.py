"""View model of the run page."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from waybook.app.queries.audit import RUN, event_label
from waybook.app.queries.documents import DocumentListItem
from waybook.app.queries.runs.run import RunDetail, RunEvent
from waybook.transport.http.dashboard.cards import FeedbackCard
from waybook.transport.http.dashboard.runs.run_map import RunMap
from waybook.transport.http.dashboard.runs.run_stage_view import StageView, stage_name, stage_views
from waybook.transport.http.dashboard.runs.run_timeline import RunTimeline, run_timeline

CONFIRMATIONS: Final = {
    "retry": "Failed jobs were reset and can be claimed again.",
    "regenerate": "Regeneration queued.",
}
DOCUMENTS_PER_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistoryRow:
    seq: int
    at: datetime
    who: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    detail: RunDetail
    stages: tuple[StageView, ...]
    map: RunMap
    timeline: RunTimeline | None
    input_text: str
    history: tuple[RunHistoryRow, ...]
    warnings: tuple[str, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        counts = Counter[str]()
        for stage in self.stages:
            counts.update(stage.counts)
        return counts

    @property
    def card(self) -> FeedbackCard | None:
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


def run_view(detail: RunDetail, drawn: RunMap) -> RunView:
    return RunView(
        detail=detail,
        stages=stage_views(detail),
        map=drawn,
        timeline=run_timeline(detail),
        input_text=_readable(detail.input_text),
        history=tuple(_to_history_row(event) for event in reversed(detail.history)),
        warnings=tuple(detail.report["warnings"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsView:
    detail: RunDetail
    documents: Sequence[DocumentListItem]
    page: int
    pages: int


def documents_view(detail: RunDetail, page: int) -> DocumentsView:
    pages = max(1, -(-len(detail.documents) // DOCUMENTS_PER_PAGE))
    page = min(page, pages)
    first = (page - 1) * DOCUMENTS_PER_PAGE
    return DocumentsView(
        detail=detail,
        documents=detail.documents[first : first + DOCUMENTS_PER_PAGE],
        page=page,
        pages=pages,
    )


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
