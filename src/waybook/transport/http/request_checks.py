"""ASGI middleware in front of every route: host, origin, cross-site, header and body checks.

Only known host names are served, which prevents DNS rebinding. Browsers report the origin of a
request in headers that pages cannot set. Background requests, embedded resources and form posts
from other sites are refused; a link that a user follows is allowed. Security headers of every
response allow its use in our own pages only, disable content sniffing and forbid framing.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from waybook.transport.http.responses import error_response
from waybook.transport.jsonrpc import MESSAGE_LIMIT

LOOPBACK: Final = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
ORIGIN: Final = re.compile(r"(https?)://([^/\s]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Allowed `Host` headers: loopback names with any port, and the exact values in `names`.

    >>> hosts = AllowedHosts(frozenset({"plans.example.org"}))
    >>> hosts.allow_host("localhost:8750"), hosts.allow_host("plans.example.org")
    (True, True)
    >>> hosts.allow_host("localhost.example.net"), hosts.allow_origin("null", "localhost")
    (False, False)
    """

    names: frozenset[str] = frozenset()
    #: Host name under which a proxy serves Waybook over https; None if no proxy does.
    encrypted: str | None = None

    def allow_host(self, host: str) -> bool:
        """Return whether a `Host` header is allowed."""
        return LOOPBACK.fullmatch(host) is not None or host.lower() in self.names

    def allow_origin(self, origin: str, host: str) -> bool:
        """Return whether an `Origin` header matches the request's host or an allowed host.

        Another port of this machine is another origin. If a host name is served over https, an http
        page of the same name is also another origin, because an attacker on the network may have
        changed the http page.
        """
        matched = ORIGIN.fullmatch(origin)
        if matched is None:
            return False
        scheme, named = matched[1].lower(), matched[2].lower()
        if named == self.encrypted:
            return scheme == "https"
        return named == host.lower() or named in self.names


BODY_LIMIT: Final = MESSAGE_LIMIT
#: Paths that are served for every host name, because they reveal nothing.
HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})

#: Maximum time in seconds for receiving the body of a request.
BODY_SECONDS: Final = 60.0

# A client that is still sending its request does not read the response. The server therefore reads
# a body that is only slightly over the limit to its end before it refuses the request.
MAX_DRAINED_BYTES: Final = 8 * BODY_LIMIT


def reject_other_scopes(app: ASGIApp) -> ASGIApp:
    """Refuse WebSocket connections; pass on HTTP requests and lifespan events."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        await app(scope, receive, send)

    return guarded


def strip_header_whitespace(app: ASGIApp) -> ASGIApp:
    """Strip the whitespace around header values, which the HTTP parser does not remove."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
            scope = {**scope, "headers": headers}
        await app(scope, receive, send)

    return guarded


def apply_public_scheme(public_host: str | None, app: ASGIApp) -> ASGIApp:
    """Set the scheme to https for requests to the public host, where a proxy terminates TLS.

    Cookies of these requests are then restricted to https.
    """

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        named = header_values(scope, b"host") if scope["type"] == "http" else []
        if [name.lower() for name in named] == [public_host]:
            scope = {**scope, "scheme": "https"}
        await app(scope, receive, send)

    return guarded


def check_host_and_origin(hosts: AllowedHosts, app: ASGIApp) -> ASGIApp:
    """Refuse requests for another host name (421) or from another site's page (403)."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        # Load balancers check the health of a server by its address, some without a host name.
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await app(scope, receive, send)
            return
        named = header_values(scope, b"host")
        if len(named) != 1 or not hosts.allow_host(named[0]):
            reply = error_response(
                421, "FORBIDDEN", "This server does not answer to that host name."
            )
            await reply(scope, receive, send)
        elif not all(hosts.allow_origin(o, named[0]) for o in header_values(scope, b"origin")):
            reply = error_response(403, "FORBIDDEN", "Requests from that origin are not accepted.")
            await reply(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


def reject_encoded_bodies(app: ASGIApp) -> ASGIApp:
    """Refuse compressed request bodies (415), because they may expand to a very large size."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        coded = header_values(scope, b"content-encoding") if scope["type"] == "http" else []
        if any(value.lower() not in {"", "identity"} for value in coded):
            message = "A body that is compressed is not taken here; send it as it is."
            reply = error_response(415, "INVALID_INPUT", message, {"accept-encoding": "identity"})
            await reply(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


def limit_body(limit: int, app: ASGIApp) -> ASGIApp:
    """Read the whole request body before the app runs; refuse large (413) and slow (408) bodies."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_SECONDS):
                heard = declared_size(scope) <= MAX_DRAINED_BYTES
                body = await read_body(receive, limit) if heard else None
        except TimeoutError:
            reply = error_response(
                408, "INVALID_INPUT", "The body took too long.", {"connection": "close"}
            )
            await reply(scope, receive, send)
            return
        if body is None:
            message = f"A request body may have {limit} bytes; split the work into smaller calls."
            reply = error_response(413, "TOO_LARGE", message, {"connection": "close"})
            await reply(scope, receive, send)
        else:
            await app(scope, replay_body(body, receive), send)

    return guarded


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Return the request body, or None if it exceeds the limit."""
    parts, size, more = [], 0, True
    while more and size <= MAX_DRAINED_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            break
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts) if size <= limit else None


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` function that yields the body already read, then other messages."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def declared_size(scope: Scope) -> int:
    """Return the declared content length, or 0 if it is missing or not a number."""
    values = header_values(scope, b"content-length")
    return int(values[0]) if values and values[0].isdecimal() and values[0].isascii() else 0


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Return every value of a header, one per occurrence."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


#: `Sec-Fetch-Site` values of requests from our own pages, or from no page (a typed URL).
SAME_SITE: Final = frozenset({"same-origin", "none"})
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
#: Headers that are added to every response, unless the response already sets them.
SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def reject_cross_site(app: ASGIApp) -> ASGIApp:
    """Refuse requests (403) that a page of another site made the browser send."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_same_site(scope):
            reply = error_response(
                403, "FORBIDDEN", "Requests of other sites' pages are not accepted."
            )
            await reply(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


def is_same_site(scope: Scope) -> bool:
    """Return whether a request comes from our own site, or from a link that the user followed."""
    if set(header_values(scope, b"sec-fetch-site")) <= SAME_SITE:
        return True
    return (
        scope["method"] in SAFE_METHODS
        and header_values(scope, b"sec-fetch-mode") == ["navigate"]
        and header_values(scope, b"sec-fetch-dest") == ["document"]
    )


def add_security_headers(app: ASGIApp) -> ASGIApp:
    """Add the security headers to every response, errors included."""
    headers = {name.encode(): value.encode() for name, value in SECURITY_HEADERS.items()}

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message.get("headers", ())}
                more = [(name, value) for name, value in headers.items() if name not in known]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        await app(scope, receive, tell if scope["type"] == "http" else send)

    return guarded
