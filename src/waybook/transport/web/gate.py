"""Nobody comes in whom we do not know: server mode's guard before every route.

Programs show a bearer token in the header, people a session; which of them is asked is said by
the address. Who it is, is found once for each request, and stands in its state. Long answers ask
again, whether whoever listens still may.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from waybook.errors import RateLimited, Unidentified, WaybookError
from waybook.record.moment import Channel
from waybook.transport.web.bearer import Shown, challenge, lacking, shown_in
from waybook.transport.web.cookies import SESSION, kept
from waybook.transport.web.dashboard.going_on import asked_for_here, going_on
from waybook.transport.web.dashboard.mishaps import error_page, for_people
from waybook.transport.web.failed_credentials import FailedCredentials
from waybook.transport.web.proxies import Proxies, origin_of
from waybook.transport.web.reading import status_of
from waybook.transport.web.replies import json_reply, refusal, retry_header
from waybook.usecases.exchange import Caller

#: Open to everybody: that we are there, and how to sign in.
OPEN: Final = frozenset({"/healthz", "/readyz", "/sign-in"})
OPEN_BELOW: Final = ("/static/", "/sign-in/", "/.well-known/")
METRICS: Final = "/metrics"
#: Where programs come in, and by which door that is.
PROGRAMS: Final[Mapping[str, Channel]] = {"/mcp": Channel.MCP, "/api": Channel.REST}

#: Who shows this secret, coming through this door; refuses with `Unidentified`.
ByBearer = Callable[[str, Channel], Awaitable[Caller]]
#: Who sits at this browser, if they have signed in.
ByBrowser = Callable[[Request], Awaitable[Caller | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    bearer: ByBearer
    #: Nobody, until people can sign in.
    browser: ByBrowser | None = None
    #: Where people sign in.
    sign_in: str | None = None
    #: What opens the figures, which are of all orgs; without it they are not there.
    metrics_token: str | None = None
    #: Where clients read how to get a token.
    metadata_url: str | None = None
    failures: FailedCredentials = field(default_factory=FailedCredentials)
    #: Proxies that are trusted to name the client's address.
    proxies: Proxies = field(default_factory=Proxies)

    def before(self, app: ASGIApp) -> ASGIApp:
        """The app, for those we know."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            scope = {**scope, "state": {**scope.get("state", {})}}
            refused = await self._refused(Request(scope))
            await (refused or app)(scope, receive, send)

        return guarded

    async def caller(self, request: Request) -> Caller:
        """Whoever shows what this request shows.

        Raises:
            Unidentified: nobody we know.
            Unavailable: that cannot be found out now.
        """
        channel, shown = door_of(request.url.path), shown_in(request.scope)
        if is_for_browsers(request, shown):
            person = await self.browser(request) if self.browser else None
            if person is None:
                raise Unidentified
            return person
        if shown.secret is None:
            raise Unidentified
        return await self.bearer(shown.secret, channel)

    async def _refused(self, request: Request) -> Response | None:
        """The refusal, or nothing once we know who asks."""
        path = request.url.path
        if path == METRICS:
            return None if self._opens_figures(request) else refusal(404, "NOT_FOUND", NOTHING)
        if path in OPEN or path.startswith(OPEN_BELOW):
            return None
        try:
            request.state.caller = await self._limited_caller(request)
        except Unidentified as fault:
            return self._challenge(request, fault)
        except RateLimited as fault:
            return await self._too_many_failures(request, fault)
        except WaybookError as fault:
            return json_reply(fault.as_json(), status_of(fault.code), lacking(fault.details))
        request.state.admitted_by = self
        return None

    async def _limited_caller(self, request: Request) -> Caller:
        """Return the caller; unknown secrets count against the address they come from.

        Raises:
            Unidentified: the request shows no valid credential.
            RateLimited: too many unknown secrets came from its address; this one was not looked up.
        """
        address, secret = origin_of(request, self.proxies), secret_of(request)
        if not secret:
            return await self.caller(request)
        with self.failures.lookup(address, secret):
            return await self.caller(request)

    async def _too_many_failures(self, request: Request, fault: RateLimited) -> Response:
        await self.failures.delay(origin_of(request, self.proxies))
        headers = retry_header(fault.details)
        if not for_people(request):
            return json_reply(fault.as_json(), HTTPStatus.TOO_MANY_REQUESTS, headers)
        page = error_page(request, HTTPStatus.TOO_MANY_REQUESTS, fault.message)
        page.headers.update(headers)
        return page

    def _opens_figures(self, request: Request) -> bool:
        secret = shown_in(request.scope).secret or ""
        known = self.metrics_token
        return known is not None and hmac.compare_digest(secret.encode(), known.encode())

    def _challenge(self, request: Request, fault: Unidentified) -> Response:
        if door_of(request.url.path) is not Channel.DASHBOARD:
            shown = shown_in(request.scope)
            headers = {"www-authenticate": challenge(shown, self.metadata_url)}
            return json_reply(fault.as_json(), HTTPStatus.UNAUTHORIZED, headers)
        headers = {"www-authenticate": challenge(Shown(), self.metadata_url)}
        if not for_people(request):
            return json_reply(fault.as_json(), HTTPStatus.UNAUTHORIZED, headers)
        if self.sign_in is None:
            page = error_page(request, HTTPStatus.UNAUTHORIZED, fault.message)
            page.headers.update(headers)
            return page
        then = asked_for_here(request)
        if is_link_from_elsewhere(request):
            return going_on(request, then)
        return RedirectResponse(f"{self.sign_in}?then={quote(then, safe='')}", HTTPStatus.SEE_OTHER)


NOTHING: Final = "There is nothing at this address."


def is_for_browsers(request: Request, shown: Shown) -> bool:
    """Return whether the session of a browser is asked for, not a bearer token."""
    is_page = door_of(request.url.path) is Channel.DASHBOARD
    return is_page or (not shown.tried and is_look(request))


def secret_of(request: Request) -> str:
    """Return the secret that a request is judged by; empty if it shows none."""
    shown = shown_in(request.scope)
    return kept(request, SESSION) if is_for_browsers(request, shown) else shown.secret or ""


def is_look(request: Request) -> bool:
    """Whether this only reads what pages link to: documents and outputs, for whoever signed in."""
    return request.method == "GET" and door_of(request.url.path) is Channel.REST


def is_link_from_elsewhere(request: Request) -> bool:
    """Whether somebody followed a link on another site's page: their session is not sent then."""
    return request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"


def door_of(path: str) -> Channel:
    """By which door a request comes."""
    for place, channel in PROGRAMS.items():
        if path == place or path.startswith(f"{place}/"):
            return channel
    return Channel.DASHBOARD


async def admitted(request: Request | None) -> Caller:
    """Whoever the gate let in with this request.

    Raises:
        Unidentified: it came by no gate.
    """
    caller = getattr(request.state, "caller", None) if request is not None else None
    if not isinstance(caller, Caller):
        raise Unidentified
    return caller


async def still_admitted(request: Request | None) -> bool:
    """Whether the gate would let them in again: for answers that go on for long.

    If that cannot be found out now, they may listen until it can.
    """
    gate = getattr(request.state, "admitted_by", None) if request is not None else None
    if request is None or not isinstance(gate, Gate):
        return True
    try:
        await gate.caller(request)
    except Unidentified:
        return False
    except WaybookError:
        return True
    return True
