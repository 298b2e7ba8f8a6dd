"""JSON responses, error responses in the format of the tool dispatcher, and cookies."""

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.jsonrpc import compact_json, error_body

_STATUS: Final[Mapping[str, HTTPStatus]] = {
    "NOT_FOUND": HTTPStatus.NOT_FOUND,
    "TOO_LARGE": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "FORBIDDEN": HTTPStatus.FORBIDDEN,
    "RATE_LIMITED": HTTPStatus.TOO_MANY_REQUESTS,
    "BUSY": HTTPStatus.SERVICE_UNAVAILABLE,
    "DISK_FULL": HTTPStatus.SERVICE_UNAVAILABLE,
    "UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
}


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


#: The `WWW-Authenticate` header begins with this scheme (RFC 6750).
REALM: Final = 'Bearer realm="waybook"'


def insufficient_scope_header(details: object) -> dict[str, str]:
    """Return a challenge that names the missing scopes, if the error details list them.

    >>> insufficient_scope_header({"needed": ["plan:read"]})["www-authenticate"]
    'Bearer realm="waybook", error="insufficient_scope", scope="plan:read"'
    """
    match details:
        case {"needed": list() as scopes}:
            params = f'error="insufficient_scope", scope="{" ".join(map(str, scopes))}"'
            return {"www-authenticate": f"{REALM}, {params}"}
    return {}


def answer_error_response(body: Mapping[str, object]) -> Response:
    match body:
        case {"error": {"code": str() as code, "details": details}}:
            headers = {**retry_after_header(details), **insufficient_scope_header(details)}
            return json_response(body, http_status(code), headers)
    return json_response(body, HTTPStatus.BAD_REQUEST)


def http_status(code: str | None) -> HTTPStatus:
    return _STATUS.get(code or "", HTTPStatus.BAD_REQUEST)


def write_cookie(
    request: Request,
    reply: Response,
    name: str,
    value: str,
    seconds: int | None = None,
    sent: Literal["strict", "lax"] = "strict",
) -> None:
    reply.set_cookie(
        name,
        value,
        max_age=seconds,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite=sent,
    )
