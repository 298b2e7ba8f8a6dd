"""Checks of requests: headers, host, origin, body, client address, and the CSRF token of forms.

Each function that ends in `_refusal` returns an error response, or None to accept the request.

The CSRF token is in a cookie and in every form. Other sites can send neither.
"""

import asyncio
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeAlias

from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from waybook.errors import Forbidden
from waybook.integrations.config import Proxies
from waybook.transport.http.responses import error_response
from waybook.transport.jsonrpc import MESSAGE_LIMIT

HeaderValues: TypeAlias = Mapping[bytes, Sequence[str]]


def strip_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Strip the whitespace around header values, which the HTTP parser keeps."""
    return [(name, value.strip(b" \t")) for name, value in headers]


def index_headers(headers: Iterable[tuple[bytes, bytes]]) -> HeaderValues:
    values: dict[bytes, list[str]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value.decode("latin-1"))
    return values


def declared_size(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the size of the body that the headers declare, or None if they do not.

    >>> declared_size([(b"content-length", b"12")]), declared_size([(b"content-length", b"?")])
    (12, None)
    """
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


LOOPBACK: Final = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
_ORIGIN: Final = re.compile(r"(https?)://([^/\s]+)", re.IGNORECASE)


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
    #: Host name that a proxy serves over https, if there is such a proxy.
    encrypted: str | None = None

    def allow_host(self, host: str) -> bool:
        return LOOPBACK.fullmatch(host) is not None or host.lower() in self.names

    def allow_origin(self, origin: str, host: str) -> bool:
        """Return whether an `Origin` header matches the request's host or an allowed host.

        If a host name is served over https, an http page of that name is another origin.
        """
        matched = _ORIGIN.fullmatch(origin)
        if matched is None:
            return False
        scheme, named = matched[1].lower(), matched[2].lower()
        if named == self.encrypted:
            return scheme == "https"
        return named == host.lower() or named in self.names


BODY_LIMIT: Final = MESSAGE_LIMIT
#: Paths that are served for every host name, because they reveal nothing.
HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})

BODY_SECONDS: Final = 60.0

# A body slightly over the limit is read before it is refused, because a client that is still
# sending does not read the response.
MAX_DRAINED_BYTES: Final = 8 * BODY_LIMIT


def public_scheme(public_host: str | None, headers: HeaderValues, scheme: str) -> str:
    """Return https for requests to the public host, where a proxy handles TLS."""
    if [name.lower() for name in headers.get(b"host", ())] == [public_host]:
        return "https"
    return scheme


def host_refusal(
    hosts: AllowedHosts, headers: HeaderValues, *, any_host: bool = False
) -> Response | None:
    """Refuse requests for another host name (421) or from another site's page (403).

    With `any_host`, every host name is accepted, because load balancers use the IP address.
    """
    named = headers.get(b"host", ())
    is_ours = len(named) == 1 and hosts.allow_host(named[0])
    if not is_ours and not any_host:
        return error_response(421, "FORBIDDEN", "This server does not answer to that host name.")
    host = named[0] if is_ours else ""
    if not all(hosts.allow_origin(o, host) for o in headers.get(b"origin", ())):
        return error_response(403, "FORBIDDEN", "Requests from that origin are not accepted.")
    return None


def encoded_body_refusal(headers: HeaderValues) -> Response | None:
    """Refuse compressed bodies (415), because they may expand to a very large size."""
    coded = headers.get(b"content-encoding", ())
    if any(value.lower() not in {"", "identity"} for value in coded):
        message = "Compressed request bodies are not supported; send it uncompressed."
        return error_response(415, "INVALID_INPUT", message, {"accept-encoding": "identity"})
    return None


