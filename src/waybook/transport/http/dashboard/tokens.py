"""Page of the org's users and API tokens.

A token is shown only once, in the response to the form that created it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.accounts.manage import NewUser
from waybook.accounts.model import Token
from waybook.app.accounts.members import (
    DEFAULT_DAYS,
    DEFAULT_SCOPES,
    IssuedToken,
    TokenRequest,
    add_token,
    add_user,
    change_org,
    change_scopes,
    disable_user,
    enable_user,
    is_active,
    list_members,
    revoke_token,
)
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import ReviewPolicy, Scope
from waybook.errors import InvalidInput, WaybookError
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm
from waybook.transport.http.html.forms import read_form
from waybook.transport.http.responses import http_status

MAX_TOKEN_DAYS: Final = 3_650
CONFIRMATIONS: Final = {
    "revoke": "Token revoked.",
    "policy": "Review policy saved.",
    "add_user": "User added. Create a token for them next.",
    "scopes": "Permissions saved.",
    "disable": "User disabled.",
    "enable": "User enabled.",
}
SCOPE_LABELS: Final[Mapping[Scope, str]] = {
    Scope.PLAN_READ: "read",
    Scope.PLAN_WRITE: "work on plans",
    Scope.RUN_WRITE: "work on runs",
    Scope.REVIEW: "decide reviews",
    Scope.ADMIN: "administer the org (includes users and tokens)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensView:
    error: str | None = None
    issued: IssuedToken | None = None
    confirming: str | None = None
    typed: Mapping[str, str] = field(default_factory=dict)
    status: int = HTTPStatus.OK


@dataclass(frozen=True, slots=True)
class TokensPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        if request.method != "POST":
            return await self._page(request, TokensView())
        form = SubmittedForm(await read_form(request))
        act, call = form.text("act"), await self.page_context.request_context(request)
        try:
            shown = await FORM_ACTIONS.get(act, _unclear)(call, form)
        except WaybookError as error:
            typed = {name: form.text(name) for name in ("label", "name")}
            status = http_status(error.code)
            shown = TokensView(error=error.message, typed=typed, status=status)
        if shown is None:
            return RedirectResponse(f"/tokens?done={act}", HTTPStatus.SEE_OTHER)
        return await self._page(request, shown)

    async def _page(self, request: Request, shown: TokensView) -> Response:
        members = await list_members(await self.page_context.request_context(request))

        def counting(token: Token) -> bool:
            return is_active(token, members.now)

        return await self.page_context.render_page(
            request,
            "tokens",
            status_code=shown.status,
            members=members,
            shown=shown,
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            may=SCOPE_LABELS,
            usual=DEFAULT_SCOPES,
            days=DEFAULT_DAYS,
            counting=counting,
            address=f"{self.page_context.dispatcher.services.base_url}/mcp",
        )


FormAction = Callable[[RequestContext, SubmittedForm], Awaitable[TokensView | None]]


async def _create(ctx: RequestContext, form: SubmittedForm) -> TokensView:
    token_request = TokenRequest(
        user=form.text("user"), label=form.text("label"), scopes=_scopes(form), days=_days(form)
    )
    return TokensView(issued=await add_token(ctx, token_request))


async def _revoke(ctx: RequestContext, form: SubmittedForm) -> TokensView | None:
    token_id = form.text("id")
    if not form.text("confirmed"):
        return TokensView(confirming=token_id)
    await revoke_token(ctx, token_id)
    return None


async def _policy(ctx: RequestContext, form: SubmittedForm) -> None:
    try:
        policy = ReviewPolicy(form.text("policy"))
    except ValueError:
        raise InvalidInput("choose who decides reviews", argument="policy") from None
    await change_org(ctx, policy=policy)


async def _add_user(ctx: RequestContext, form: SubmittedForm) -> None:
    await add_user(ctx, NewUser(name=form.text("name"), scopes=_scopes(form)))


async def _change_scopes(ctx: RequestContext, form: SubmittedForm) -> None:
    await change_scopes(ctx, form.text("user"), _scopes(form))


async def _disable(ctx: RequestContext, form: SubmittedForm) -> None:
    await disable_user(ctx, form.text("user"))


async def _enable(ctx: RequestContext, form: SubmittedForm) -> None:
    await enable_user(ctx, form.text("user"))


async def _unclear(_: RequestContext, __: SubmittedForm) -> TokensView:
    raise InvalidInput("choose one of the buttons")


FORM_ACTIONS: Final[Mapping[str, FormAction]] = {
    "create": _create,
    "revoke": _revoke,
    "policy": _policy,
    "add_user": _add_user,
    "scopes": _change_scopes,
    "disable": _disable,
    "enable": _enable,
}


def _scopes(form: SubmittedForm) -> tuple[Scope, ...]:
    known = {str(scope): scope for scope in Scope}
    chosen = form.fields.getlist("scope")
    if any(word not in known for word in chosen):
        raise InvalidInput("choose only scopes from the list", argument="scope")
    return tuple(known[str(word)] for word in chosen)


def _days(form: SubmittedForm) -> int | None:
    text = form.text("days").strip()
    if not text:
        return None
    days = int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 0  # noqa: PLR2004 - of four digits
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise InvalidInput(f"days must be 1 to {MAX_TOKEN_DAYS}, or empty", argument="days")
    return days
