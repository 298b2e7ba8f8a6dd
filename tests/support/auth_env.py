"""Helpers for tests with authentication: users, tokens, and the HTTP application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from string import Template

import httpx2
import psycopg
from starlette.types import ASGIApp

from org_env import AgentClient, OrgEnv, make_application
from postgres_servers import ServerDatabase
from waybook.accounts.model import NewUser
from waybook.app.accounts.members import (
    DEFAULT_SCOPES,
    IssuedToken,
    add_token,
    add_user,
)
from waybook.app.request.request_context import RequestContext
from waybook.cli.operator.serve import build_http_app
from waybook.core.decision_context import Scope
from waybook.settings import LoadedSettings, Settings
from waybook.transport.http.server import listen, serve_in_background

EVERYTHING = (Scope.ADMIN,)


def at(agent: AgentClient) -> RequestContext:
    """Return the request context of a call by this agent."""
    return RequestContext(services=agent.dispatcher.services, caller=agent.caller)


async def make_token(
    agent: AgentClient,
    name: str = "ann",
    *,
    may: tuple[Scope, ...] = EVERYTHING,
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES,
    days: int | None = 90,
    email: str | None = None,
) -> IssuedToken:
    """Add a user with these scopes to the agent's org; return an API token of that user."""
    await add_user(at(agent), NewUser(name=name, scopes=may, email=email))
    return await another_token(agent, name, scopes=scopes, days=days)


async def another_token(
    agent: AgentClient,
    name: str = "ann",
    *,
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES,
    days: int | None = 90,
) -> IssuedToken:
    return await add_token(at(agent), name, f"a token of {name}", scopes, days=days)


def bearer(issued: IssuedToken) -> dict[str, str]:
    return {"authorization": f"Bearer {issued.secret}"}


#: A text that contains this many successive characters of a secret is assumed to leak it.
PIECE = 12


def leaks(text: str, secret: str) -> bool:
    """Return whether a text contains 12 successive characters of a secret, as text or as hex."""
    pieces = {secret[at : at + PIECE] for at in range(len(secret) - PIECE + 1)}
    return any(piece in text or piece.encode().hex() in text for piece in pieces)


def authenticated_app(world: OrgEnv, **more: object) -> ASGIApp:
    settings = Settings(auth="required", tools="all", **more)  # type: ignore[arg-type]
    services = make_application(world.dispatcher, settings)
    return build_http_app(services, LoadedSettings(settings, {}))


@asynccontextmanager
async def open_visitor(world: OrgEnv, **more: object) -> AsyncIterator[httpx2.AsyncClient]:
    app = authenticated_app(world, **more)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://localhost"
    ) as client:
        yield client


@asynccontextmanager
async def served(world: OrgEnv, **more: object) -> AsyncIterator[str]:
    app = authenticated_app(world, **more)
    async with serve_in_background(
        app, listen("127.0.0.1", 0), world.dispatcher.bus.close
    ) as address:
        yield address


#: Query for a hash of all rows of a table.
DIGEST = "select md5(coalesce(string_agg(t::text, '|' order by t::text), '')) from $table t"


def everything_stored(place: ServerDatabase) -> dict[str, str]:
    """Return a hash of the rows of each table, for all orgs."""
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        tables = admin.execute(
            "select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace"
            " and c.relkind in ('r', 'p') order by 1"
        ).fetchall()
        queries = {name: Template(DIGEST).substitute(table=name) for (name,) in tables}
        return {
            name: str(admin.execute(text.encode()).fetchone()) for name, text in queries.items()
        }
