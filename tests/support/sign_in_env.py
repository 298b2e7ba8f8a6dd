"""Complete HTTP application with an OpenID Connect issuer, and two orgs."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import httpx2
from starlette.types import ASGIApp

from fake_issuer import FakeIssuer, fake_issuer
from org_env import OrgEnv, make_application
from waybook.cli.operator.serve import build_http_app
from waybook.integrations.config import issuer_from_settings
from waybook.integrations.oidc_issuer import Issuer
from waybook.integrations.oidc_login import IssuerClient
from waybook.settings import LoadedSettings, Settings
from waybook.transport.http.server import address, listen, serve_in_background


@dataclass
class Team:
    """Test environment, OpenID Connect issuer, and the client that calls the issuer."""

    world: OrgEnv
    there: FakeIssuer
    issuer: IssuerClient | None
    settings: Settings

    def app(self) -> ASGIApp:
        services = make_application(self.world.dispatcher, self.settings)
        return build_http_app(services, LoadedSettings(self.settings, {}), self.issuer)

    def browser(self, base_url: str = "http://localhost") -> httpx2.AsyncClient:
        """Return an HTTP client that keeps cookies and does not follow redirects."""
        transport = httpx2.ASGITransport(self.app())
        return httpx2.AsyncClient(transport=transport, base_url=base_url)


def slug_of(org_id: UUID) -> str:
    return f"org-{org_id}"


def server_settings(there: FakeIssuer, **more: object) -> Settings:
    known: dict[str, object] = {
        "auth": "required",
        "tools": "all",
        "public_url": "http://localhost",
        "oidc_issuer": there.url,
        "oidc_org": "claim:org",
        "oidc_client_id": "waybook-pages",
        "oidc_client_secret": "hush hush",
    }
    return Settings(**{**known, **more})  # type: ignore[arg-type]  # fields of Settings


@asynccontextmanager
async def make_team(world: OrgEnv, **more: object) -> AsyncIterator[Team]:
    """Yield a `Team` whose issuer knows the user Ann and has the clock of `world`."""
    async with fake_issuer() as there:
        there.now = world.clock.now
        there.person = {"sub": "ann-1", "org": slug_of(world.agent.org_id)}
        settings = server_settings(there, **more)
        configured = issuer_from_settings(settings)
        assert configured is not None
        there.audience = configured.audience
        issuer = Issuer(configured)
        yield Team(world, there, issuer, settings)
        await issuer.close()


@asynccontextmanager
async def serve_team(world: OrgEnv, **more: object) -> AsyncIterator[tuple[Team, str]]:
    listening: socket.socket = listen("127.0.0.1", 0)
    where = address(listening)
    async with (
        make_team(world, public_url=where, **more) as team,
        serve_in_background(team.app(), listening, world.dispatcher.bus.close),
    ):
        yield team, where
