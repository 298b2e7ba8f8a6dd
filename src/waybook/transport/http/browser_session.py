"""Session cookies for browsers, and the limit on sign-in attempts per client address."""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

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
    _keep(request, reply, SESSION, secret, SESSION_SECONDS, "strict")


def set_flow_cookie(request: Request, reply: Response, flow: str) -> None:
    _keep(request, reply, FLOW, flow, _FLOW_SECONDS, "lax")


def delete_cookie(request: Request, reply: Response, name: str) -> None:
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
        self._clock = clock
        self._tried: OrderedDict[str, deque[float]] = OrderedDict()

    def retry_after(self, address: str) -> int:
        """Count a sign-in attempt. Return 0, or the seconds to wait after too many attempts."""
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
    """Return the key by which attempts are counted: an IPv4 address, or an IPv6 /64 network.

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
