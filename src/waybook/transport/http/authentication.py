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

from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel
from waybook.errors import RateLimited, Unauthenticated, WaybookError
from waybook.transport.http.bearer import (
    PresentedToken,
    challenge,
    insufficient_scope_header,
    read_bearer,
)
from waybook.transport.http.browser_session import SESSION, read_cookie
from waybook.transport.http.client_address import TrustedProxies, client_address_of
from waybook.transport.http.failed_credentials import FailedCredentials
from waybook.transport.http.html.error_pages import (
    error_page,
    redirect_page,
    requested_path,
    wants_html,
)
from waybook.transport.http.requests import http_status
from waybook.transport.http.responses import error_response, json_response, retry_after_header

#: Open to everybody: that we are there, and how to sign in.
PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz", "/sign-in"})
PUBLIC_PREFIXES: Final = ("/static/", "/sign-in/", "/.well-known/")
METRICS_PATH: Final = "/metrics"
#: Where programs come in, and by which door that is.
PROGRAM_CHANNELS: Final[Mapping[str, Channel]] = {"/mcp": Channel.MCP, "/api": Channel.REST}

#: Who shows this secret, coming through this door; refuses with `Unidentified`.
BearerAuthenticator = Callable[[str, Channel], Awaitable[Caller]]
#: Who sits at this browser, if they have signed in.
BrowserAuthenticator = Callable[[Request], Awaitable[Caller | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthGate:
    bearer: BearerAuthenticator
    #: Nobody, until people can sign in.
    browser: BrowserAuthenticator | None = None
    #: Where people sign in.
    sign_in: str | None = None
    #: What opens the figures, which are of all orgs; without it they are not there.
    metrics_token: str | None = None
    #: Where clients read how to get a token.
    metadata_url: str | None = None
    failures: FailedCredentials = field(default_factory=FailedCredentials)
    #: Proxies that are trusted to name the client's address.
    proxies: TrustedProxies = field(default_factory=TrustedProxies)

    def wrap(self, app: ASGIApp) -> ASGIApp:
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
        channel, shown = channel_for(request.url.path), read_bearer(request.scope)
        if is_for_browsers(request, shown):
            person = await self.browser(request) if self.browser else None
            if person is None:
                raise Unauthenticated
            return person
        if shown.secret is None:
            raise Unauthenticated
        return await self.bearer(shown.secret, channel)

    async def _refused(self, request: Request) -> Response | None:
        """The refusal, or nothing once we know who asks."""
        path = request.url.path
        if path == METRICS_PATH:
            return (
                None
                if self._opens_figures(request)
                else error_response(404, "NOT_FOUND", NO_CONTENT)
            )
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES):
            return None
        try:
            request.state.caller = await self._limited_caller(request)
        except Unauthenticated as error:
            return self._challenge(request, error)
        except RateLimited as error:
            return await self._too_many_failures(request, error)
        except WaybookError as error:
            return json_response(
                error.as_json(), http_status(error.code), insufficient_scope_header(error.details)
            )
        request.state.admitted_by = self
        return None

    async def _limited_caller(self, request: Request) -> Caller:
        """Return the caller; unknown secrets count against the address they come from.

        Raises:
            Unidentified: the request shows no valid credential.
            RateLimited: too many unknown secrets came from its address; this one was not looked up.
        """
        address, secret = client_address_of(request, self.proxies), secret_of(request)
        if not secret:
            return await self.caller(request)
        with self.failures.lookup(address, secret):
            return await self.caller(request)

    async def _too_many_failures(self, request: Request, error: RateLimited) -> Response:
        await self.failures.delay(client_address_of(request, self.proxies))
        headers = retry_after_header(error.details)
        if not wants_html(request):
            return json_response(error.as_json(), HTTPStatus.TOO_MANY_REQUESTS, headers)
        page = error_page(request, HTTPStatus.TOO_MANY_REQUESTS, error.message)
        page.headers.update(headers)
        return page

    def _opens_figures(self, request: Request) -> bool:
        secret = read_bearer(request.scope).secret or ""
        known = self.metrics_token
        return known is not None and hmac.compare_digest(secret.encode(), known.encode())

    def _challenge(self, request: Request, error: Unauthenticated) -> Response:
        if channel_for(request.url.path) is not Channel.DASHBOARD:
            shown = read_bearer(request.scope)
            headers = {"www-authenticate": challenge(shown, self.metadata_url)}
            return json_response(error.as_json(), HTTPStatus.UNAUTHORIZED, headers)
        headers = {"www-authenticate": challenge(PresentedToken(), self.metadata_url)}
        if not wants_html(request):
            return json_response(error.as_json(), HTTPStatus.UNAUTHORIZED, headers)
        if self.sign_in is None:
            page = error_page(request, HTTPStatus.UNAUTHORIZED, error.message)
            page.headers.update(headers)
            return page
        then = requested_path(request)
        if is_cross_site_navigation(request):
            return redirect_page(request, then)
        return RedirectResponse(f"{self.sign_in}?then={quote(then, safe='')}", HTTPStatus.SEE_OTHER)


NO_CONTENT: Final = "There is nothing at this address."


def is_for_browsers(request: Request, shown: PresentedToken) -> bool:
    """Return whether the session of a browser is asked for, not a bearer token."""
    is_page = channel_for(request.url.path) is Channel.DASHBOARD
    return is_page or (not shown.present and is_read_request(request))


def secret_of(request: Request) -> str:
    """Return the secret that a request is judged by; empty if it shows none."""
    shown = read_bearer(request.scope)
    return read_cookie(request, SESSION) if is_for_browsers(request, shown) else shown.secret or ""


def is_read_request(request: Request) -> bool:
    """Whether this only reads what pages link to: documents and outputs, for whoever signed in."""
    return request.method == "GET" and channel_for(request.url.path) is Channel.REST


def is_cross_site_navigation(request: Request) -> bool:
    """Whether somebody followed a link on another site's page: their session is not sent then."""
    return request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"


def channel_for(path: str) -> Channel:
    """By which door a request comes."""
    for place, channel in PROGRAM_CHANNELS.items():
        if path == place or path.startswith(f"{place}/"):
            return channel
    return Channel.DASHBOARD


async def authenticated_caller(request: Request | None) -> Caller:
    """Whoever the gate let in with this request.

    Raises:
        Unidentified: it came by no gate.
    """
    caller = getattr(request.state, "caller", None) if request is not None else None
    if not isinstance(caller, Caller):
        raise Unauthenticated
    return caller


async def reauthenticate(request: Request | None) -> bool:
    """Whether the gate would let them in again: for answers that go on for long.

    If that cannot be found out now, they may listen until it can.
    """
    gate = getattr(request.state, "admitted_by", None) if request is not None else None
    if request is None or not isinstance(gate, AuthGate):
        return True
    try:
        await gate.caller(request)
    except Unauthenticated:
        return False
    except WaybookError:
        return True
    return True
