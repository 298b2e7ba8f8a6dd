"""Bar above a list with its saved views."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from waybook.app.accounts.saved_views import MAX_NAME_LENGTH, SavedView

#: Query parameters that a saved view keeps. The position in the list is not kept.
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "plans": ("state", "q", "mine"),
        "runs": ("state", "dag", "q"),
        "audit": ("subject", "event", "actor", "session", "channel", "since", "until"),
    }
)
MAX_PARAMETERS: Final = 30


class ViewLink(NamedTuple):
    name: str
    path: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBar:
    page: str
    views: tuple[ViewLink, ...]
    query: str
    max_length: int = MAX_NAME_LENGTH


def view_bar(page: str, query: str, views: Iterable[SavedView]) -> ViewBar:
    current = view_query(page, query)
    return ViewBar(
        page=page,
        views=tuple(
            ViewLink(view.name, f"/{page}?{view.query}", view.query == current) for view in views
        ),
        query=current,
    )


def view_query(page: str, query: str) -> str:
    """Return the part of a query string that filters the list.

    >>> view_query("plans", "q=a+b&before=1&state=failed&mine=")
    'state=failed&q=a+b'
    """
    try:
        fields = dict(parse_qsl(query, max_num_fields=MAX_PARAMETERS))
    except ValueError:
        return ""
    return urlencode({name: fields[name] for name in PARAMETERS[page] if fields.get(name)})
