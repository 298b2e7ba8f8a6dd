"""Tool calls for people: how many there were of each, how long they took, what went wrong last."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from waybook.store import calls
from waybook.store.calls import CallRecord, read_calls
from waybook.usecases.call import RequestContext

#: As many calls are counted, the latest.
MAX_COUNTED = 100_000
MAX_ERRORS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStats:
    tool: str
    count: int
    errors: int
    #: Milliseconds in the middle, and at the slow end.
    p50: float
    p95: float
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStats:
    tools: tuple[ToolCallStats, ...]
    errors: list[CallRecord]

    @property
    def total(self) -> int:
        return sum(tool.count for tool in self.tools)

    @property
    def failed(self) -> int:
        return sum(tool.errors for tool in self.tools)

    @property
    def cut(self) -> bool:
        """Whether there were more than are counted."""
        return self.total >= MAX_COUNTED


async def count_calls(ctx: RequestContext, window: timedelta) -> CallStats:
    """The calls of an org in the time just gone by, in one look."""
    seconds = int(window.total_seconds())
    tools, errors = await ctx.read(
        calls.SQL["calls_by_tool"](seconds=seconds, most=MAX_COUNTED),
        calls.SQL["last_errors"](seconds=seconds, most=MAX_ERRORS),
    )
    return CallStats(
        tools=tuple(
            ToolCallStats(
                tool=row[0],
                count=row[1],
                errors=row[2],
                p50=row[3],
                p95=row[4],
                last_at=row[5].astimezone(UTC),
            )
            for row in tools
        ),
        errors=read_calls(errors),
    )
