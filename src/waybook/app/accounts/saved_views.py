"""Saved views of a user: filters of a list, stored under a name."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from waybook.app.queries.inbox import PendingCounts, pending_count_statement
from waybook.app.request.request_context import RequestContext
from waybook.errors import InvalidInput
from waybook.store import saved_views
from waybook.store.saved_views import SavedViewRow

SavedView: TypeAlias = SavedViewRow

MAX_VIEWS: Final = 20
MAX_NAME_LENGTH: Final = 60
MAX_QUERY_LENGTH: Final = 1_000


async def pending_and_views(
    ctx: RequestContext, page: str
) -> tuple[PendingCounts, Sequence[SavedView]]:
    (counts,), views = await ctx.read(
        pending_count_statement(),
        saved_views.views_statement(ctx.caller.user, page, MAX_VIEWS),
    )
    return counts, views


async def save_view(ctx: RequestContext, page: str, name: str, query: str) -> None:
    """Save a view, replacing the caller's view of the same name.

    Raises:
        InvalidInput: the name or the query is empty or too long, or there are too many views.
    """
    name = " ".join(name.split())
    if not name.isprintable() or not 1 <= len(name) <= MAX_NAME_LENGTH:
        raise InvalidInput(
            f"Enter a name of 1 to {MAX_NAME_LENGTH} printable characters.", argument="name"
        )
    if not 1 <= len(query) <= MAX_QUERY_LENGTH:
        raise InvalidInput("Set a filter of the list first, then save it.", argument="query")
    statements = saved_views.save_statements(
        ctx.caller.user, page, SavedView(name, query), MAX_VIEWS
    )
    *_, refused = await ctx.write_and_read(*statements)
    if refused:
        raise InvalidInput(f"You have {MAX_VIEWS} views of this list. Delete one of them first.")


async def delete_view(ctx: RequestContext, page: str, name: str) -> None:
    await ctx.write_and_read(saved_views.delete_statement(ctx.caller.user, page, name))
