"""The `Authorization` header and its challenge, as RFC 6750 has them.

What a client reads that wants to sign in by itself: the metadata of RFC 9728.
"""

import re
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from waybook.core.decision_context import Scope as DecisionContextScope
from waybook.integrations.config import IssuerSettings
from waybook.transport.http.request_checks import header_values
from waybook.transport.http.responses import json_response

REALM: Final = "waybook"
_BEARER: Final = re.compile(r"bearer(?: +(?P<secret>.*))?", re.IGNORECASE | re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """What a request shows: nothing of our kind, one secret, or something that is none."""

    #: Whether it tried to show something.
    present: bool = False
    secret: str | None = None


def read_bearer(scope: Scope) -> PresentedToken:
    """The secret in a request's header; anywhere else it does not count.

    Two headers are one too many: whoever stands before us may have looked at the other one.
    """
    values = header_values(scope, b"authorization")
    if not values:
        return PresentedToken()
    matched = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if len(values) > 1 or matched is None:
        return PresentedToken(present=len(values) > 1)
    return PresentedToken(present=True, secret=matched["secret"] or None)


def challenge(shown: PresentedToken, metadata_url: str | None = None) -> str:
    """What to show, told to whoever showed nothing, or something that does not count.

    >>> challenge(PresentedToken())
    'Bearer realm="waybook"'
    >>> challenge(PresentedToken(present=True)).partition(", ")[2].partition(", ")[0]
    'error="invalid_token"'
    """
    told = [f'Bearer realm="{REALM}"']
    if shown.present:
        told.append('error="invalid_token"')
        told.append('error_description="The token is unknown, malformed, expired or revoked"')
    if metadata_url is not None:
        told.append(f'resource_metadata="{metadata_url}"')
    return ", ".join(told)


def insufficient_scope_header(details: object) -> dict[str, str]:
    """Which scope a credential that counts has not got, as a header, if an error says so.

    >>> insufficient_scope_header({"needed": ["plan:read"]})["www-authenticate"]
    'Bearer realm="waybook", error="insufficient_scope", scope="plan:read"'
    """
    match details:
        case {"needed": list() as scopes}:
            told = f'error="insufficient_scope", scope="{" ".join(map(str, scopes))}"'
            return {"www-authenticate": f'Bearer realm="{REALM}", {told}'}
    return {}


WELL_KNOWN_PATH: Final = "/.well-known/oauth-protected-resource"
#: Where it is read how to come in.
DOCUMENTATION: Final = "/sign-in"


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """Which issuer's tokens open `/mcp`, and what they can be asked for."""

    settings: IssuerSettings

    @property
    def address(self) -> str:
        """Where it is, for a challenge to name."""
        return f"{self._base}{WELL_KNOWN_PATH}/mcp"

    def routes(self) -> list[Route]:
        """At the place of the resource, and where those look who do not know its path."""
        return [Route(path, self.serve) for path in (WELL_KNOWN_PATH, f"{WELL_KNOWN_PATH}/mcp")]

    async def serve(self, _: Request) -> Response:
        """The metadata."""
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
                "resource_documentation": f"{self._base}{DOCUMENTATION}",
            }
        )

    @property
    def _base(self) -> str:
        return self.settings.resource.removesuffix("/mcp")
