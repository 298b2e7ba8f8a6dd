"""Authentication of every HTTP request in server mode.

Programs send a bearer token, and browsers send a session cookie. The path decides which one is
required.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.accounts.lookup import CachedCaller
from waybook.app.operations.sharing import SHARED_PATH
from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel
from waybook.errors import Busy, RateLimited, Unauthenticated, Unavailable, WaybookError
from waybook.integrations.config import Proxies
from waybook.notifications.delivery import ACTION_PATH
from waybook.transport.gateway import FAULT, request_state
from waybook.transport.http.bearer import challenge, read_bearer
from waybook.transport.http.browser_session import SESSION, read_cookie
from waybook.transport.http.html.layout import error_page, redirect_page, requested_path, wants_html
from waybook.transport.http.rate_limits import FailedCredentials
from waybook.transport.http.request_checks import client_address_of
from waybook.transport.http.requests import answer_error_response
from waybook.transport.http.response_send import expect_caller
from waybook.transport.http.responses import error_response, json_response, retry_after_header

#: Paths without authentication: health checks, sign-in, and links with their own secret.
PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz", "/sign-in"})
PUBLIC_PREFIXES: Final = (
    *("/static/", "/sign-in/", "/.well-known/"),
    *(f"{ACTION_PATH}/", f"{SHARED_PATH}/"),
)
_METRICS_PATH: Final = "/metrics"
_PROGRAM_CHANNELS: Final[Mapping[str, Channel]] = {"/mcp": Channel.MCP, "/api": Channel.REST}

_BearerAuthenticator = Callable[[str, Channel], Awaitable[Caller]]
#: Returns the cached caller of a bearer token. The token must still be checked in the database.
_CachedBearer = Callable[[str, Channel], CachedCaller | None]
_BrowserAuthenticator = Callable[[Request], Awaitable[Caller | None]]


#: Paths of tool calls. The first database query of a tool call also checks the credential.
_CHECKED_PATHS: Final = frozenset({"/mcp", "/mcp/"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthGate:
    bearer: _BearerAuthenticator
    cached_bearer: _CachedBearer | None = None
    browser: _BrowserAuthenticator | None = None
    sign_in: str | None = None
    #: Token for reading the metrics of all orgs. Without a token, metrics are not served.
    metrics_token: str | None = None
    metadata_url: str | None = None
    failures: FailedCredentials = field(default_factory=FailedCredentials)
    proxies: Proxies = ()

    async def refusal(self, request: Request) -> Response | None:
        """Authenticate a request. Return an error response, or None to proceed.

        A cached token is checked later, by the call's first database query.
        """
        if request.scope["path"] in _CHECKED_PATHS and request.scope["method"] == "POST":
            secret = read_bearer(request.scope)
            known = (
                self.cached_bearer(secret, Channel.MCP) if self.cached_bearer and secret else None
            )
            if known is not None:
                expect_caller(request, known, self._refused, admitted_by=self)
                return None
        return await self._refused(request)

    async def caller(self, request: Request) -> Caller:
        channel, secret = channel_for(request.url.path), read_bearer(request.scope)
        if _is_for_browsers(request, secret):
            person = await self.browser(request) if self.browser else None
            if person is None:
                raise Unauthenticated
            return person
        if not secret:
            raise Unauthenticated
        return await self.bearer(secret, channel)

    async def _refused(self, request: Request) -> Response | None:
        path = request.url.path
        if path == _METRICS_PATH:
            hidden = error_response(404, "NOT_FOUND", "There is nothing at this address.")
            return None if self._may_read_metrics(request) else hidden
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES):
            return None
        try:
            request.state.caller = await self._limited_caller(request)
        except Unauthenticated as error:
            return self._challenge(request, error)
        except RateLimited as error:
            return await self._too_many_failures(request, error)
        except WaybookError as error:
            if isinstance(error, Busy | Unavailable):
                setattr(request.state, FAULT, error)
            return answer_error_response(error.as_json())
        request.state.admitted_by = self
        return None

    async def _limited_caller(self, request: Request) -> Caller:
        address, secret = client_address_of(request, self.proxies), read_bearer(request.scope)
        if _is_for_browsers(request, secret):
            secret = read_cookie(request, SESSION)
        if not secret:
            return await self.caller(request)
        await self.failures.wait_for_lookup(secret)
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

    def _may_read_metrics(self, request: Request) -> bool:
        secret = read_bearer(request.scope) or ""
        known = self.metrics_token
        return known is not None and hmac.compare_digest(secret.encode(), known.encode())

    def _challenge(self, request: Request, error: Unauthenticated) -> Response:
        if channel_for(request.url.path) is not Channel.DASHBOARD:
            token = read_bearer(request.scope)
            headers = {"www-authenticate": challenge(token, self.metadata_url)}
            return json_response(error.as_json(), HTTPStatus.UNAUTHORIZED, headers)
        headers = {"www-authenticate": challenge(None, self.metadata_url)}
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


def _is_for_browsers(request: Request, token: str | None) -> bool:
    """Return whether the request needs a browser session rather than a bearer token."""
    is_page = channel_for(request.url.path) is Channel.DASHBOARD
    return is_page or (token is None and is_read_request(request))


def is_read_request(request: Request) -> bool:
    return request.method == "GET" and channel_for(request.url.path) is Channel.REST


def is_cross_site_navigation(request: Request) -> bool:
    """Return whether the user followed a link on another site.

    The browser then sends no session cookie.
    """
    return request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"


def channel_for(path: str) -> Channel:
    for place, channel in _PROGRAM_CHANNELS.items():
        if path == place or path.startswith(f"{place}/"):
            return channel
    return Channel.DASHBOARD


async def authenticated_caller(request: Request | None) -> Caller:
    caller = request_state(request).get("caller")
    if not isinstance(caller, Caller):
        raise Unauthenticated
    return caller


async def reauthenticate(request: Request | None) -> bool:
    """Return whether the credential of a long-lived request is still valid.

    If the credential cannot be checked now, return True.
    """
    gate = request_state(request).get("admitted_by")
    if request is None or not isinstance(gate, AuthGate):
        return True
    try:
        await gate.caller(request)
    except Unauthenticated:
        return False
    except WaybookError:
        return True
    return True
