"""How often somebody may try to come in: so many times a minute from one address.

A secret of ours cannot be guessed anyway; this keeps those who try from being a burden. What is
remembered is bounded: whoever has been silent for longest is forgotten first.
"""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

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
