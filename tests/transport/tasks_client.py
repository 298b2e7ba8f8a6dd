"""Extension of an MCP client for MCP tasks, and requests about these tasks."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as wire
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession

from waybook.transport.mcp.tools import TASKS_EXTENSION

ENDED = frozenset({"completed", "failed", "cancelled"})


class CreatedTask(wire.Result):
    result_type: Literal["task"]
    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class TaskRequest(wire.Request[dict[str, Any], str]):
    """Request about a task, with the task id also in an HTTP header."""

    name_param = "taskId"


class AnyResult(wire.Result, extra="allow"):
    """Result model that accepts any fields."""


async def send(session: ClientSession, method: str, task_id: str, **more: object) -> dict[str, Any]:
    request = TaskRequest(method=method, params={"taskId": task_id, **more})
    result = await session.send_request(request, AnyResult)
    fields = dict(result.model_extra or {})
    assert fields.pop("resultType") == "complete"
    return fields


@dataclass
class Tasks(ClientExtension):
    """Client extension that polls each task until it ends.

    It does not wait between two polls, but calls `between`, in which a test can decide or cancel
    the review of the task.
    """

    between: Callable[[CreatedTask], Awaitable[None]] | None = None
    created: list[CreatedTask] = field(default_factory=list)
    polled: list[dict[str, Any]] = field(default_factory=list)

    identifier = TASKS_EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, task: CreatedTask, context: ClaimContext) -> wire.CallToolResult:
        self.created.append(task)
        while True:
            polled = await send(context.session, "tasks/get", task.task_id)
            self.polled.append(polled)
            if polled["status"] in ENDED:
                return wire.CallToolResult.model_validate(polled.get("result", {"content": []}))
            assert self.between is not None
            await self.between(task)
