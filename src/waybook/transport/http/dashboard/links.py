"""Pages that a secret link opens without sign-in, and the page that shares snapshots.

Chat services and mail filters open links to preview them, so opening a link changes nothing. Only
the form on the page decides a review or gives feedback.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.responses import Response

from waybook.app.accounts.authentication import (
    AccessLink,
    LinkKind,
    find_link,
    link_decider,
    link_reader,
)
from waybook.app.operations.sharing import (
    DEFAULT_DAYS,
    MAX_DAYS,
    read_shared_plan,
    revoke_snapshot_link,
    share_plan,
)
from waybook.app.queries.plans.plan_snapshot import (
    read_snapshot_entries,
    snapshot_file,
    style_hashes,
)
from waybook.app.request.layout_worker import LayoutWorker
from waybook.app.request.request_context import RequestContext
from waybook.errors import NotFound, Unauthenticated, WaybookError
from waybook.integrations.config import Proxies
from waybook.transport.http.authentication import is_cross_site_navigation
from waybook.transport.http.dashboard.inbox import (
    DECISION_TEXT,
    Card,
    read_review_card,
    read_stage_card,
    send_decision,
    typed_input,
)
from waybook.transport.http.dashboard.page import PageRequest, is_number, redirect
from waybook.transport.http.html.layout import error_page, redirect_page, render_form
from waybook.transport.http.rate_limits import FailedCredentials, client_address_of
from waybook.transport.http.responses import http_status

#: Agents wrote the texts of a snapshot, so browsers must not run or load anything in it.
_SNAPSHOT_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": (
        f"default-src 'none'; style-src {' '.join(style_hashes())}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; sandbox"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
}

#: Returns the link whose secret is in the path of a request.
FindLink: TypeAlias = Callable[[PageRequest, LinkKind], Awaitable[AccessLink]]


async def find_by_secret(
    proxies: Proxies, failures: FailedCredentials, page: PageRequest, kind: LinkKind
) -> AccessLink:
    """Return the link whose secret is in the path, even if the link is expired or revoked.

    Raises:
        NotFound: no link has this secret.
        RateLimited: too many unknown links were requested from the client's address.
    """
    secret = page.path("snapshot" if kind is LinkKind.SNAPSHOT else "secret")
    try:
        with failures.lookup(client_address_of(page.request, proxies), secret):
            return await find_link(page.dispatcher.services, secret, kind)
    except Unauthenticated:
        raise NotFound("there is no such link; it may be incomplete") from None


def _reason_unusable(link: AccessLink) -> str | None:
    if link.is_revoked:
        return "This link was revoked."
    return "This link has expired." if link.is_expired else None


def _private(reply: Response) -> Response:
    """Keep search engines from indexing a page that a link opens."""
    reply.headers["x-robots-tag"] = "noindex, nofollow, noarchive"
    return reply


def _context(page: PageRequest, link: AccessLink) -> RequestContext:
    return RequestContext(services=page.dispatcher.services, caller=link_reader(link))


async def link_page(kind: LinkKind, find: FindLink, page: PageRequest) -> Response:
    """Show a review or a completed stage. Store the decision or feedback of a submitted form."""
    request, is_review = page.request, kind is LinkKind.REVIEW
    if is_cross_site_navigation(request):
        # After a link on another site, the browser sends no session cookie. It sends the cookie
        # when our own page redirects it to the same URL.
        return _private(redirect_page(request, request.url.path))
    decision = page.path("decision") if is_review else ""
    if is_review and decision not in DECISION_TEXT:
        raise NotFound("there is no such decision; open the link in the message again")
    link = await find(page, kind)
    page.dispatcher.require_capacity(link_reader(link))
    feedback = (await page.form()).text("feedback") if page.is_post else ""
    typed, status, reason = typed_input(feedback), int(HTTPStatus.OK), _reason_unusable(link)
    if page.is_post and not reason:
        typed, status = await _submit(page, link, decision, feedback)
        if status == HTTPStatus.OK:
            return redirect(request.url.path)
    shown: Card = {"link": link, "reason": reason, "decision": decision}
    if not reason:
        ctx, late = _context(page, link), status == HTTPStatus.CONFLICT
        if is_review:
            card = await read_review_card(ctx, link.review_id or "", typed, too_late=late)
        else:
            named = link.run_id or "", link.stage or ""
            card = await read_stage_card(ctx, *named, typed, too_late=late)
        base = request.url.path.rpartition("/")[0]
        shown |= {"card": card, "now": card["now"], "base": base}
    template, code = "action_link" if is_review else "feedback_link", reason and HTTPStatus.GONE
    return _private(render_form(request, template, shown, status_code=code or status))


async def _submit(
    page: PageRequest, link: AccessLink, decision: str, feedback: str
) -> tuple[Card, int]:
    named = {"runId": link.run_id, "stageSlug": link.stage}
    if decision:
        named = {"planId": link.plan_id, "reviewId": link.review_id, "decision": decision}
    dispatch = partial(page.dispatcher.dispatch, link_decider(link))
    return await send_decision(dispatch, named, feedback)


async def share_page(page: PageRequest) -> Response:
    plan_id, ctx = page.path("plan_id"), await page.context()
    link, error, days, status = None, None, str(DEFAULT_DAYS), 200
    if page.is_post:
        form = await page.form()
        typed = form.text("days")
        try:
            if form.text("act") == "revoke":
                await revoke_snapshot_link(ctx, plan_id, form.text("link"))
                return redirect(page.request.url.path)
            number = int(typed) if is_number(typed) else 0
            link = await share_plan(ctx, plan_id, number, page.dispatcher.services.base_url)
        except NotFound:
            raise
        except WaybookError as refused:
            error, days, status = refused.message, typed, http_status(refused.code)
    return await page.render(
        "share",
        status=status,
        plan=await read_shared_plan(ctx, plan_id),
        link=link,
        error=error,
        days=days,
        max_days=MAX_DAYS,
    )


async def snapshot_page(find: FindLink, page: PageRequest) -> Response:
    link = await find(page, LinkKind.SNAPSHOT)
    if reason := _reason_unusable(link):
        return _private(error_page(page.request, HTTPStatus.GONE, reason))
    ctx = _context(page, link)
    page.dispatcher.require_capacity(ctx.caller)
    entries = await read_snapshot_entries(ctx, link.plan_id or "", link.seq or 0)
    text = await ctx.services.shared(LayoutWorker).run(
        link.org_id, sum(len(entry.details) for entry in entries), lambda: snapshot_file(entries)
    )
    return _private(Response(text, media_type="text/html", headers=_SNAPSHOT_HEADERS))


async def snapshot_download(find: FindLink, page: PageRequest) -> Response:
    reply = await snapshot_page(find, page)
    if reply.status_code == HTTPStatus.OK:
        reply.headers["content-disposition"] = 'attachment; filename="waybook-snapshot.html"'
    return reply
