"""JSON responses, and error responses in the format of the tool dispatcher."""

from collections.abc import Mapping
from math import ceil

from starlette.responses import Response

from waybook.transport.jsonrpc import compact_json, error_body


def json_response(
    body: Mapping[str, object], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    all_headers = {"cache-control": "no-store", **(headers or {})}
    return Response(compact_json(body), status, all_headers, media_type="application/json")


def error_response(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    return json_response(error_body(code, message), status, headers)


def retry_after_header(details: object) -> dict[str, str]:
    """Return a `Retry-After` header if the error details contain a delay.

    >>> retry_after_header({"retryAfter": 1.5})
    {'retry-after': '2'}
    """
    match details:
        case {"retryAfter": int() | float() as seconds}:
            return {"retry-after": str(ceil(seconds))}
    return {}
