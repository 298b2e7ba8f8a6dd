"""Page of a run's document, alone or next to another version or another model's document."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.runs.run_work import (
    DocumentSheet,
    DocumentVersion,
    read_document_sheet,
)
from waybook.transport.http.dashboard.line_diff import Diff, compare_texts
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.runs.run_stage_view import stage_name
from waybook.transport.http.dashboard.runs.run_view import CONFIRMATIONS
from waybook.transport.http.html.forms import query_param
from waybook.transport.http.html.layout import document_html
from waybook.transport.http.html.run_urls import run_document_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    resource_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    about: DocumentVersion
    html: Markup
    changes: Diff


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    sheet: DocumentSheet
    stage_name: str
    step_name: str
    html: Markup
    choices: Sequence[tuple[str, Sequence[Choice]]]
    comparison: Comparison | None


def document_view(sheet: DocumentSheet) -> DocumentView:
    about, dag = sheet.document.about, sheet.detail.compiled_dag
    groups = {
        "Versions": sheet.versions,
        "Other models": sheet.of_other_models,
        "Same lineage": sheet.of_same_lineage,
    }
    names = Counter(map(_choice_name, sheet.related))
    choices = [
        (name, [_choice(item, names) for item in items if item.resource_id != about.resource_id])
        for name, items in groups.items()
    ]
    return DocumentView(
        sheet=sheet,
        stage_name=stage_name(dag, about.stage),
        step_name=dag.graphs[about.stage].steps[about.step_key].name or about.step_key,
        html=document_html(sheet.document.markdown),
        choices=[(name, items) for name, items in choices if items],
        comparison=_comparison(sheet),
    )


def _choice_name(item: DocumentVersion) -> tuple[str, str, int]:
    return item.document_key, item.model, item.version


def _choice(item: DocumentVersion, names: Mapping[tuple[str, str, int], int]) -> Choice:
    origin = ""
    if names[_choice_name(item)] > 1:
        reviewed = f", reviewed by {item.reviewer}" if item.reviewer else ""
        origin = f", {item.lineage}{reviewed}"
    text = f"{item.document_key}, {item.model}{origin}, version {item.version}"
    return Choice(resource_id=item.resource_id, text=text)


def _comparison(sheet: DocumentSheet) -> Comparison | None:
    if sheet.other is None:
        return None
    old, new = sheet.other.markdown, sheet.document.markdown
    return Comparison(
        about=sheet.other.about,
        html=document_html(old),
        changes=compare_texts(old, new),
    )


@dataclass(frozen=True, slots=True)
class RunDocumentPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        ctx = await self.page_context.request_context(request)
        named = request.path_params
        other = query_param(request, "with")
        sheet = await read_document_sheet(ctx, named["run_id"], named["resource_id"], other)
        # The largest documents take seconds to render, so the cost depends on the size.
        cost = (
            len(sheet.document.markdown) + len(sheet.other.markdown if sheet.other else "")
        ) // 50
        view = await self.page_context.run_costly(request, cost, partial(document_view, sheet))
        run_id, about = sheet.detail.run.id, sheet.document.about
        return await self.page_context.render_page(
            request,
            "run_document",
            path=run_document_url(run_id, about.resource_id),
            view=view,
            run=sheet.detail.run,
            about=about,
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            key=secrets.token_urlsafe(16),
        )
