"""One run: where it stands, what waits for a person, and what a person can do about it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.transport.mcp.refusals import code_of
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.dashboard.forms import read_form
from waybook.transport.web.dashboard.responding import error_message
from waybook.transport.web.dashboard.run_view import map_job, run_view, stage_name
from waybook.transport.web.reading import http_status
from waybook.usecases.exchange import Answer
from waybook.usecases.overlook_run import read_run_detail

#: What is said after something was done.
CONFIRMATIONS: Final = {
    "retry": "What failed has a fresh start; agents can take it again.",
    "regenerate": "A job to write the document anew is waiting for an agent.",
}


@dataclass(frozen=True, slots=True)
class RunPage:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The page."""
        return await self._page(request)

    async def retry(self, request: Request) -> Response:
        """A fresh start for what failed in a stage."""
        fields = await read_form(request)
        asked = {"stageSlug": _field(fields, "stage")}
        return await self._act(request, fields, "retry_failed", asked)

    async def regenerate(self, request: Request) -> Response:
        """A document written anew."""
        fields = await read_form(request)
        asked = {"documentId": _field(fields, "document")}
        return await self._act(request, fields, "regenerate_document", asked)

    async def _act(
        self, request: Request, fields: FormData, tool: str, asked: Mapping[str, object]
    ) -> Response:
        """Do it and show the page anew, or say on the page why it was refused."""
        run_id = request.path_params["run_id"]
        deed = request.url.path.rpartition("/")[2]
        named = {} if "documentId" in asked else {"runId": run_id}
        # The same form sent twice counts once; another form of the same page is another call.
        place = _field(fields, "stage") or _field(fields, "document")
        key = f"{_field(fields, 'key')[:64]}:{place}"[:200]
        answer = await self.desk.call_tool(request, tool, {**named, **asked, "idempotencyKey": key})
        if answer.is_error:
            return await self._page(request, answer)
        return RedirectResponse(f"/runs/{quote(run_id, safe='')}?done={deed}", HTTPStatus.SEE_OTHER)

    async def _page(self, request: Request, refused: Answer | None = None) -> Response:
        whole = await read_run_detail(
            await self.desk.request_context(request), request.path_params["run_id"]
        )
        piece = request.query_params.get("docs", "")
        page = int(piece) if piece.isdecimal() and len(piece) < 6 else 1  # noqa: PLR2004 - no run has more
        svg = await self.desk.picture(request, map_job(whole.overview))
        made = partial(run_view, whole, svg, page)
        view = await self.desk.run_layout(request, whole.overview.compiled_dag.dag, made)
        return await self.desk.render_page(
            request,
            "run",
            status_code=http_status(code_of(refused)) if refused else 200,
            view=view,
            refused=error_message(refused) if refused else None,
            named=stage_name,
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            key=secrets.token_urlsafe(16),
        )


def _field(fields: FormData, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
