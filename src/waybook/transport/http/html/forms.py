"""Forms: what a page may send back, and the token that shows it was ours.

The token is a random text in a cookie no other site's request carries, and the same text in every
form. Who can send the one without the other has not seen the page.

Forms of ours hold no files, and so come in the plain way alone. In the other one whoever sends
chooses the alphabet, and some take hours to read a megabyte.

Where a person came from: an address of ours, and no other.

Addresses within a page: the same page with another filter, or the next piece of a list.
"""

import re
import secrets
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from waybook.errors import Forbidden

COOKIE: Final = "waybook_form"
FIELD: Final = "token"
LENGTH: Final = 32
#: More fields than any form of ours has.
MAX_FIELDS: Final = 50
PLAIN: Final = "application/x-www-form-urlencoded"


def csrf_token(request: Request) -> str:
    """The token of this browser, a new one if it has none."""
    known = request.cookies.get(COOKIE, "")
    return known if _is_one(known) else secrets.token_urlsafe(LENGTH)


def set_csrf_cookie(request: Request, reply: Response, token: str) -> None:
    """Have the browser keep its token, if it does not yet."""
    if request.cookies.get(COOKIE) == token:
        return
    secure = request.url.scheme == "https"
    reply.set_cookie(COOKIE, token, samesite="strict", httponly=True, secure=secure, path="/")


async def read_form(request: Request) -> FormData:
    """The fields of a form of ours.

    Raises:
        Forbidden: the form is somebody else's, or of a browser that keeps no cookies.
    """
    known = request.cookies.get(COOKIE, "")
    if _is_one(known) and _is_plain(request):
        fields = await request.form(max_files=0, max_fields=MAX_FIELDS)
        token = fields.get(FIELD)
        if isinstance(token, str) and secrets.compare_digest(token.encode(), known.encode()):
            return fields
    raise Forbidden("this form is out of date, or was not made by this page; load the page again")


def _is_plain(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == PLAIN


def _is_one(token: str) -> bool:
    return 32 <= len(token) <= 64 and token.isascii()  # noqa: PLR2004 - as long as ours are


_OURS: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1999}")


def safe_return_path(address: object, otherwise: str = "/inbox") -> str:
    r"""The address if it is a path of ours, else another one.

    >>> safe_return_path("/plans/1?as=2"), safe_return_path("//elsewhere"), safe_return_path("https://elsewhere")
    ('/plans/1?as=2', '/inbox', '/inbox')
    >>> safe_return_path("/\\elsewhere"), safe_return_path("/a\nb"), safe_return_path(None, "/")
    ('/inbox', '/inbox', '/')
    """
    return address if isinstance(address, str) and _OURS.fullmatch(address) else otherwise


def current_url_with(request: Request, **changes: str | int | None) -> str:
    """The address of this page with some of its questions changed; None takes one away."""
    asked = {**request.query_params, **changes}
    asked.pop("part", None)
    told = urlencode({name: value for name, value in asked.items() if value not in {None, ""}})
    return f"{request.url.path}?{told}" if told else request.url.path


def query_param(request: Request, name: str) -> str | None:
    """What is asked under this name; nothing and an empty text are the same."""
    text = request.query_params.get(name, "").strip()
    # What PostgreSQL cannot keep, it cannot find either.
    return text.replace("\x00", "") or None
