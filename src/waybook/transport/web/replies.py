"""Answers that a web face gives by itself: errors in the doorway's shape."""

from collections.abc import Mapping

from starlette.responses import Response

from waybook.transport.faults import compact, fault


def json_reply(
    body: Mapping[str, object], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Compact JSON that nobody keeps."""
    kept = {"cache-control": "no-store", **(headers or {})}
    return Response(compact(body), status, kept, media_type="application/json")


def refusal(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error found before the doorway was reached."""
    return json_reply(fault(code, message), status, headers)
