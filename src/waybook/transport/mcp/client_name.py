"""Name of the program that calls a tool over MCP."""

from typing import Final

from waybook.redaction import redact
from waybook.transport.errors import Context

#: Clients choose their names, so the length is limited.
MAX_CLIENT_LENGTH: Final = 80


def client_name(context: Context) -> str | None:
    params = context.session.client_params
    if params is not None:
        return clean_name(params.client_info.name)
    agent = context.request.headers.get("user-agent", "") if context.request else ""
    return clean_name(product_of(agent))


def product_of(user_agent: str) -> str:
    """Return the first product name in a User-Agent header, without its version.

    >>> product_of("claude-code/2.1.3 (cli)"), product_of("node"), product_of("")
    ('claude-code', 'node', '')
    """
    return user_agent.partition("/")[0].partition("(")[0]


def clean_name(name: str) -> str | None:
    r"""Return a name on one line, cut and without secrets, or None if it is empty.

    >>> clean_name(" Cursor\n"), clean_name("\0")
    ('Cursor', None)
    """
    printable = "".join(character if character.isprintable() else " " for character in name)
    return redact(" ".join(printable.split()))[:MAX_CLIENT_LENGTH] or None
