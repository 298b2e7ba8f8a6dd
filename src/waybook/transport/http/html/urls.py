"""URLs of the pages of runs and agents."""

from collections.abc import Sequence
from urllib.parse import quote, urlencode


def run_step_url(run_id: str, stage: str, key: str) -> str:
    """Return the URL of the page of a run's step.

    Slugs and keys may contain any character. A slash is escaped as in a JSON pointer, because
    servers decode `%2F` before they match routes.

    >>> run_step_url("r", "a/b", "c d~")
    '/runs/r/steps/a~1b/c%20d~0'
    """
    return f"/runs/{run_id}/steps/{_to_segment(stage)}/{_to_segment(key)}"


def run_stage_url(run_id: str, stage: str) -> str:
    return f"/runs/{run_id}/stages/{_to_segment(stage)}"


def _to_segment(text: str) -> str:
    return quote(text.replace("~", "~0").replace("/", "~1"), safe="~")


def from_segment(text: str) -> str:
    """Return the slug or key in a segment of a URL from `run_step_url`.

    >>> from_segment("a~1b"), from_segment("c d~0")
    ('a/b', 'c d~')
    """
    return text.replace("~1", "/").replace("~0", "~")


def run_document_url(run_id: str, resource_id: str) -> str:
    return f"/runs/{run_id}/documents/{resource_id}"


def agent_url(name: str, session: str | None = None, **query: str) -> str:
    """Return the URL of an agent's page. An agent is a user and a session.

    >>> agent_url("ann", "chat 7"), agent_url("a/b", day="2030-01-31")
    ('/agents/ann?session=chat+7', '/agents/a~1b?day=2030-01-31')
    """
    named = {"session": session or "", **query}
    text = urlencode({field: value for field, value in named.items() if value})
    return f"/agents/{_to_segment(name)}{text and '?'}{text}"


def session_label(session: str, clients: Sequence[str] = ()) -> str:
    """Return the session of an agent or, without a session, the names of its clients.

    >>> session_label("chat 7", ["cursor"]), session_label("", ["cursor"]), session_label("")
    ('chat 7', 'cursor, no session', 'no session')
    """
    return session or ", ".join((*clients, "no session"))
