"""Answers that a web face gives by itself: errors in the doorway's shape."""

from collections.abc import Mapping
from math import ceil

from starlette.responses import Response

from waybook.transport.jsonrpc import compact_json, error_body


def json_response(
    body: Mapping[str, object], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Compact JSON that nobody keeps."""
    kept = {"cache-control": "no-store", **(headers or {})}
    return Response(compact_json(body), status, kept, media_type="application/json")


def error_response(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error found before the doorway was reached."""
    return json_response(error_body(code, message), status, headers)


def retry_after_header(details: object) -> dict[str, str]:
    """When to come again, as a header, if an error says so.

    >>> retry_after_header({"retryAfter": 1.5})
    {'retry-after': '2'}
    """
    match details:
        case {"retryAfter": int() | float() as seconds}:
            return {"retry-after": str(ceil(seconds))}
    return {}
