"""For every tool a call that works, with whatever it needs made first.

A tool that is missing here fails the tests that go over all tools, so none can be forgotten.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import get_args

from pydantic import BaseModel

from waybook.doorway import TOOLS
from waybook.usecases.arguments import Mutating
from worlds import Agent, Body, a_step

Prepare = Callable[[Agent], Awaitable[Body]]

MUTATING = sorted(name for name, tool in TOOLS.items() if issubclass(tool.arguments, Mutating))


async def _create(_: Agent) -> Body:
    condition = {
        "afterStepOrder": 1,
        "conditionExpression": "confidence < 0.5",
        "ifTrueAction": "skip_to",
        "actionParams": {"targetStepOrder": 2},
    }
    return {
        "name": "Lakes",
        "researchQuestion": "Which lake is deepest?",
        "steps": [a_step(), a_step(title="Second", stallMinutes=5)],
        "branchingConditions": [condition],
        "outputFormattingNotes": "As a table.",
        "stallMinutes": 20,
    }


async def _next(agent: Agent) -> Body:
    return {"planId": (await agent.plan())["planId"], "another": False}


async def _submit(agent: Agent) -> Body:
    taken = await agent.take(await agent.plan())
    return {
        "stepId": taken["stepId"],
        "resultSummary": {"river": "Nile"},
        "confidence": 0.9,
        "stepExecutionReport": {"sources": 3},
        "outputFormattingNotes": "In bold.",
        "attempt": taken["attempt"],
        "usage": {"tokens": 100},
    }


async def _context(agent: Agent) -> Body:
    taken = await agent.take(await agent.plan())
    return {"stepId": taken["stepId"], "budgetTokens": 2_000}


async def _review(agent: Agent) -> Body:
    taken = await agent.take(await agent.plan())
    return {
        "stepId": taken["stepId"],
        "summary": "Is this right?",
        "questions": ["Is it?"],
        "resultSummary": {"river": "Nile"},
    }


async def _decide(agent: Agent) -> Body:
    asked = await agent.call("request_user_review", **await _review(agent))
    named = {"planId": asked["planId"], "stepId": asked["stepId"]}
    return {**named, "decision": "modify", "feedback": "Add the source."}


async def _modify(agent: Agent) -> Body:
    plan = await agent.plan()
    return {
        "planId": plan["planId"],
        "modifications": [
            {"action": "add_steps", "steps": [a_step()], "insertAfterOrder": 1},
            {"action": "remove_step", "stepId": plan["stepIds"][2]},
        ],
        "modificationRationale": "Better so.",
        "expectedRevision": 1,
        "dryRun": False,
    }


async def _status(agent: Agent) -> Body:
    return {"planId": (await agent.plan())["planId"], "detail": True}


async def _list(agent: Agent) -> Body:
    await agent.plan()
    await agent.plan()
    page = await agent.call("list_active_plans", limit=1)
    return {"limit": 1, "cursor": page["nextCursor"]}


async def _research(agent: Agent) -> Body:
    return {"planId": (await agent.plan())["planId"], "since": 0, "detail": True}


async def _start_skill(_: Agent) -> Body:
    return {"name": "survey", "sessionId": "a session"}


async def _complete_skill(agent: Agent) -> Body:
    started = await agent.call("start_skill", name="survey", sessionId="a session")
    return {"skillExecutionId": started["skillExecutionId"], "outcome": "All seen."}


async def _nothing(_: Agent) -> Body:
    return {}


PREPARE: dict[str, Prepare] = {
    "create_research_plan": _create,
    "get_next_step": _next,
    "submit_step_result": _submit,
    "get_step_context": _context,
    "request_user_review": _review,
    "submit_user_decision": _decide,
    "modify_plan": _modify,
    "get_plan_status": _status,
    "list_active_plans": _list,
    "get_research_context": _research,
    "list_skills": _nothing,
    "start_skill": _start_skill,
    "complete_skill": _complete_skill,
    "ping": _nothing,
}


async def a_call_of(agent: Agent, tool: str) -> Body:
    """Arguments with which a call of this tool works, all but the key and the session given."""
    return await PREPARE[tool](agent)


def arguments_of(tool: str) -> dict[str, str]:
    """The names of a tool's arguments: on the wire, and in the source."""
    return {str(f.alias): name for name, f in TOOLS[tool].arguments.model_fields.items()}


def ids_within(arguments: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Where ids of ours stand in these arguments, at whatever depth, by their wire names.

    A session is the caller's own name for something, no id of ours.
    """
    for name, field in arguments.model_fields.items():
        if name.endswith(("_id", "_ids")) and name != "session_id":
            yield (str(field.alias),)
        for inner in _models(field.annotation):
            yield from ((str(field.alias), *path) for path in ids_within(inner))


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
