"""Forms that save and delete views of the lists of plans, runs and audit entries."""

from dataclasses import dataclass
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.accounts.saved_views import delete_view, save_view
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm
from waybook.transport.http.dashboard.view_bar import PARAMETERS, view_query
from waybook.transport.http.html.forms import read_form


@dataclass(frozen=True, slots=True)
class SavedViews:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        form = SubmittedForm(await read_form(request))
        page, name = form.text("page"), form.text("name")
        if page not in PARAMETERS:
            raise HTTPException(HTTPStatus.BAD_REQUEST)
        query = view_query(page, form.text("query"))
        path = f"/{page}?{query}" if query else f"/{page}"
        ctx = await self.page_context.request_context(request)
        if form.text("act") == "delete":
            await delete_view(ctx, page, name)
            return RedirectResponse(path, HTTPStatus.SEE_OTHER)
        try:
            await save_view(ctx, page, name, query)
        except InvalidInput as refused:
            return await self.page_context.render_page(
                request,
                "save_view",
                status_code=HTTPStatus.BAD_REQUEST,
                page=page,
                typed_name=name,
                saved_query=query,
                back=path,
                error=refused.message,
            )
        return RedirectResponse(path, HTTPStatus.SEE_OTHER)
