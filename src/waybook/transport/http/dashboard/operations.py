"""Pages about the server and its use: health, statistics of tool calls, cost, users and tokens.

A token is shown only once, in the response to the form that created it.
"""

import asyncio
from datetime import timedelta
from typing import Final

from starlette.responses import Response

from waybook.accounts.model import NewUser
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
from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.operations.diagnostics import (
    about_loops,
    about_quarantine,
    check_machine,
    check_notifications,
    check_server,
    check_webhooks,
)
from waybook.app.operations.settings_display import effective_settings
from waybook.app.queries.usage import MAX_COUNTED, count_calls, count_deliveries
from waybook.app.request.caller import require_scope
from waybook.app.request.request_context import RequestContext
from waybook.app.request.search_backend import search_backend
from waybook.core.actions import Facts, Kind
from waybook.core.decision_context import ReviewPolicy, Scope
from waybook.core.shown import Shown
from waybook.errors import InvalidInput, WaybookError
from waybook.settings import LoadedSettings
from waybook.transport.http.dashboard.page import PageRequest, SubmittedForm, is_number, redirect
from waybook.transport.http.html.layout import THEME_COOKIE, THEMES
from waybook.transport.http.responses import http_status, write_cookie

_WINDOWS: Final = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
_THEME_SECONDS: Final = 365 * 86_400


async def gallery_page(page: PageRequest) -> Response:
    """Show every component of the pages with sample values."""
    facts = Facts(Kind.PLAN, Shown.READY, failed=1, silent=1)
    states = [state for state in Shown if state is not Shown.UNKNOWN]
    return await page.render("gallery", facts=facts, states=states, url_with=page.url_with)


async def choose_theme(page: PageRequest) -> Response:
    """Store the theme that a person chose in a cookie. Any other value removes the choice."""
    form = await page.form()
    reply, theme = redirect(form.return_path), form.text("theme")
    chosen = theme if theme in THEMES else ""
    write_cookie(page.request, reply, THEME_COOKIE, chosen, _THEME_SECONDS if chosen else 0)
    return reply


async def health_page(loaded: LoadedSettings | None, page: PageRequest) -> Response:
    """Show the results of all checks and, if the server has one org, the effective settings."""
    ctx, services = await page.context(), page.dispatcher.services
    require_scope(ctx.caller, Scope.ADMIN, "looking at the server's health")
    search = await search_backend(services).capabilities(services.database, ctx.caller.org_id)
    findings = [
        *await check_server(ctx, with_size=False),
        CheckResult("search", CheckState.OK, search.describe),
        *about_loops(services.loops),
        await about_quarantine(ctx, everywhere=False),
        *check_notifications(
            await count_deliveries(ctx), configured=bool(services.notification_events)
        ),
    ]
    if loaded is not None:
        settings = loaded.settings
        findings += await asyncio.to_thread(
            lambda: [*check_machine(settings), check_webhooks(settings)]
        )
    return await page.render(
        "health",
        findings=findings,
        thresholds={
            "a step is stalled after": services.stall_threshold,
            "a job is released after": services.lease,
        },
        settings=effective_settings(loaded) if loaded else (),
    )


async def calls_page(page: PageRequest) -> Response:
    window = page.choice("window", _WINDOWS, "24h")
    ctx = await page.context()
    return await page.render(
        "calls",
        calls=await count_calls(ctx, _WINDOWS[window]),
        window=window,
        windows=tuple(_WINDOWS),
        most=MAX_COUNTED,
        dropped=page.dispatcher.calls.dropped_of[ctx.caller.org_id],
    )


_MAX_TOKEN_DAYS: Final = 3_650


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
        scopes=[*Scope],
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
    if text and not (is_number(text) and 1 <= int(text) <= _MAX_TOKEN_DAYS):
        raise InvalidInput(f"days must be 1 to {_MAX_TOKEN_DAYS}, or empty", argument="days")
    return int(text) if text else None
