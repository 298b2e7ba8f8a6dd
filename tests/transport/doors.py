"""A doorway for tests: it remembers who came in with what, and answers as it was told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from starlette.requests import Request

from waybook.transport.door import Answer, Caller, Tool
from waybook.transport.entrance import Entrance

SOMEBODY = Caller(org_id=UUID(int=1), user="somebody", channel="mcp")

PLANS = [
    {"planId": f"plan-{number}", "name": f"Plan {number}", "status": "executing", "progress": 40}
    for number in (1, 2)
]
SKILLS = [
    {"name": "market-scan", "description": "Scan a market."},
    {"name": "resume_plan", "description": "Takes a name that is not free."},
]
ANSWERS: Mapping[str, Answer] = {
    "list_active_plans": Answer({"plans": PLANS, "total": 2, "nextCursor": None}, is_error=False),
    "get_research_context": Answer({"planId": "plan-1", "steps": []}, is_error=False),
    "list_skills": Answer({"skills": SKILLS}, is_error=False),
}


def a_refusal(code: str, message: str = "It cannot be.") -> Answer:
    error: dict[str, object] = {"code": code, "message": message, "details": {}, "next": None}
    return Answer({"error": error}, is_error=True)


@dataclass(frozen=True, slots=True)
class RememberingDoorway:
    """Answers what it was told for a tool, else with what it was given."""

    answers: Mapping[str, Answer] = field(default_factory=lambda: ANSWERS)
    calls: list[tuple[Caller, str, dict[str, object]]] = field(default_factory=list)
    requests: list[Request | None] = field(default_factory=list)

    async def enter(self, caller: Caller, tool: str, arguments: Mapping[str, object]) -> Answer:
        self.calls.append((caller, tool, dict(arguments)))
        echo = Answer({"tool": tool, "arguments": dict(arguments)}, is_error=False)
        return self.answers.get(tool, echo)


async def somebody(_: Request | None) -> Caller:
    return SOMEBODY


def an_entrance(doorway: RememberingDoorway) -> Entrance:
    async def opened() -> RememberingDoorway:
        return doorway

    async def whoever(request: Request | None) -> Caller:
        doorway.requests.append(request)
        return SOMEBODY

    return Entrance(opened, whoever)


def a_tool(name: str, *profiles: str, reads_only: bool = False) -> Tool:
    return Tool(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=f"Calls {name}.",
        input_schema={"type": "object", "properties": {}},
        output_schema={"type": "object"},
        reads_only=reads_only,
        destructive=False,
        idempotent=reads_only,
        profiles=frozenset(profiles),
    )


TOOLS = {
    tool.name: tool
    for tool in (
        a_tool("get_next_step", "plan", "research"),
        a_tool("submit_step_result", "plan", "research"),
        a_tool("list_active_plans", "plan", reads_only=True),
        a_tool("store_research", "research"),
        a_tool("start_run", "runs"),
        a_tool("list_skills", "research", reads_only=True),
    )
}


async def always() -> bool:
    return True
