"""Check that the answer to an id of another org does not reveal that the id exists."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from org_env import AgentClient, Body
from tool_arguments import ids_within
from tool_calls import valid_call
from waybook.app.context.parts import PARTS_BY_ID, STEP_PARTS
from waybook.app.registry import TOOLS
from waybook.app.request.caller import Answer
from waybook.core.ids import is_id
from waybook.store.driver.queries import new_id, new_uuid

#: Path to an id in the arguments of a tool: the names of the nested arguments.
Place = tuple[str, ...]
#: Tool arguments that take an id, each with its tool and its path. `part` is one of them, because
#: the name of a context part may contain an id.
PLACES: list[tuple[str, Place]] = [
    *((tool, path) for tool in TOOLS for path in ids_within(TOOLS[tool].arguments)),
    ("get_step_context", ("part",)),
    ("get_research_context", ("part",)),
]
PARTS = (*STEP_PARTS, *PARTS_BY_ID)
MODIFICATIONS: list[Body] = [
    {"remove_step": {"stepId": ""}},
    {"update_step_instructions": {"stepId": "", "instructions": "x"}},
    {"fail_step": {"stepId": "", "reason": "x"}},
    {"retry_step": {"stepId": ""}},
    {"reorder_steps": {"stepIds": [""]}},
    {"set_dependencies": {"stepId": "", "dependsOn": []}},
    {"set_conditions": {"stepId": "", "branchingConditions": []}},
    {"set_title": {"stepId": ""}},
    {"set_touches": {"stepId": "", "touches": []}},
]


class ForeignCaller(Protocol):
    async def ask(self, tool: str, arguments: Mapping[str, object]) -> Answer:
        """Call a tool and return the reply or the error."""


@dataclass(frozen=True)
class ForeignIdCall:
    """Tool argument that takes an id, and calls that are valid except for this id."""

    tool: str
    path: Place
    calls: list[Body]

    @property
    def name(self) -> str:
        return ".".join((self.tool, *self.path))

    def with_id(self, row_id: str) -> Iterator[Body]:
        for arguments in self.calls:
            yield from _with_id(arguments, self.path, row_id)

    async def answers(
        self, agent: ForeignCaller, row_id: str, id_text: str | None = None
    ) -> list[str]:
        """Return the answers to the calls with this id, with `ID` in place of the id."""
        texts = []
        for arguments in self.with_id(row_id):
            answer = await agent.ask(self.tool, arguments)
            text = json.dumps([answer.is_error, answer.body])
            texts.append(text.replace(id_text or row_id, "ID"))
        return texts

    async def betrayed(self, agent: ForeignCaller, theirs: Mapping[str, str]) -> list[str]:
        """Return the kinds of records whose ids get another answer than an unknown id."""
        expected = {
            has_id: await self.answers(agent, new_id() if has_id else new_uuid())
            for has_id in (True, False)
        }
        assert expected[True], self.name
        return [
            kind
            for kind, row in theirs.items()
            if await self.answers(agent, row) != expected[is_id(row)]
        ]


async def foreign_id_calls(agent: AgentClient) -> list[ForeignIdCall]:
    return [await _asking(agent, tool, path) for tool, path in PLACES]


async def _asking(agent: AgentClient, tool: str, path: Place) -> ForeignIdCall:
    arguments = await valid_call(agent, tool, using=path[0])
    calls = [arguments]
    if tool == "modify_plan" and len(path) > 1:
        calls = [{**arguments, "modifications": [m]} for m in MODIFICATIONS if path[1] in m]
    return ForeignIdCall(tool, path, calls)


def _with_id(arguments: Body, path: Place, row_id: str) -> Iterator[Body]:
    """Yield copies of the arguments with this id at the path.

    If the path leads through a list of objects, each copy has the id in another object. For the
    argument `part`, each copy names another kind of part.
    """
    name, *rest = path
    if name == "part":
        yield from ({**arguments, name: f"{kind}:{row_id}"} for kind in PARTS)
    elif not rest:
        yield {**arguments, name: [row_id] if name.endswith("Ids") else row_id}
    else:
        yield from _deeper(arguments, name, tuple(rest), row_id)


def _deeper(arguments: Body, name: str, rest: Place, row_id: str) -> Iterator[Body]:
    if isinstance(arguments[name], dict):
        for changed in _with_id(arguments[name], rest, row_id):
            yield {**arguments, name: changed}
        return
    for place, inner in enumerate(arguments[name]):
        if rest[0] in inner:
            for changed in _with_id(inner, rest, row_id):
                items = list(arguments[name])
                items[place] = changed
                yield {**arguments, name: items}
