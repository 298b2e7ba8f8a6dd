"""HTML form parsing with CSRF protection, safe return paths, and query parameters.

The CSRF token is a random text in a cookie that requests from other sites do not carry, and the
same text, masked, in every form; a request in which one of the two is missing does not come from
our page. Only url-encoded forms are accepted: no form uploads files, and in multipart bodies the
sender chooses the character encoding, some of which take hours to decode a megabyte.
"""

import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from waybook.errors import Forbidden

COOKIE: Final = "waybook_form"
FIELD: Final = "token"
LENGTH: Final = 32
#: Minimum and maximum length of a CSRF token in characters; a new token has 43.
MIN_LENGTH: Final = 32
MAX_LENGTH: Final = 64
#: Maximum number of fields of a submitted form; every form in our templates has fewer.
MAX_FIELDS: Final = 50
PLAIN: Final = "application/x-www-form-urlencoded"


def csrf_token(request: Request) -> str:
    """Return the browser's CSRF token, or a new token if the browser has no valid token."""
    known = request.cookies.get(COOKIE, "")
    return known if _is_valid_token(known) else secrets.token_urlsafe(LENGTH)


def mask_token(token: str) -> str:
    """Return the CSRF token for a form, encoded differently every time.

    The size of a compressed page reveals whether the page contains a text twice. If a page had the
    same token every time, an attacker who can make the page show chosen text could guess the token
    piece by piece (the BREACH attack).
    """
    secret = token.encode()
    pad = secrets.token_bytes(len(secret))
    return urlsafe_b64encode(pad + _xor(pad, secret)).decode()


def _unmask(text: str) -> bytes:
    """Return the CSRF token in a form's field, masked or not; any text for an invalid field."""
    try:
        data = urlsafe_b64decode(text.encode())
    except ValueError:
        data = b""
    half = len(data) // 2
    # A masked CSRF token is longer than any unmasked token, so the two forms cannot be confused.
    return _xor(data[:half], data[half:]) if len(text) > MAX_LENGTH else text.encode()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def set_csrf_cookie(request: Request, reply: Response, token: str) -> None:
    """Set the CSRF cookie, unless the browser already has one."""
    if request.cookies.get(COOKIE) == token:
        return
    secure = request.url.scheme == "https"
    reply.set_cookie(COOKIE, token, samesite="strict", httponly=True, secure=secure, path="/")


async def read_form(request: Request) -> FormData:
    """Check the CSRF token of a submitted form, and return the form's fields.

    Raises:
        Forbidden: the form was not rendered for this browser, or the browser rejects cookies.
    """
    known = request.cookies.get(COOKIE, "")
    if _is_valid_token(known) and _is_plain(request):
        fields = await request.form(max_files=0, max_fields=MAX_FIELDS)
        token = fields.get(FIELD)
        if isinstance(token, str) and secrets.compare_digest(_unmask(token), known.encode()):
            return fields
    raise Forbidden("this form is out of date, or is not from this page; reload the page")


def _is_plain(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == PLAIN


def _is_valid_token(token: str) -> bool:
    return MIN_LENGTH <= len(token) <= MAX_LENGTH and token.isascii()


_OURS: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1999}")


def safe_return_path(address: object, otherwise: str = "/inbox") -> str:
    r"""Return the address if it is a path on this server, otherwise `otherwise`.

    >>> safe_return_path("/plans/1?as=2"), safe_return_path("//elsewhere"), safe_return_path("https://elsewhere")
    ('/plans/1?as=2', '/inbox', '/inbox')
    >>> safe_return_path("/\\elsewhere"), safe_return_path("/a\nb"), safe_return_path(None, "/")
    ('/inbox', '/inbox', '/')
    """
    return address if isinstance(address, str) and _OURS.fullmatch(address) else otherwise


def current_url_with(request: Request, **changes: str | int | None) -> str:
    """Return the URL of this page with query parameters changed, or removed if None."""
    params = {**request.query_params, **changes}
    params.pop("part", None)
    query = urlencode({name: value for name, value in params.items() if value not in {None, ""}})
    return f"{request.url.path}?{query}" if query else request.url.path


def query_param(request: Request, name: str) -> str | None:
    """Return a query parameter, or None if it is missing or empty."""
    text = request.query_params.get(name, "").strip()
    # Remove NUL characters, which PostgreSQL text cannot contain.
    return text.replace("\x00", "") or None
