"""The cookies of people who sign in: what they are called, and to whom they are sent.

A session goes with requests from our own pages alone. While somebody is at their issuer, a second
cookie remembers that they were sent there; it must survive the way back, so it goes with links
from elsewhere too, and lives for minutes.

How often somebody may try to come in: so many times a minute from one address.

A secret of ours cannot be guessed anyway; this keeps those who try from being a burden. What is
remembered is bounded: whoever has been silent for longest is forgotten first.
"""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

SESSION: Final = "waybook"
FLOW: Final = "waybook_flow"
#: As long as a session counts at most; and as one has to sign in elsewhere.
SESSION_SECONDS: Final = 7 * 24 * 3600
FLOW_SECONDS: Final = 600
#: Browsers take a cookie of such a name only from this very host, over https.
HOST_PREFIX: Final = "__Host-"


def read_cookie(request: Request, name: str) -> str:
    """What the browser keeps under this name, or nothing."""
    return request.cookies.get(_called(request, name), "")


def set_session_cookie(request: Request, reply: Response, secret: str) -> None:
    """Have the browser keep its session."""
    _keep(request, reply, SESSION, secret, SESSION_SECONDS, "strict")


def set_flow_cookie(request: Request, reply: Response, flow: str) -> None:
    """Have the browser remember that it was sent to sign in."""
    _keep(request, reply, FLOW, flow, FLOW_SECONDS, "lax")


def delete_cookie(request: Request, reply: Response, name: str) -> None:
    """Have the browser keep it no longer."""
    secure = request.url.scheme == "https"
    reply.delete_cookie(
        _called(request, name), path="/", secure=secure, httponly=True, samesite="strict"
    )


def _keep(
    request: Request,
    reply: Response,
    name: str,
    value: str,
    seconds: int,
    sent: Literal["strict", "lax"],
) -> None:
    reply.set_cookie(
        _called(request, name),
        value,
        max_age=seconds,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite=sent,
    )


def _called(request: Request, name: str) -> str:
    return f"{HOST_PREFIX}{name}" if request.url.scheme == "https" else name


MAX_ATTEMPTS: Final = 10
WINDOW_SECONDS: Final = 60.0
MAX_ADDRESSES: Final = 10_000


class LoginThrottle:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` says how many seconds have passed."""
        self._clock = clock
        self._tried: OrderedDict[str, deque[float]] = OrderedDict()

    def retry_after(self, address: str) -> int:
        """Count an attempt; the seconds to wait before there may be one, 0 if there may be now."""
        now, place = self._clock(), address_prefix(address)
        tried = self._tried.setdefault(place, deque())
        self._tried.move_to_end(place)
        while tried and tried[0] <= now - WINDOW_SECONDS:
            tried.popleft()
        if len(tried) >= MAX_ATTEMPTS:
            return max(1, round(tried[0] + WINDOW_SECONDS - now))
        tried.append(now)
        while len(self._tried) > MAX_ADDRESSES:
            self._tried.popitem(last=False)
        return 0


def address_prefix(address: str) -> str:
    """What counts as one address: of version 6, everybody has at least 64 bits of them.

    >>> address_prefix("2001:db8::1") == address_prefix("2001:db8::2"), address_prefix("10.0.0.1")
    (True, '10.0.0.1')
    """
    try:
        read = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if read.version == 4:  # noqa: PLR2004 - as the protocol is numbered
        return str(read)
    return str(ipaddress.ip_network((read, 64), strict=False))
