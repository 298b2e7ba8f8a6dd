"""What a client reads that wants to sign in by itself: the metadata of RFC 9728."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from waybook.endpoints.issuer_settings import IssuerSettings
from waybook.record.scopes import Scope
from waybook.transport.web.replies import json_response

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
                "scopes_supported": [str(scope) for scope in Scope if scope is not Scope.ADMIN],
                "bearer_methods_supported": ["header"],
                "resource_name": "Waybook",
                "resource_documentation": f"{self._base}{DOCUMENTATION}",
            }
        )

    @property
    def _base(self) -> str:
        return self.settings.resource.removesuffix("/mcp")
