"""Saved views of the lists of plans, runs and audit entries."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.accounts.saved_views import MAX_NAME_LENGTH, delete_view, list_views, save_view
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm
from waybook.transport.http.html.forms import read_form

#: For each list, the query parameters that a saved view stores; page cursors are not stored.
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "plans": ("state", "q", "mine"),
        "runs": ("state", "dag", "q"),
        "audit": ("subject", "event", "actor", "session", "channel", "since", "until"),
    }
)
#: Maximum number of query parameters in a submitted view.
MAX_PARAMETERS: Final = 30


class ViewLink(NamedTuple):
    """Link to a saved view."""

    name: str
    path: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBar:
    """Saved views of a list, and the current filter of the list."""

    page: str
    views: tuple[ViewLink, ...]
    #: Query string of the current filter; empty if no filter is set.
    query: str
    max_length: int = MAX_NAME_LENGTH


async def view_bar(page_context: PageContext, request: Request, page: str) -> ViewBar:
    """Return the user's saved views of a list, and the current filter."""
    views = await list_views(await page_context.request_context(request), page)
    current = view_query(page, request.url.query)
    return ViewBar(
        page=page,
        views=tuple(
            ViewLink(view.name, f"/{page}?{view.query}", view.query == current) for view in views
        ),
        query=current,
    )


def view_query(page: str, query: str) -> str:
    """Return the part of a query string that is a filter of the list, in a fixed order.

    >>> view_query("plans", "q=a+b&before=1&state=failed&mine=")
    'state=failed&q=a+b'
    """
    try:
        fields = dict(parse_qsl(query, max_num_fields=MAX_PARAMETERS))
    except ValueError:
        return ""
    return urlencode({name: fields[name] for name in PARAMETERS[page] if fields.get(name)})


@dataclass(frozen=True, slots=True)
class SavedViews:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        """Save or delete a view, and redirect to its list; a refused name is shown again."""
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
