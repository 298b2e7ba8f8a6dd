"""Cached credential of an HTTP request. It is verified before the response starts."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.accounts.lookup import CachedCaller
from waybook.transport.gateway import request_state

#: Request state: the cached caller, and the function that verifies the caller's credential.
CACHED_CALLER: Final = "cached_caller"
VERIFY: Final = "verify_credential"

Verifier: TypeAlias = Callable[[Request], Awaitable[Response | None]]


def expect_caller(
    request: Request, cached: CachedCaller, verify: Verifier, *, admitted_by: object
) -> None:
    state = request.scope.setdefault("state", {})
    state["caller"], state["admitted_by"] = cached.caller, admitted_by
    state[CACHED_CALLER], state[VERIFY] = cached, verify


def cached_caller(request: Request) -> CachedCaller | None:
    cached: CachedCaller | None = request_state(request).get(CACHED_CALLER)
    return cached


def is_verified(request: Request) -> bool:
    cached = cached_caller(request)
    return cached is None or cached.check.is_passed


async def verify_credential(request: Request) -> Response | None:
    """Verify a request's credential, unless a database query has already checked it.

    Return an error response, or None to proceed.
    """
    if is_verified(request):
        return None
    verify: Verifier = request_state(request)[VERIFY]
    request.scope["state"][CACHED_CALLER] = None
    return await verify(request)
