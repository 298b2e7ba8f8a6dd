"""The cookies of people who sign in: what they are called, and to whom they are sent.

A session goes with requests from our own pages alone. While somebody is at their issuer, a second
cookie remembers that they were sent there; it must survive the way back, so it goes with links
from elsewhere too, and lives for minutes.
"""

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
