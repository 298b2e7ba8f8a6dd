"""Run list, run page with its actions, and exports of a run as JSON report or map."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import orjson
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.runs.run_list import OPEN, RunFilter, RunOrder, list_runs
from waybook.app.request.caller import Answer
from waybook.app.request.layout_worker import DrawingJob
from waybook.core.file_names import safe_file_name
from waybook.dag.diagram.svg import export_drawing
from waybook.dag.statuses import DrawingFormat, RunState
from waybook.transport.errors import code_of
from waybook.transport.http.dashboard.page import PageContext, error_message
from waybook.transport.http.dashboard.runs.run_map import plan_map, run_map
from waybook.transport.http.dashboard.runs.run_stage_view import stage_name
from waybook.transport.http.dashboard.runs.run_view import CONFIRMATIONS, run_view
from waybook.transport.http.html.forms import (
    current_url_with,
    query_param,
    read_form,
    safe_return_path,
)
from waybook.transport.http.requests import SANDBOX_HEADERS
from waybook.transport.http.responses import http_status


@dataclass(frozen=True, slots=True)
class RunPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        return await self._page(request)

    async def retry(self, request: Request) -> Response:
        fields = await read_form(request)
        args = {"stageSlug": _field(fields, "stage")}
        if step := _field(fields, "step"):
            args["stepKey"] = step
        return await self._act(request, fields, "retry_failed", args)

    async def regenerate(self, request: Request) -> Response:
        fields = await read_form(request)
        following = _field(fields, "following") == "true"
        args = {"documentId": _field(fields, "document"), "following": following}
        return await self._act(request, fields, "regenerate_document", args)

    async def _act(
        self, request: Request, fields: FormData, tool: str, args: Mapping[str, object]
    ) -> Response:
        run_id = request.path_params["run_id"]
        action = request.url.path.rpartition("/")[2]
        named = {} if "documentId" in args else {"runId": run_id}
        # All forms on a page have the same idempotency key, so add what the form is about.
        places = (run_id, *(_field(fields, name) for name in FORM_PLACES))
        place = "/".join(filter(None, places))
        key = f"{_field(fields, 'key')[:64]}:{place}"[:200]
        answer = await self.page_context.call_tool(
            request, tool, {**named, **args, "idempotencyKey": key}
        )
        if answer.is_error:
            return await self._page(request, answer)
        path = safe_return_path(fields.get("back"), f"/runs/{quote(run_id, safe='')}")
        return RedirectResponse(f"{path}?done={action}", HTTPStatus.SEE_OTHER)

    async def _page(self, request: Request, refused: Answer | None = None) -> Response:
        ctx = await self.page_context.request_context(request)
        detail = await read_run_detail(ctx, request.path_params["run_id"], RunInclude.PAGE)
        plan = plan_map(detail, query_param(request, "map"), query_param(request, "near"))
        svg = await self.page_context.picture(request, plan.job)
        made = partial(run_view, detail, run_map(detail, plan, svg))
        view = await self.page_context.run_layout(request, detail.compiled_dag.dag, made)
        return await self.page_context.render_page(
            request,
            "run",
            status_code=http_status(code_of(refused)) if refused else 200,
            path=f"/runs/{detail.run.id}",
            view=view,
            refused=error_message(refused) if refused else None,
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            key=secrets.token_urlsafe(16),
        )


#: Hidden fields that distinguish the forms of a page.
FORM_PLACES: Final = ("stage", "step", "document", "following")


def _field(fields: FormData, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _report(detail: RunDetail) -> str:
    run = detail.run
    payload = {
        **detail.report,
        "runId": run.id,
        "name": run.name,
        "usage": run.usage.as_reply(),
    }
    return orjson.dumps(payload, option=orjson.OPT_INDENT_2).decode() + "\n"


def _drawn(form: DrawingFormat, detail: RunDetail) -> str:
    return export_drawing(form, run_drawing(detail))


EXPORT_FORMATS: Final[Mapping[str, tuple[str, Callable[[RunDetail], str]]]] = MappingProxyType(
    {
        "json": ("application/json", _report),
        "md": ("text/markdown", partial(_drawn, DrawingFormat.MARKDOWN)),
        "svg": ("image/svg+xml", partial(_drawn, DrawingFormat.SVG)),
        "mmd": ("text/plain", partial(_drawn, DrawingFormat.MERMAID)),
    }
)


@dataclass(frozen=True, slots=True)
class RunExport:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        """Return the export as a download that browsers do not execute."""
        ending = request.path_params["ending"]
        if ending not in EXPORT_FORMATS:
            raise HTTPException(404)
        kind, made = EXPORT_FORMATS[ending]
        ctx = await self.page_context.request_context(request)
        detail = await read_run_detail(ctx, request.path_params["run_id"], RunInclude.NOTHING)
        if ending == "svg":
            job = DrawingJob(run_drawing(detail), styled=True)
            text = await self.page_context.picture(request, job) + "\n"
        else:
            text = await self.page_context.run_layout(
                request, detail.compiled_dag.dag, partial(made, detail)
            )
        return file_response(f"{safe_file_name(detail.run.name)}.{ending}", kind, text)


def file_response(name: str, kind: str, text: str) -> Response:
    """Return a text as a file download. `name` must be safe in a header."""
    headers = {
        **SANDBOX_HEADERS,
        "content-disposition": f'attachment; filename="{name}"',
        "content-type": f"{kind}; charset=utf-8",
    }
    return Response(text, headers=headers)


STATES: Final = (OPEN, *map(str, RunState))


@dataclass(frozen=True, slots=True)
class RunsPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        state = query_param(request, "state")
        filter_ = RunFilter(
            state=state if state in STATES else None,
            dag=query_param(request, "dag"),
            text=query_param(request, "q") or "",
            before=query_param(request, "before"),
            order=RunOrder.START,
        )
        page = await list_runs(await self.page_context.request_context(request), filter_)
        last = page.runs[-1].id if page.more else None
        return await self.page_context.render_page(
            request,
            "runs",
            runs=page.runs,
            named=stage_name,
            states=STATES,
            filters=filter_,
            first=filter_.before is None,
            further=current_url_with(request, before=last) if last else None,
            newest=current_url_with(request, before=None),
        )
