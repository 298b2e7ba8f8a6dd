"""What is open for whoever asks, plans and runs, as lists of resources and completions need it."""

from collections.abc import Mapping
from dataclasses import dataclass

from waybook.transport.entrance import ToolGateway
from waybook.transport.mcp.refusals import Context, error_from_answer


@dataclass(frozen=True, slots=True)
class OpenItem:
    """A plan or a run that is open; `standing` is where it is, in words."""

    id: str
    name: str
    status_text: str


@dataclass(frozen=True, slots=True)
class Page:
    plans: tuple[OpenItem, ...]
    next_cursor: str | None


async def open_plans(gateway: ToolGateway, context: Context, cursor: str | None = None) -> Page:
    """One page of the plans, newest activity first.

    Raises:
        MCPError: the doorway refused, or is out of order.
    """
    arguments = {"cursor": cursor} if cursor is not None else {}
    answer = await gateway.call_tool(context.request, "list_active_plans", arguments)
    if answer.is_error:
        raise error_from_answer(answer, "The active plans cannot be listed")
    plans, next_cursor = answer.body.get("plans"), answer.body.get("nextCursor")
    return Page(
        plans=tuple(map(active_plan, plans)) if isinstance(plans, list) else (),
        next_cursor=next_cursor if isinstance(next_cursor, str) else None,
    )


async def open_runs(gateway: ToolGateway, context: Context) -> tuple[OpenItem, ...]:
    """The open runs, newest activity first.

    Raises:
        MCPError: the doorway refused, or is out of order.
    """
    answer = await gateway.call_tool(context.request, "list_dags", {})
    if answer.is_error:
        raise error_from_answer(answer, "The open runs cannot be listed")
    runs = answer.body.get("openRuns")
    return tuple(map(open_run, runs)) if isinstance(runs, list) else ()


def active_plan(item: Mapping[str, object]) -> OpenItem:
    """A plan of the list, as `list_active_plans` writes it."""
    return OpenItem(
        id=str(item["planId"]),
        name=str(item["name"]),
        status_text=f"{item['status']}, {item['progress']} % done",
    )


def open_run(item: Mapping[str, object]) -> OpenItem:
    """A run of the list, as `list_dags` writes it."""
    waiting, current = item["awaitingFeedback"], item["currentStage"]
    where = f"{waiting} awaits feedback" if waiting else f"{current} in progress"
    standing = f"{item['dagSlug']}, {where}, {item['completedSteps']} steps done"
    return OpenItem(id=str(item["runId"]), name=str(item["name"]), status_text=standing)
