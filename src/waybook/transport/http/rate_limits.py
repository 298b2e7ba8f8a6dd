"""Limits on the requests of each org, and on sign-ins and invalid credentials of each address.

Only a few requests of each org are processed at a time, so that one org cannot slow down the
others. A request over the rate limit is delayed before it is refused, so that a client
that retries immediately uses little CPU time.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import cycle
from math import ceil
from typing import Final, TypeAlias
from uuid import UUID
from weakref import WeakValueDictionary

from mcp_types import INTERNAL_ERROR
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response

from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel
from waybook.errors import RateLimited, Unauthenticated, WaybookError
from waybook.integrations.config import Proxies
from waybook.transport.gateway import (
    RATE_COUNTED,
    DispatcherPort,
    ToolGateway,
    counting,
    request_state,
)
from waybook.transport.http.connection import declared_size
from waybook.transport.http.responses import (
    answer_error_response,
    http_status,
    json_response,
    retry_after_header,
)
from waybook.transport.jsonrpc import compact_json, tool_called

MAX_CONCURRENT: Final = 4
_WAIT_TIMEOUT_SECONDS: Final = 0.5


class ConcurrencyLimiter:
    def __init__(
        self, each: int = MAX_CONCURRENT, max_seconds: float = _WAIT_TIMEOUT_SECONDS
    ) -> None:
        """Give each org `each` slots. A request keeps its slot for at most `max_seconds`."""
        self._each = each
        self._max_seconds = max_seconds
        #: The slots of an org are kept only while requests of the org use them or wait for them.
        self._slots: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def slot(self, org: Hashable) -> AsyncIterator[Callable[[], None]]:
        """Wait for a free slot. Yield a function that releases the slot early."""
        slots = self._slots.get(org)
        if slots is None:
            slots = self._slots[org] = asyncio.Semaphore(self._each)
        await slots.acquire()
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                slots.release()

        timer = asyncio.get_running_loop().call_later(self._max_seconds, release)
        try:
            yield release
        finally:
            timer.cancel()
            release()


#: Each time this many more requests with the same key (org or address) are being delayed, the delay
#: gets longer.
QUEUE_STEP: Final = 32
MAX_DELAY_FACTOR: Final = 10

_Pause: TypeAlias = Callable[[float], Awaitable[object]]


async def _delay(counts: Counter[Hashable], key: Hashable, seconds: float, pause: _Pause) -> None:
    """Delay a request, longer if many requests with the same key are being delayed."""
    with counting(counts, key):
        await pause(seconds * min(1 + counts[key] // QUEUE_STEP, MAX_DELAY_FACTOR))


#: Delays of requests over the rate limit. They differ, so that clients do not all retry at the same
#: time.
DELAYS: Final = tuple(0.5 + (7 * n % 32) / 31 for n in range(32))
LIMITED_PATHS: Final = ("/mcp", "/api/")
#: Only one page of an org is rendered at a time, because a page takes the CPU time of many calls.
MAX_CONCURRENT_PAGES: Final = 1
_PAGE_WAIT_SECONDS: Final = 1.0
#: Every 4 KiB of a body count as one more call.
BODY_BYTES_PER_CALL: Final = 4 * 1024
#: Caller of all requests without sign-in. They share one rate limit.
ANONYMOUS: Final = Caller(org_id=UUID(int=0), user="", channel=Channel.DASHBOARD)
#: Health checks and metrics are never delayed. Static files are not counted, because the pages of
#: signed-in people need them too.
_UNLIMITED_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_UNCOUNTED_PREFIX: Final = "/static/"
_STATELESS_REVISIONS: Final = frozenset(MODERN_PROTOCOL_VERSIONS)


@dataclass(frozen=True, slots=True)
class RequestThrottle:
    gateway: ToolGateway
    pause: _Pause = asyncio.sleep
    limiter: ConcurrencyLimiter = field(default_factory=ConcurrencyLimiter)
    page_limiter: ConcurrencyLimiter = field(
        default_factory=partial(ConcurrencyLimiter, MAX_CONCURRENT_PAGES, _PAGE_WAIT_SECONDS)
    )
    pauses: Iterator[float] = field(default_factory=partial(cycle, DELAYS))
    delays: Counter[Hashable] = field(default_factory=Counter)

    async def admit(self, request: Request, size: int | None = None) -> UUID | None:
        """Count a request. If its org is over the limit, delay the request and try once more.

        Return the org if the request may proceed. `size` is the size of the body in bytes.
        """
        try:
            dispatcher = await self.gateway.dispatcher()
            caller = await self.gateway.caller(request)
        except WaybookError:
            return None
        is_admitted = await self._count(dispatcher, caller, _more_calls(request, size))
        setattr(request.state, RATE_COUNTED, is_admitted)
        return caller.org_id if is_admitted else None

    async def _count(self, dispatcher: DispatcherPort, caller: Caller, more_calls: int = 0) -> bool:
        """Count a request as `1 + more_calls` calls. Return whether it is within the limit."""
        if dispatcher.try_acquire(caller):
            await _delay(self.delays, caller.org_id, next(self.pauses), self.pause)
            if dispatcher.try_acquire(caller):
                return False
        dispatcher.charge(caller, more_calls)
        return True

    async def anonymous_refusal(self, request: Request) -> Response | None:
        """Count a request of someone who is not signed in. Refuse it if there are too many."""
        path = request.scope["path"]
        if path in _UNLIMITED_PATHS or path.startswith(_UNCOUNTED_PREFIX):
            return None
        if await self._count(await self.gateway.dispatcher(), ANONYMOUS):
            return None
        return answer_error_response(RateLimited("too many requests without sign-in").as_json())

    async def slot_of(self, request: Request) -> tuple[UUID | None, ConcurrencyLimiter]:
        """Return the org of a request, and the limiter that it must pass if it has an org."""
        path, caller = request.scope["path"], signed_in_caller(request)
        if path.startswith(LIMITED_PATHS):
            return await self.admit(request), self.limiter
        if caller is not None:
            (await self.gateway.dispatcher()).charge(caller, _more_calls(request))
        org_id = (caller or ANONYMOUS).org_id
        return None if path in _UNLIMITED_PATHS else org_id, self.page_limiter

    async def rate_limited_response(self, request: Request, what: str = "") -> RateLimited | None:
        if request_state(request).get(RATE_COUNTED, True):
            return None
        dispatcher, caller = await self.gateway.dispatcher(), await self.gateway.caller(request)
        return dispatcher.rate_limited_answer(caller, what)

    async def rate_limited_mcp_response(
        self, request: Request, message: Mapping[str, object]
    ) -> Response | None:
        error = await self.rate_limited_response(request, tool_called(message) or "")
        return mcp_error_response(request, message, error) if error else None


def _more_calls(request: Request, size: int | None = None) -> int:
    if size is None:
        size = declared_size(request.scope["headers"]) or 0
    return size // BODY_BYTES_PER_CALL


def signed_in_caller(request: Request | None) -> Caller | None:
    caller = request_state(request).get("caller")
    return caller if isinstance(caller, Caller) else None


def mcp_error_response(
    request: Request, message: Mapping[str, object], fault: WaybookError
) -> Response:
    body, headers = fault.as_json(), retry_after_header(fault.details)
    status = http_status(fault.code)
    if "id" not in message:
        return json_response(body, status, headers)
    answer: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
    if tool_called(message) is None:
        error = {"code": INTERNAL_ERROR, "message": fault.message, "data": body}
        return json_response({**answer, "error": error}, status, headers)
    text = {"type": "text", "text": compact_json(body)}
    result: dict[str, object] = {"content": [text], "isError": True}
    if request.headers.get("mcp-protocol-version") in _STATELESS_REVISIONS:
        result["resultType"] = "complete"
    return json_response({**answer, "result": result}, headers=headers)


MAX_FAILURES: Final = 10
REFILL_SECONDS: Final = 1.0
MAX_ADDRESSES: Final = 10_000
MAX_RECENT_SECRETS: Final = 10_000
#: A valid secret is remembered for this many seconds after its last use.
RECENT_SECONDS: Final = 3_600.0
#: Number of parallel lookups of one secret that count as a single failure.
MAX_PARALLEL_LOOKUPS: Final = 32
#: Seconds before a refusal is sent. The delay grows with the number of waiting refusals.
DELAY_SECONDS: Final = 1.0
#: Maximum number of delayed refusals. Further refusals are sent immediately.
_MAX_DELAYED: Final = 1_000


class FailedCredentials:
    def __init__(
        self, clock: Callable[[], float] = time.monotonic, pause: _Pause = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._pause = pause
        #: For each address, the time from which it may fail `MAX_FAILURES` times again.
        self._full_at: OrderedDict[str, float] = OrderedDict()
        #: For the hash of each secret, the time at which the secret was last valid.
        self._recent: OrderedDict[int, float] = OrderedDict()
        self._pending: Counter[int] = Counter()
        self._ended: dict[int, asyncio.Event] = {}
        self._delays: Counter[Hashable] = Counter()

    @contextmanager
    def lookup(self, address: str, secret: str) -> Iterator[None]:
        """Context manager for the check of a secret. An invalid secret counts against the limit.

        Parallel lookups of the same secret count once.

        Raises:
            RateLimited: the address sent too many invalid secrets; the details say when to retry.
        """
        key, place = hash(secret), address_prefix(address)
        charge = self._admit(key, place)
        try:
            with counting(self._pending, key):
                yield
        except Unauthenticated:
            if self._recent.pop(key, None) is not None and not charge:
                self._take(place, REFILL_SECONDS)
            raise
        # Other errors, such as a failed query, are not the client's fault.
        except BaseException:
            self._take(place, -charge)
            raise
        else:
            self._take(place, -charge)
            self.exempt(secret)
        finally:
            if key in self._ended:
                self._ended.pop(key).set()

    async def wait_for_lookup(self, secret: str) -> None:
        """Wait while too many lookups of the same secret are in progress.

        Many agents may share a token, and one lookup is enough to show that the token is valid.
        """
        key = hash(secret)
        while self._pending[key] >= MAX_PARALLEL_LOOKUPS and not self._is_recent(key):
            await self._ended.setdefault(key, asyncio.Event()).wait()

    def exempt(self, secret: str) -> None:
        key = hash(secret)
        self._recent[key] = self._clock()
        self._recent.move_to_end(key)
        while len(self._recent) > MAX_RECENT_SECRETS:
            self._recent.popitem(last=False)

    def _admit(self, key: int, place: str) -> float:
        """Count a lookup as failed. Return the seconds to subtract again if the secret is valid."""
        if self._is_recent(key) or 0 < self._pending[key] < MAX_PARALLEL_LOOKUPS:
            return 0.0
        now = self._clock()
        wait = self._full_at.get(place, now) - now - (MAX_FAILURES - 1) * REFILL_SECONDS
        if wait > 0:
            seconds = max(1, ceil(wait))
            raise RateLimited(
                "too many unknown credentials came from your address; this request was refused. "
                f"Wait {seconds} s, check the token you send, then repeat it",
                retryAfter=seconds,
            )
        self._take(place, REFILL_SECONDS)
        return REFILL_SECONDS

    async def delay(self, address: str) -> None:
        """Delay a refusal, longer if many refusals for the same address are waiting."""
        if self._delays.total() < _MAX_DELAYED:
            await _delay(self._delays, address_prefix(address), DELAY_SECONDS, self._pause)

    def _take(self, place: str, seconds: float) -> None:
        if not seconds:
            return
        now = self._clock()
        self._full_at[place] = max(now, self._full_at.pop(place, now)) + seconds
        while len(self._full_at) > MAX_ADDRESSES:
            self._full_at.popitem(last=False)

    def _is_recent(self, key: int) -> bool:
        seen = self._recent.get(key)
        return seen is not None and seen > self._clock() - RECENT_SECONDS


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


#: Maximum number of tries to sign in from one address within `WINDOW_SECONDS`.
MAX_ATTEMPTS: Final = 10
WINDOW_SECONDS: Final = 60.0


class LoginThrottle:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tried: OrderedDict[str, deque[float]] = OrderedDict()

    def retry_after(self, address: str) -> int:
        """Count a try to sign in. Return 0, or the seconds to wait after too many tries."""
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
    """Return the key by which tries are counted: an IPv4 address, or an IPv6 /64 network.

    >>> address_prefix("2001:db8::1") == address_prefix("2001:db8::2"), address_prefix("10.0.0.1")
    (True, '10.0.0.1')
    """
    try:
        read = ip_address(address)
    except ValueError:
        return ""
    if read.version == 4:  # noqa: PLR2004 - IP version 4
        return str(read)
    return str(ip_network((read, 64), strict=False))
