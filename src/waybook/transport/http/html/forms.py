"""Parses HTML forms, with CSRF protection.

The CSRF token is in a cookie and in every form. Other sites can send neither.
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
#: Length limits of a CSRF token.
_MIN_LENGTH: Final = 32
MAX_LENGTH: Final = 64
_MAX_FIELDS: Final = 50
_PLAIN: Final = "application/x-www-form-urlencoded"


def csrf_token(request: Request) -> str:
    known = request.cookies.get(COOKIE, "")
    return known if _is_valid_token(known) else secrets.token_urlsafe(LENGTH)


def mask_token(token: str) -> str:
    """Return the CSRF token for a form, encoded differently every time.

    Otherwise the size of a compressed page could reveal the token (the BREACH attack).
    """
    secret = token.encode()
    pad = secrets.token_bytes(len(secret))
    return urlsafe_b64encode(pad + _xor(pad, secret)).decode()


def _unmask(text: str) -> bytes:
    """Return the CSRF token in a form field. An invalid field gives a wrong token."""
    try:
        data = urlsafe_b64decode(text.encode())
    except ValueError:
        data = b""
    half = len(data) // 2
    # A masked token is longer than any other token, so the two cannot be confused.
    return _xor(data[:half], data[half:]) if len(text) > MAX_LENGTH else text.encode()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def set_csrf_cookie(request: Request, reply: Response, token: str) -> None:
    if request.cookies.get(COOKIE) == token:
        return
    secure = request.url.scheme == "https"
    reply.set_cookie(COOKIE, token, samesite="strict", httponly=True, secure=secure, path="/")


async def read_form(request: Request) -> FormData:
    """Check the CSRF token of a form, and return its fields.

    Raises:
        Forbidden: the form was not rendered for this browser, or the browser rejects cookies.
    """
    known = request.cookies.get(COOKIE, "")
    if _is_valid_token(known) and _is_plain(request):
        fields = await request.form(max_files=0, max_fields=_MAX_FIELDS)
        token = fields.get(FIELD)
        if isinstance(token, str) and secrets.compare_digest(_unmask(token), known.encode()):
            return fields
    raise Forbidden("this form is out of date, or is not from this page; reload the page")


def _is_plain(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == _PLAIN


def _is_valid_token(token: str) -> bool:
    return _MIN_LENGTH <= len(token) <= MAX_LENGTH and token.isascii()


_OURS: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1999}")


def safe_return_path(address: object, otherwise: str = "/inbox") -> str:
    r"""Return the address if it is a path on this server, otherwise `otherwise`.

    >>> safe_return_path("/plans/1?as=2"), safe_return_path("//elsewhere"), safe_return_path("https://elsewhere")
    ('/plans/1?as=2', '/inbox', '/inbox')
    >>> safe_return_path("/\\elsewhere"), safe_return_path("/a\nb"), safe_return_path(None, "/")
    ('/inbox', '/inbox', '/')
    """
    return address if isinstance(address, str) and _OURS.fullmatch(address) else otherwise


#: Query parameters that are left out of links: a fragment name, and secrets.
_NEVER_KEPT = frozenset({"part", "token", "access_token"})


def current_url_with(request: Request, **changes: str | int | None) -> str:
    params = {**request.query_params, **changes}
    kept = {
        name: value
        for name, value in params.items()
        if name not in _NEVER_KEPT and value not in {None, ""}
    }
    query = urlencode(kept)
    return f"{request.url.path}?{query}" if query else request.url.path


def query_param(request: Request, name: str) -> str | None:
    text = request.query_params.get(name, "").strip()
    # PostgreSQL text cannot contain NUL.
    return text.replace("\x00", "") or None
