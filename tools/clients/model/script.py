"""Scripted model, which takes the place of a language model in tests of MCP clients.

It knows only what the client sends: the conversation, the tools and their results. It creates a
plan, submits a result for each step, requests a review of each checkpoint, submits the decision of
the reviewer, and ends when the plan is complete.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: JSON of a model API; the type checker does not check accesses to it.
Json = Any

#: Maximum number of characters of a tool result that an error message contains.
MAX_SHOWN_RESULT_LENGTH = 300
#: Tool of Qwen Code with which a model calls tools whose schemas are not in the request.
CALL_BY_NAME = "tool_call"
#: Tools of smolagents and DSPy by which an agent ends its turn.
END_TOOLS = frozenset({"final_answer", "submit"})


@dataclass(frozen=True, slots=True)
class Scenario:
    """Plan for the scripted model to create, and result to submit for each step."""

    name: str
    question: str
    steps: Sequence[Json]
    result: Json
    conditions: Sequence[Json] = ()


def branch_and_review(name: str) -> Scenario:
    """Return a plan with a condition that skips a step, and with a review by a person."""
    return Scenario(
        name,
        "How many rivers are there?",
        [
            {"stepType": "search", "instructions": "Count the rivers.", "title": "Count"},
            {"stepType": "analyze", "instructions": "Compare the rivers.", "title": "Compare"},
            {"stepType": "checkpoint", "instructions": "Show the count.", "title": "Check"},
        ],
        {"rivers": 0},
        [
            {
                "afterStepOrder": 1,
                "conditionExpression": "result.rivers == 0",
                "ifTrueAction": "skip_to",
                "actionParams": {"targetStepOrder": 3},
            }
        ],
    )


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """Tool that the client offers to the model; only Codex puts tools into namespaces."""

    name: str
    description: str
    parameters: Json
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Text of a tool result, as the client sends it to the model."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Tools and tool results in a request, in the same form for every model API."""

    tools: Sequence[OfferedTool]
    results: Sequence[ToolResult]


@dataclass(frozen=True, slots=True)
class ToolCall:
    tool: OfferedTool
    arguments: Mapping[str, Json]
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class FinalText:
    text: str
    is_complete: bool = False


Reply = ToolCall | FinalText


class Deviation(Exception):
    """The tools or results that the client sent do not let the scripted model continue."""


def decide(conversation: Conversation, scenario: Scenario) -> Reply:
    """Return the next tool call of the scripted model, or the text that ends its turn."""
    if not conversation.tools:
        return FinalText("No tools are offered.")
    try:
        return _next_call(conversation, scenario)
    except Deviation as error:
        return FinalText(f"FAILED: {error}")


def _next_call(conversation: Conversation, scenario: Scenario) -> Reply:
    ours = [result for result in conversation.results if _base_name(result.tool) in HANDLERS]
    if not ours:
        return _call(conversation, "create_research_plan", _new_plan(scenario))
    last = ours[-1]
    handler = HANDLERS[_base_name(last.tool)]
    tool, arguments = handler(last.text, scenario)
    if tool is None:
        return _end(conversation)
    return _call(conversation, tool, {**arguments, **_identity(scenario, len(ours))})


def _end(conversation: Conversation) -> Reply:
    """Return the last reply of the model: a text, or a call of the tool that ends the turn."""
    text = "The plan is complete."
    for tool in conversation.tools:
        if tool.name in END_TOOLS:
            return ToolCall(tool, {"answer": text}, is_complete=True)
    return FinalText(text, is_complete=True)


def _new_plan(scenario: Scenario) -> Mapping[str, Json]:
    conditions = {"branchingConditions": list(scenario.conditions)} if scenario.conditions else {}
    return {
        "name": scenario.name,
        "researchQuestion": scenario.question,
        "steps": list(scenario.steps),
        **conditions,
        **_identity(scenario, 0),
    }


def _identity(scenario: Scenario, number: int) -> Mapping[str, Json]:
    """Return the arguments `sessionId` and `idempotencyKey` of a tool call."""
    return {"sessionId": scenario.name, "idempotencyKey": f"{scenario.name}-{number}"}


NextCall = tuple[str | None, Mapping[str, Json]]


