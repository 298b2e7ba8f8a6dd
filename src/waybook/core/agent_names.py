"""Names of agents."""

from typing import Final

#: User of the local mode, which has no accounts.
_LOCAL_USER: Final = "local"


def name_of(user: str | None, session: str | None = None, client: str | None = None) -> str:
    """Return the client and the session of an agent. The user owns the agent.

    >>> name_of("ann", "worker-1", "cursor"), name_of("ann", "cursor-7", "Cursor")
    ('cursor · worker-1', 'cursor-7')
    >>> name_of("ann", None, "cursor"), name_of("local", None, "cursor"), name_of(None)
    ('cursor · ann', 'cursor', '')
    """
    owner = "local user" if user == _LOCAL_USER else user or ""
    own = session or ("" if client and user == _LOCAL_USER else owner)
    named = client and not own.casefold().startswith(client.casefold())
    return " · ".join(filter(None, (client if named else "", own)))
