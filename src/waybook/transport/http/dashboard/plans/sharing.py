"""Page that shares snapshots of a plan by link, and the snapshots themselves."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.accounts.links import LinkKind, link_reader
from waybook.app.operations.sharing import (
    DEFAULT_DAYS,
    MAX_DAYS,
    SHARED_PATH,
    create_snapshot_link,
    read_shared_plan,
    revoke_snapshot_link,
)
from waybook.app.queries.plans.plan_snapshot import (
    read_snapshot_entries,
    snapshot_file,
    style_hashes,
)
from waybook.app.request.layout_worker import LayoutWorker
from waybook.app.request.request_context import RequestContext
from waybook.errors import NotFound, WaybookError
from waybook.transport.http.dashboard.link_access import (
    LinkAccess,
    mark_private,
    reason_unusable,
)
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm
from waybook.transport.http.html.error_pages import error_page
from waybook.transport.http.html.forms import read_form
from waybook.transport.http.responses import http_status

#: Agents wrote the texts of a snapshot, so browsers must not run or load anything in it.
SNAPSHOT_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": (
        f"default-src 'none'; style-src {' '.join(style_hashes())}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; sandbox"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class SharePage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        plan_id = request.path_params["plan_id"]
        if request.method != "POST":
            return await self._page(request)
        form = SubmittedForm(await read_form(request))
        ctx = await self.page_context.request_context(request)
        try:
            if form.text("act") == "revoke":
                await revoke_snapshot_link(ctx, plan_id, form.text("link"))
                return RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)
            secret = await create_snapshot_link(ctx, plan_id, _days(form.text("days")))
        except NotFound:
            raise
        except WaybookError as error:
            status = http_status(error.code)
            return await self._page(
                request, error=error.message, days=form.text("days"), status=status
            )
        base = self.page_context.dispatcher.services.base_url
        return await self._page(request, link=f"{base}{SHARED_PATH}/{secret}")

    async def _page(
        self,
        request: Request,
        *,
        link: str | None = None,
        error: str | None = None,
        days: str = str(DEFAULT_DAYS),
        status: int = 200,
    ) -> Response:
        ctx = await self.page_context.request_context(request)
        plan = await read_shared_plan(ctx, request.path_params["plan_id"])
        return await self.page_context.render_page(
            request,
            "share",
            status_code=status,
            plan=plan,
            link=link,
            error=error,
            days=days,
            max_days=MAX_DAYS,
        )


def _days(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= len("365") else 0


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    access: LinkAccess

    async def __call__(self, request: Request) -> Response:
        return await self._snapshot(request, {})

    async def download(self, request: Request) -> Response:
        name = 'attachment; filename="waybook-snapshot.html"'
        return await self._snapshot(request, {"content-disposition": name})

    async def _snapshot(self, request: Request, headers: dict[str, str]) -> Response:
        link = await self.access.find(request, LinkKind.SNAPSHOT)
        if reason := reason_unusable(link):
            return mark_private(error_page(request, HTTPStatus.GONE, reason))
        caller = link_reader(link)
        self.access.dispatcher.require_capacity(caller)
        services = self.access.dispatcher.services
        ctx = RequestContext(services=services, caller=caller)
        entries = await read_snapshot_entries(ctx, link.plan_id or "", link.seq or 0)
        text = await services.shared(LayoutWorker).run(
            link.org_id,
            sum(len(entry.details) for entry in entries),
            lambda: snapshot_file(entries),
        )
        reply = Response(text, media_type="text/html", headers={**SNAPSHOT_HEADERS, **headers})
        return mark_private(reply)
