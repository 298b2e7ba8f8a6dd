"""Addresses within a page: the same page with another filter, or the next piece of a list."""

from urllib.parse import urlencode

from starlette.requests import Request


def current_url_with(request: Request, **changes: str | int | None) -> str:
    """The address of this page with some of its questions changed; None takes one away."""
    asked = {**request.query_params, **changes}
    asked.pop("part", None)
    told = urlencode({name: value for name, value in asked.items() if value not in {None, ""}})
    return f"{request.url.path}?{told}" if told else request.url.path


def query_param(request: Request, name: str) -> str | None:
    """What is asked under this name; nothing and an empty text are the same."""
    text = request.query_params.get(name, "").strip()
    # What PostgreSQL cannot keep, it cannot find either.
    return text.replace("\x00", "") or None