def _after_create(text: str, _: Scenario) -> NextCall:
    return "get_next_step", {"planId": _field(text, "planId")}


def _after_next_step(text: str, scenario: Scenario) -> NextCall:
    status = _field(text, "status")
    if status == "plan_complete":
        return None, {}
    if status != "step_ready":
        raise Deviation(f"get_next_step returned the status {status}: {_shorten(text)}")
    step_id, result = _field(text, "stepId"), json.dumps(scenario.result)
    if _field(text, "stepType") == "checkpoint":
        summary = {"summary": scenario.question, "resultSummary": result}
        return "request_user_review", {"stepId": step_id, **summary}
    attempt = int(_field(text, "attempt"))
    return "submit_step_result", {"stepId": step_id, "attempt": attempt, "resultSummary": result}


def _after_review(text: str, _: Scenario) -> NextCall:
    ids = {name: _field(text, name) for name in ("planId", "stepId")}
    return "submit_user_decision", {**ids, "decision": "approve"}


def _after_submit(text: str, _: Scenario) -> NextCall:
    return "get_next_step", {"planId": _field(text, "planId")}


HANDLERS = {
    "create_research_plan": _after_create,
    "get_next_step": _after_next_step,
    "submit_step_result": _after_submit,
    "request_user_review": _after_review,
    "submit_user_decision": _after_submit,
}


def _call(conversation: Conversation, name: str, arguments: Mapping[str, Json]) -> ToolCall:
    """Return a call of Waybook's tool `name`.

    If the request lacks this tool, return a call of the client's own tool that loads or calls other
    tools.
    """
    for tool in conversation.tools:
        if _base_name(tool.name) == name:
            return ToolCall(tool, _fill_required(tool.parameters, arguments))
    for tool in conversation.tools:
        if tool.name == "ToolSearch":
            wanted = ",".join(f"mcp__waybook__{hidden}" for hidden in HANDLERS)
            return ToolCall(tool, {"query": f"select:{wanted}", "max_results": len(HANDLERS)})
        if tool.name == CALL_BY_NAME:
            return ToolCall(tool, {"name": f"mcp__waybook__{name}", "arguments": arguments})
    raise Deviation(f"the client does not offer {name} to the model")


def _base_name(name: str) -> str:
    """Return the name of a tool on the server, without the prefix that the client adds."""
    return next((ours for ours in HANDLERS if name.endswith(ours)), name)


def _fill_required(schema: Json, value: Json) -> Json:
    """Add a neutral value for each required property that the arguments lack.

    Some clients declare every property as required.
    """
    if isinstance(value, list):
        return [_fill_required(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    return {
        **{name: _neutral_value(properties[name]) for name in missing},
        **{name: _fill_required(_branch(properties, name), each) for name, each in value.items()},
    }


def _neutral_value(schema: Json) -> Json:
    """Return null if the JSON Schema allows null, and otherwise an empty or minimal value."""
    if schema.get("nullable") or any(each.get("type") == "null" for each in _options(schema)):
        return None
    kind = schema.get("type", "string")
    if kind == "object":
        return {name: _neutral_value(each) for name, each in schema.get("properties", {}).items()}
    return {"string": "", "integer": 1, "number": 1, "boolean": False, "array": []}[kind]


def _options(schema: Json) -> Sequence[Json]:
    """Return the alternatives in a JSON Schema: its types, and the schemas in `anyOf`."""
    kinds = schema.get("type")
    listed = [{"type": kind} for kind in kinds] if isinstance(kinds, list) else []
    return [*listed, *schema.get("anyOf", ())]


def _branch(properties: Json, name: str) -> Json:
    """Return the JSON Schema of a property, without the alternative null."""
    schema = properties.get(name, {})
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return options[0] if options else schema


def _field(text: str, name: str) -> str:
    """Return the value of a field in a text with JSON or a Python literal."""
    plain = text.replace("\\", "").replace("'", '"')
    match = re.search(rf'"{name}":\s*"?([\w-]+)', plain)
    if match is None:
        raise Deviation(f"a tool result has no field {name}: {_shorten(text)}")
    return match[1]


def _shorten(text: str) -> str:
    return " ".join(text.split())[:MAX_SHOWN_RESULT_LENGTH]
