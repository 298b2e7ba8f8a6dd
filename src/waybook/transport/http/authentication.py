"""Authentication of every HTTP request in server mode.

Programs send a bearer token (RFC 6750), and browsers send a session cookie. The path decides which
one is required.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope as RequestScope

from waybook.app.accounts.authentication import CachedCaller
from waybook.app.operations.sharing import SHARED_PATH
from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel, Scope
from waybook.errors import Busy, RateLimited, Unauthenticated, Unavailable, WaybookError
from waybook.integrations.config import IssuerSettings, Proxies
from waybook.notifications.delivery import ACTION_PATH
from waybook.transport.gateway import FAULT, request_state
from waybook.transport.http.connection import expect_caller
from waybook.transport.http.html.layout import (
    error_page,
    error_reply,
    redirect_page,
    requested_path,
    wants_html,
)
from waybook.transport.http.rate_limits import (
    FailedCredentials,
    client_address_of,
    signed_in_caller,
)
from waybook.transport.http.responses import (
    REALM,
    answer_error_response,
    error_response,
    json_response,
    write_cookie,
)

#: Paths without authentication: health checks, sign-in, and links with their own secret.
PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz", "/sign-in"})
PUBLIC_PREFIXES: Final = (
    *("/static/", "/sign-in/", "/.well-known/"),
    *(f"{ACTION_PATH}/", f"{SHARED_PATH}/"),
)
_METRICS_PATH: Final = "/metrics"
_PROGRAM_CHANNELS: Final[Mapping[str, Channel]] = {"/mcp": Channel.MCP, "/api": Channel.REST}

#: Paths of tool calls. The first database query of a tool call also checks the credential.
_CHECKED_PATHS: Final = frozenset({"/mcp", "/mcp/"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthGate:
    bearer: Callable[[str, Channel], Awaitable[Caller]]
    #: Returns the cached caller of a bearer token. The database must still check the token.
    cached_bearer: Callable[[str, Channel], CachedCaller | None] | None = None
    browser: Callable[[Request], Awaitable[Caller | None]] | None = None
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
            cached = self.cached_bearer if secret else None
            if cached and secret and (known := cached(secret, Channel.MCP)):
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
            return self._metrics_refusal(request)
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES):
            return None
        try:
            secret = read_bearer(request.scope)
            if _is_for_browsers(request, secret):
                secret = read_cookie(request, SESSION)
            check: AbstractContextManager[None] = nullcontext()
            if secret:
                await self.failures.wait_for_lookup(secret)
                check = self.failures.lookup(client_address_of(request, self.proxies), secret)
            with check:
                request.state.caller = await self.caller(request)
        except Unauthenticated as error:
            return self._challenge(request, error)
        except RateLimited as error:
            await self.failures.delay(client_address_of(request, self.proxies))
            return error_reply(request, error)
        except WaybookError as error:
            if isinstance(error, Busy | Unavailable):
                setattr(request.state, FAULT, error)
            return answer_error_response(error.as_json())
        request.state.admitted_by = self
        return None

    def _metrics_refusal(self, request: Request) -> Response | None:
        known, secret = self.metrics_token, read_bearer(request.scope) or ""
        if known is not None and hmac.compare_digest(secret.encode(), known.encode()):
            return None
        return error_response(404, "NOT_FOUND", "There is nothing at this address.")

    def _challenge(self, request: Request, error: Unauthenticated) -> Response:
        is_page = channel_for(request.url.path) is Channel.DASHBOARD
        token = None if is_page else read_bearer(request.scope)
        headers = {"www-authenticate": challenge(token, self.metadata_url)}
        if not wants_html(request):
            return json_response(error.as_json(), HTTPStatus.UNAUTHORIZED, headers)
        if self.sign_in is None:
            return error_page(request, HTTPStatus.UNAUTHORIZED, error.message, headers)
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
    """Return whether the browser follows a link on another site, and so sends no session cookie."""
    return request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"


def channel_for(path: str) -> Channel:
    for place, channel in _PROGRAM_CHANNELS.items():
        if path == place or path.startswith(f"{place}/"):
            return channel
    return Channel.DASHBOARD


async def authenticated_caller(request: Request | None) -> Caller:
    caller = signed_in_caller(request)
    if caller is None:
        raise Unauthenticated
    return caller


async def reauthenticate(request: Request | None) -> bool:
    """Return whether a long request may go on: its credential is valid or cannot be checked now."""
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


_BEARER: Final = re.compile(r"bearer(?: +(?P<secret>.*))?", re.IGNORECASE | re.ASCII | re.DOTALL)


def read_bearer(scope: RequestScope) -> str | None:
    """Return the token in the `Authorization` header: None if absent, empty if malformed.

    A request with two such headers is rejected, because a proxy may have checked only one of them.
    """
    values = [v.decode("latin-1") for name, v in scope["headers"] if name == b"authorization"]
    if not values:
        return None
    matched = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if len(values) > 1 or matched is None:
        return "" if len(values) > 1 else None
    return matched["secret"] or ""


def challenge(token: str | None, metadata_url: str | None = None) -> str:
    """Return the `WWW-Authenticate` header for a missing, malformed or invalid token.

    >>> challenge(None), challenge("").partition(", ")[2].partition(", ")[0]
    ('Bearer realm="waybook"', 'error="invalid_token"')
    """
    parts = [REALM]
    if token is not None:
        parts.append('error="invalid_token"')
        parts.append('error_description="The token is unknown, malformed, expired or revoked"')
    if metadata_url is not None:
        parts.append(f'resource_metadata="{metadata_url}"')
    return ", ".join(parts)


_WELL_KNOWN_PATH: Final = "/.well-known/oauth-protected-resource"


def metadata_url(settings: IssuerSettings) -> str:
    return f"{settings.resource.removesuffix('/mcp')}{_WELL_KNOWN_PATH}/mcp"


def metadata_routes(settings: IssuerSettings) -> list[Route]:
    """Return the routes of the metadata that tells clients how to sign in at `/mcp`.

    The metadata names the identity provider and the accepted scopes. Some clients read the metadata
    at the path without `/mcp`.
    """
    scopes = [scope for scope in Scope if scope is not Scope.ADMIN]
    metadata = {
        "resource": settings.resource,
        "authorization_servers": [settings.issuer],
        "scopes_supported": [str(scope) for scope in scopes],
        "bearer_methods_supported": ["header"],
        "resource_name": "Waybook",
        "resource_documentation": f"{settings.resource.removesuffix('/mcp')}/sign-in",
    }

    async def serve(_: Request) -> Response:
        return json_response(metadata)

    return [Route(path, serve) for path in (_WELL_KNOWN_PATH, f"{_WELL_KNOWN_PATH}/mcp")]


SESSION: Final = "waybook"
FLOW: Final = "waybook_flow"
#: Maximum seconds of a browser session, and of a sign-in at the identity provider.
SESSION_SECONDS: Final = 7 * 24 * 3600
_FLOW_SECONDS: Final = 600
#: Browsers accept a cookie with this prefix only from this exact host, over https.
HOST_PREFIX: Final = "__Host-"


def read_cookie(request: Request, name: str) -> str:
    return request.cookies.get(_called(request, name), "")


def set_session_cookie(request: Request, reply: Response, secret: str) -> None:
    write_cookie(request, reply, _called(request, SESSION), secret, SESSION_SECONDS, "strict")


def set_flow_cookie(request: Request, reply: Response, flow: str) -> None:
    write_cookie(request, reply, _called(request, FLOW), flow, _FLOW_SECONDS, "lax")


def delete_cookie(request: Request, reply: Response, name: str) -> None:
    secure = request.url.scheme == "https"
    reply.delete_cookie(
        _called(request, name), path="/", secure=secure, httponly=True, samesite="strict"
    )


def _called(request: Request, name: str) -> str:
    return f"{HOST_PREFIX}{name}" if request.url.scheme == "https" else name
