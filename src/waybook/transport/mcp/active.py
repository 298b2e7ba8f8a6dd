"""The active plans of whoever asks, as lists of resources and completions need them."""

from dataclasses import dataclass

from waybook.transport.entrance import Entrance
from waybook.transport.mcp.refusals import Context, refused


@dataclass(frozen=True, slots=True)
class ActivePlan:
    """A plan that is neither completed nor failed; `standing` is where it is, in words."""

    id: str
    name: str
    standing: str


@dataclass(frozen=True, slots=True)
class Page:
    plans: tuple[ActivePlan, ...]
    next_cursor: str | None


async def active_plans(entrance: Entrance, context: Context, cursor: str | None = None) -> Page:
    """One page of them, newest activity first.

    Raises:
        MCPError: the doorway refused, or is out of order.
    """
    arguments = {"cursor": cursor} if cursor is not None else {}
    answer = await entrance.enter(context.request, "list_active_plans", arguments)
    if answer.is_error:
        raise refused(answer, "The active plans cannot be listed")
    plans, next_cursor = answer.body.get("plans"), answer.body.get("nextCursor")
    return Page(
        plans=tuple(map(active_plan, plans)) if isinstance(plans, list) else (),
        next_cursor=next_cursor if isinstance(next_cursor, str) else None,
    )


def active_plan(item: dict[str, object]) -> ActivePlan:
    """A plan of the list, as `list_active_plans` writes it."""
    return ActivePlan(
        id=str(item["planId"]),
        name=str(item["name"]),
        standing=f"{item['status']}, {item['progress']} % done",
    )
