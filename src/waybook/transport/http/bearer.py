"""Bearer token header and challenge (RFC 6750), and protected resource metadata (RFC 9728)."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from waybook.core.decision_context import Scope as DecisionContextScope
from waybook.integrations.config import IssuerSettings
from waybook.transport.http.request_checks import header_values
from waybook.transport.http.responses import json_response

_REALM: Final = "waybook"
_BEARER: Final = re.compile(r"bearer(?: +(?P<secret>.*))?", re.IGNORECASE | re.ASCII | re.DOTALL)


def read_bearer(scope: Scope) -> str | None:
    """Return the token in the `Authorization` header: None if absent, empty if malformed.

    A request with two such headers is rejected, because a proxy may have checked only one of them.
    """
    values = header_values(scope, b"authorization")
    if not values:
        return None
    matched = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if len(values) > 1 or matched is None:
        return "" if len(values) > 1 else None
    return matched["secret"] or ""


def challenge(token: str | None, metadata_url: str | None = None) -> str:
    """Return the `WWW-Authenticate` header for a missing, malformed or invalid token.

    >>> challenge(None), challenge("").partition(", ")[2].partition(", ")[0]
    ('Bearer realm="waybook"', 'error="invalid_token"')
    """
    parts = [f'Bearer realm="{_REALM}"']
    if token is not None:
        parts.append('error="invalid_token"')
        parts.append('error_description="The token is unknown, malformed, expired or revoked"')
    if metadata_url is not None:
        parts.append(f'resource_metadata="{metadata_url}"')
    return ", ".join(parts)


def insufficient_scope_header(details: object) -> dict[str, str]:
    """Return a challenge that names the missing scopes, if the error details list them.

    >>> insufficient_scope_header({"needed": ["plan:read"]})["www-authenticate"]
    'Bearer realm="waybook", error="insufficient_scope", scope="plan:read"'
    """
    match details:
        case {"needed": list() as scopes}:
            params = f'error="insufficient_scope", scope="{" ".join(map(str, scopes))}"'
            return {"www-authenticate": f'Bearer realm="{_REALM}", {params}'}
    return {}


_WELL_KNOWN_PATH: Final = "/.well-known/oauth-protected-resource"


def metadata_url(settings: IssuerSettings) -> str:
    return f"{settings.resource.removesuffix('/mcp')}{_WELL_KNOWN_PATH}/mcp"


def metadata_routes(settings: IssuerSettings) -> list[Route]:
    """Return the routes of the metadata that tells clients how to sign in at `/mcp`.

    The metadata names the identity provider and the accepted scopes. Some clients read the metadata
    at the root.
    """
    scopes = [scope for scope in DecisionContextScope if scope is not DecisionContextScope.ADMIN]
    metadata = {
        "resource": settings.resource,
        "authorization_servers": [settings.issuer],
        "scopes_supported": [str(scope) for scope in scopes],
        "bearer_methods_supported": ["header"],
        "resource_name": "Waybook",
        "resource_documentation": f"{settings.resource.removesuffix('/mcp')}/sign-in",
    }

    async def serve(_: Request) -> Response:
        return json_response(metadata)

    return [Route(path, serve) for path in (_WELL_KNOWN_PATH, f"{_WELL_KNOWN_PATH}/mcp")]
