"""MCP argument completion for plan ids and run ids."""

from dataclasses import dataclass
from typing import Final

import mcp_types as wire

from waybook.transport.errors import Context
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.resource_uris import KINDS
from waybook.transport.mcp.resources import OpenItem, open_plans, open_runs

_MAX_COMPLETIONS: Final = 100

PROMPTS: Final = {"resume_plan": ("planId", False), "work_on_run": ("runId", True)}
URIS: Final = {kind.uri: kind.of_runs for kind in KINDS if kind.argument in {"planId", "runId"}}


@dataclass(frozen=True, slots=True)
class Completions:
    gateway: ToolGateway

    async def complete(
        self, context: Context, params: wire.CompleteRequestParams
    ) -> wire.CompleteResult:
        of_runs = _is_run_argument(params)
        if of_runs is None:
            return wire.CompleteResult(completion=wire.Completion(values=[]))
        items, more = await self._open(context, of_runs=of_runs)
        values = [item.id for item in items if matches(item, params.argument.value)]
        more = more or len(values) > _MAX_COMPLETIONS
        return wire.CompleteResult(
            completion=wire.Completion(values=values[:_MAX_COMPLETIONS], has_more=more)
        )

    async def _open(self, context: Context, *, of_runs: bool) -> tuple[tuple[OpenItem, ...], bool]:
        if of_runs:
            return await open_runs(self.gateway, context), False
        page = await open_plans(self.gateway, context)
        return page.plans, page.next_cursor is not None


def _is_run_argument(params: wire.CompleteRequestParams) -> bool | None:
    name = params.argument.name
    match params.ref:
        case wire.PromptReference(name=prompt) if prompt in PROMPTS:
            argument, of_runs = PROMPTS[prompt]
            return of_runs if name == argument else None
        case wire.ResourceTemplateReference(uri=uri) if name == "id":
            return URIS.get(uri)
    return None


def matches(item: OpenItem, typed: str) -> bool:
    return item.id.startswith(typed) or typed.casefold() in item.name.casefold()
