"""URLs and labels of the pages of agents."""

from collections.abc import Sequence
from urllib.parse import urlencode

from waybook.transport.http.html.run_urls import to_segment


def agent_url(name: str, session: str | None = None, **query: str) -> str:
    """Return the URL of an agent's page. An agent is a user and a session.

    >>> agent_url("ann", "chat 7"), agent_url("a/b", day="2030-01-31")
    ('/agents/ann?session=chat+7', '/agents/a~1b?day=2030-01-31')
    """
    named = {"session": session or "", **query}
    text = urlencode({field: value for field, value in named.items() if value})
    return f"/agents/{to_segment(name)}{text and '?'}{text}"


def session_label(session: str, clients: Sequence[str] = ()) -> str:
    """Return the session of an agent or, without a session, the names of its clients.

    >>> session_label("chat 7", ["cursor"]), session_label("", ["cursor"]), session_label("")
    ('chat 7', 'cursor, no session', 'no session')
    """
    return session or ", ".join((*clients, "no session"))