async def receive_body(size: int | None, receive: Receive, limit: int) -> bytes | Response:
    """Return the request body of this declared size, or an error response (413 or 408)."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            heard = (size or 0) <= MAX_DRAINED_BYTES
            body = await read_body(receive, limit) if heard else None
    except TimeoutError:
        closing = {"connection": "close"}
        return error_response(
            408, "INVALID_INPUT", "The request body was not received in time.", closing
        )
    if body is None:
        message = f"A request body may have {limit} bytes; split the work into smaller calls."
        return error_response(413, "TOO_LARGE", message, {"connection": "close"})
    return body


async def read_body(receive: Receive, limit: int) -> bytes | None:
    parts, size, more = [], 0, True
    while more and size <= MAX_DRAINED_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            # An incomplete form must not be taken for a complete one.
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts) if size <= limit else None


def replay_body(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def header_values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


#: Values of `Sec-Fetch-Site` for requests from our own pages and for typed URLs.
_SAME_SITE: Final = frozenset({"same-origin", "none"})
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def cross_site_refusal(method: str, headers: HeaderValues) -> Response | None:
    """Refuse requests that a page of another site made the browser send (403)."""
    if is_same_site(method, headers):
        return None
    return error_response(403, "FORBIDDEN", "Requests from pages of other sites are not accepted.")


def is_same_site(method: str, headers: HeaderValues) -> bool:
    """Return whether a request comes from our own site or from a link that the user followed."""
    if _SAME_SITE.issuperset(headers.get(b"sec-fetch-site", ())):
        return True
    return (
        method in SAFE_METHODS
        and headers.get(b"sec-fetch-mode") == ["navigate"]
        and headers.get(b"sec-fetch-dest") == ["document"]
    )


_SECURITY: Final = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


def with_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    own = [*headers]
    known = {name.lower() for name, _ in own}
    return own + [header for header in _SECURITY if header[0] not in known]


_Address: TypeAlias = IPv4Address | IPv6Address

_MAX_HOPS: Final = 32


def client_address(proxies: Proxies, peer: str, forwarded: Iterable[str]) -> str:
    """Return the peer's address or, if the peer is a trusted proxy, the client's address.

    >>> from waybook.integrations.config import read_proxies
    >>> ours = read_proxies("10.0.0.0/8")
    >>> client_address(ours, "10.0.0.1", ["6.6.6.6, 198.51.100.7"])
    '198.51.100.7'
    >>> client_address(ours, "6.6.6.6", ["1.1.1.1"])
    '6.6.6.6'
    """
    address = read_address(peer)
    if address is None:
        return peer
    hops = [hop for value in forwarded for hop in value.split(",")]
    for hop in reversed(hops[-_MAX_HOPS:]):
        is_trusted = any(address in network for network in proxies)
        before = read_address(hop) if is_trusted else None
        if before is None:
            break
        address = before
    return str(address)


def read_address(text: str) -> _Address | None:
    """Parse an IP address with or without a port. Return None if it is not valid.

    >>> read_address(" 198.51.100.7:5000"), read_address("[2001:db8::1]:443")
    (IPv4Address('198.51.100.7'), IPv6Address('2001:db8::1'))
    >>> read_address("::ffff:10.0.0.1"), read_address("unknown")
    (IPv4Address('10.0.0.1'), None)
    """
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def client_address_of(request: Request, proxies: Proxies) -> str:
    peer = request.client.host if request.client else ""
    return client_address(proxies, peer, request.headers.getlist("x-forwarded-for"))


COOKIE: Final = "waybook_form"
FIELD: Final = "token"
_TOKEN_BYTES: Final = 32
#: Length limits of a CSRF token.
_MIN_TOKEN_LENGTH: Final = 32
MAX_TOKEN_LENGTH: Final = 64
_MAX_FIELDS: Final = 50
_FORM_TYPE: Final = "application/x-www-form-urlencoded"


def csrf_token(request: Request) -> str:
    known = request.cookies.get(COOKIE, "")
    return known if _is_valid_token(known) else secrets.token_urlsafe(_TOKEN_BYTES)


def mask_token(token: str) -> str:
    """Return the CSRF token for a form, encoded differently every time.

    Otherwise the size of a compressed page could reveal the token (the BREACH attack).
    """
    secret = token.encode()
    pad = secrets.token_bytes(len(secret))
    return urlsafe_b64encode(pad + _xor(pad, secret)).decode()


def _unmask(text: str) -> bytes:
    """Return the CSRF token in a form field. An invalid field gives bytes that match no token."""
    # Only a masked token is longer than `MAX_TOKEN_LENGTH`. A shorter token was not masked.
    if len(text) <= MAX_TOKEN_LENGTH:
        return text.encode()
    with suppress(ValueError):
        data = urlsafe_b64decode(text.encode())
        return _xor(data[: len(data) // 2], data[len(data) // 2 :])
    return b""


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def set_csrf_cookie(request: Request, reply: Response, token: str) -> None:
    if request.cookies.get(COOKIE) == token:
        return
    secure = request.url.scheme == "https"
    reply.set_cookie(COOKIE, token, samesite="strict", httponly=True, secure=secure, path="/")


async def read_form(request: Request) -> FormData:
    """Check the CSRF token of a form, and return its fields."""
    known = request.cookies.get(COOKIE, "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if _is_valid_token(known) and kind == _FORM_TYPE:
        fields = await request.form(max_files=0, max_fields=_MAX_FIELDS)
        token = fields.get(FIELD)
        if isinstance(token, str) and secrets.compare_digest(_unmask(token), known.encode()):
            return fields
    raise Forbidden("this form is out of date, or is not from this page; reload the page")


def _is_valid_token(token: str) -> bool:
    return _MIN_TOKEN_LENGTH <= len(token) <= MAX_TOKEN_LENGTH and token.isascii()


_OURS: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1999}")


def safe_return_path(address: object, otherwise: str = "/inbox") -> str:
    r"""Return the address if it is a path on this server, otherwise `otherwise`.

    >>> safe_return_path("/plans/1?as=2"), safe_return_path("//elsewhere"), safe_return_path("https://elsewhere")
    ('/plans/1?as=2', '/inbox', '/inbox')
    >>> safe_return_path("/\\elsewhere"), safe_return_path("/a\nb"), safe_return_path(None, "/")
    ('/inbox', '/inbox', '/')
    """
    return address if isinstance(address, str) and _OURS.fullmatch(address) else otherwise
