"""Page of the org's users and API tokens.

A token is shown only once, in the response to the form that created it.
"""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from waybook.accounts.manage import NewUser
from waybook.app.accounts.members import (
    DEFAULT_DAYS,
    DEFAULT_SCOPES,
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
from waybook.transport.http.dashboard.page import PageRequest, SubmittedForm, redirect
from waybook.transport.http.responses import http_status

_MAX_TOKEN_DAYS: Final = 3_650
CONFIRMATIONS: Final = {
    "revoke": "Token revoked.",
    "policy": "Review policy saved.",
    "add_user": "User added. Create a token for them next.",
    "scopes": "Permissions saved.",
    "disable": "User disabled.",
    "enable": "User enabled.",
}
_SCOPE_LABELS: Final[Mapping[Scope, str]] = {
    Scope.PLAN_READ: "read",
    Scope.PLAN_WRITE: "work on plans",
    Scope.RUN_WRITE: "work on runs",
    Scope.REVIEW: "decide reviews",
    Scope.ADMIN: "administer the org (includes users and tokens)",
}


async def tokens_page(page: PageRequest) -> Response:
    shown: dict[str, object] = {"error": None, "issued": None, "confirming": None}
    typed, status = {"label": "", "name": ""}, 200
    if page.is_post:
        form = await page.form()
        try:
            done = await _act(await page.context(), form)
        except WaybookError as error:
            shown["error"], status = error.message, http_status(error.code)
            typed = {name: form.text(name) for name in typed}
        else:
            if not done:
                return redirect(f"/tokens?done={form.text('act')}")
            shown |= done
    members = await list_members(await page.context())
    return await page.render(
        "tokens",
        status=status,
        members=members,
        shown=shown,
        typed=typed,
        note=CONFIRMATIONS.get(page.request.query_params.get("done", "")),
        may=_SCOPE_LABELS,
        usual=DEFAULT_SCOPES,
        days=DEFAULT_DAYS,
        counting=lambda token: is_active(token, members.now),
        address=f"{page.dispatcher.services.base_url}/mcp",
    )


async def _act(ctx: RequestContext, form: SubmittedForm) -> dict[str, object]:
    """Carry out the submitted action. Return additional template values, such as a new token."""
    user, token_id = form.text("user"), form.text("id")
    match form.text("act"):
        case "create":
            named = user, form.text("label"), _scopes(form)
            return {"issued": await add_token(ctx, *named, days=_days(form))}
        case "revoke" if not form.text("confirmed"):
            return {"confirming": token_id}
        case "revoke":
            await revoke_token(ctx, token_id)
        case "policy":
            try:
                policy = ReviewPolicy(form.text("policy"))
            except ValueError:
                raise InvalidInput("choose who decides reviews", argument="policy") from None
            await change_org(ctx, policy=policy)
        case "add_user":
            await add_user(ctx, NewUser(name=form.text("name"), scopes=_scopes(form)))
        case "scopes":
            await change_scopes(ctx, user, _scopes(form))
        case "disable":
            await disable_user(ctx, user)
        case "enable":
            await enable_user(ctx, user)
        case _:
            raise InvalidInput("choose one of the buttons")
    return {}


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
    if not 1 <= days <= _MAX_TOKEN_DAYS:
        raise InvalidInput(f"days must be 1 to {_MAX_TOKEN_DAYS}, or empty", argument="days")
    return days
