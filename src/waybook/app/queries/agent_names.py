"""Names of agents, as pages, commands, reports and notifications show them."""

import asyncio
from contextvars import ContextVar
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from waybook.app.request.request_context import RequestContext
from waybook.core.agent_names import name_of
from waybook.core.decision_context import Channel
from waybook.store.agents import SQL, AgentKey, Clients
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement

_MAX_AGE_SECONDS: Final = timedelta(seconds=30).total_seconds()
_MAX_AGENTS: Final = 1_000
_PEOPLE: Final = frozenset({Channel.DASHBOARD, Channel.CLI, Channel.SWEEP})
#: Client of each agent of the org that the current task serves.
_CLIENTS: ContextVar[Clients] = ContextVar("clients", default=MappingProxyType({}))


def agent_name(user: str | None, session: str | None = None, channel: str | None = None) -> str:
    """Return the name of an agent, or of a person for a change made on a page or in the terminal.

    The client is known only after `load_agent_names`, and for the agents seen last.

    >>> agent_name("ann", "worker-1"), agent_name("ann"), agent_name("local")
    ('worker-1', 'ann', 'local user')
    """
    client = "" if channel in _PEOPLE else _CLIENTS.get().get(AgentKey(user or "", session or ""))
    return name_of(user, session if channel not in _PEOPLE else None, client)


async def find_agents(ctx: RequestContext, text: str, most: int) -> list[tuple[AgentKey, str]]:
    """Return agents whose name or user contains every word of a text, with their names."""
    await load_agent_names(ctx)
    words = text.casefold().split()
    named = ((key, agent_name(key.name, key.session)) for key in _CLIENTS.get() if words)
    known = ((key, name, f"{name} {key.name}".casefold()) for key, name in named)
    return [(key, name) for key, name, have in known if all(w in have for w in words)][:most]


async def load_agent_names(ctx: RequestContext, *statements: Statement) -> Results:
    """Learn the clients of the org's agents, and return the results of further statements.

    Both take one message to the database; without further statements and with recent clients, none.
    """
    cached, org_id = ctx.services.database.agent_clients, ctx.caller.org_id
    now = asyncio.get_running_loop().time()
    read_at, clients = cached.get(org_id, (now - _MAX_AGE_SECONDS, None))
    if clients is None or now - read_at >= _MAX_AGE_SECONDS:
        rows, *results = await ctx.read(SQL["clients_of_agents"](most=_MAX_AGENTS), *statements)
        clients = {AgentKey(row.name, row.session): row.client for row in rows}
        cached[org_id] = now, clients
    else:
        results = await ctx.read(*statements) if statements else []
    _CLIENTS.set(clients)
    return results
