"""Bearer token header and challenge (RFC 6750), and protected resource metadata (RFC 9728)."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

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


class PresentedToken(NamedTuple):
    """Bearer token in a request: absent, well-formed, or malformed."""

    #: Whether the request has a bearer token, even a malformed one.
    present: bool = False
    secret: str | None = None


def read_bearer(scope: Scope) -> PresentedToken:
    """Return the token in the `Authorization` header.

    A request with two such headers is rejected, because a proxy may have checked only one of them.
    """
    values = header_values(scope, b"authorization")
    if not values:
        return PresentedToken()
    matched = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if len(values) > 1 or matched is None:
        return PresentedToken(present=len(values) > 1)
    return PresentedToken(present=True, secret=matched["secret"] or None)


def challenge(shown: PresentedToken, metadata_url: str | None = None) -> str:
    """Return the `WWW-Authenticate` header for a missing or invalid token.

    >>> challenge(PresentedToken())
    'Bearer realm="waybook"'
    >>> challenge(PresentedToken(present=True)).partition(", ")[2].partition(", ")[0]
    'error="invalid_token"'
    """
    parts = [f'Bearer realm="{_REALM}"']
    if shown.present:
        parts.append('error="invalid_token"')
        parts.append('error_description="The token is unknown, malformed, expired or revoked"')
    if metadata_url is not None:
        parts.append(f'resource_metadata="{metadata_url}"')
    return ", ".join(parts)


def insufficient_scope_header(details: object) -> dict[str, str]:
    """Return a challenge with the scopes that the credential lacks, if the error lists them.

    >>> insufficient_scope_header({"needed": ["plan:read"]})["www-authenticate"]
    'Bearer realm="waybook", error="insufficient_scope", scope="plan:read"'
    """
    match details:
        case {"needed": list() as scopes}:
            params = f'error="insufficient_scope", scope="{" ".join(map(str, scopes))}"'
            return {"www-authenticate": f'Bearer realm="{_REALM}", {params}'}
    return {}


_WELL_KNOWN_PATH: Final = "/.well-known/oauth-protected-resource"
_DOCUMENTATION: Final = "/sign-in"


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """Metadata that tells clients which identity provider and which scopes `/mcp` accepts."""

    settings: IssuerSettings

    @property
    def address(self) -> str:
        return f"{self._base}{_WELL_KNOWN_PATH}/mcp"

    def routes(self) -> list[Route]:
        """Return the metadata routes. Some clients read the metadata at the root."""
        return [Route(path, self.serve) for path in (_WELL_KNOWN_PATH, f"{_WELL_KNOWN_PATH}/mcp")]

    async def serve(self, _: Request) -> Response:
        return json_response(
            {
                "resource": self.settings.resource,
                "authorization_servers": [self.settings.issuer],
                "scopes_supported": [
                    str(scope)
                    for scope in DecisionContextScope
                    if scope is not DecisionContextScope.ADMIN
                ],
                "bearer_methods_supported": ["header"],
                "resource_name": "Waybook",
                "resource_documentation": f"{self._base}{_DOCUMENTATION}",
            }
        )

    @property
    def _base(self) -> str:
        return self.settings.resource.removesuffix("/mcp")
