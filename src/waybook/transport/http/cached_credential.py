"""Cached credential of an HTTP request. It is verified before the response starts."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.accounts.lookup import CachedCaller
from waybook.transport.gateway import request_state

#: Request state: the cached caller, and the function that verifies the caller's credential.
_CACHED_CALLER: Final = "cached_caller"
_VERIFY: Final = "verify_credential"

_Verifier: TypeAlias = Callable[[Request], Awaitable[Response | None]]


def expect_caller(
    request: Request, cached: CachedCaller, verify: _Verifier, *, admitted_by: object
) -> None:
    state = request.scope.setdefault("state", {})
    state["caller"], state["admitted_by"] = cached.caller, admitted_by
    state[_CACHED_CALLER], state[_VERIFY] = cached, verify


def cached_caller(request: Request) -> CachedCaller | None:
    cached: CachedCaller | None = request_state(request).get(_CACHED_CALLER)
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
    verify: _Verifier = request_state(request)[_VERIFY]
    request.scope["state"][_CACHED_CALLER] = None
    return await verify(request)
