"""Plan completed by a scripted model that knows only the tool descriptions.

pydantic-ai, openai-agents and LangChain do not show the server's instructions to the model, so the
scripted model reads only `tools/list`. It follows phrases such as "then call X", and sets an
argument only if a description says where the value comes from. If such a phrase is removed from a
description, the model cannot complete the plan.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from mcp import Client
from mcp_types import Tool

from org_env import OrgEnv
from transport.full_app import free_port

#: Phrases of a person's request, in order; the last one is the decision about the review.
TASK = ("create a plan", "ask a person to review", "approve")
STEP_COUNT = 3
MAX_CALLS = 20


class Unreadable(Exception):
    """Error about a tool description that lacks information which the model needs."""


@dataclass
class DescriptionReader:
    """Model that knows only the tool list, the person's request and the replies."""

    tools: Mapping[str, Tool]
    session: str = "conversation-1"
    replies: list[tuple[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def tool_that_does(self, words: str) -> Tool:
        """Return the tool whose description begins with these words of the request."""
        for tool in self.tools.values():
            if (tool.description or "").lower().startswith(words):
                return tool
        raise Unreadable(f"no description begins with {words!r}")

    def tool_after(self, tool: Tool) -> Tool:
        match = re.search(r"\bcall (\w+)", tool.description or "")
        if match is None or match[1] not in self.tools:
            raise Unreadable(f"{tool.name} does not say which tool to call next")
        return self.tools[match[1]]

    def statuses(self, tool: Tool) -> set[str]:
        """Return the reply statuses in the description of the tool."""
        _, _, listed = (tool.description or "").partition("status:")
        return set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", listed))

    def arguments(self, tool: Tool) -> dict[str, Any]:
        """Return those arguments whose values a description explains.

        Raises:
            Unreadable: no description explains a required argument.
        """
        schema = tool.input_schema
        filled = {}
        for name, described in schema["properties"].items():
            value = self.value_of(tool, name, described)
            if value is not None:
                filled[name] = value
        if missing := [name for name in schema["required"] if name not in filled]:
            raise Unreadable(f"{tool.name} does not explain {missing}")
        return filled

    def value_of(self, tool: Tool, name: str, described: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Return the value that the model finds by the argument's description, or None."""
        text = described["description"]
        if source := re.search(r"\bfrom (\w+)", text):
            return self.latest(name, source[1])
        if "one per conversation" in text:
            return self.session
        if "retries count once" in text:
            return f"key-{len(self.calls)}"
        if subject := re.search(r"^the (plan|step)$", text):
            return self.latest(f"{subject[1]}Id")
        if "enum" in described:
            return next((each for each in described["enum"] if each in TASK), None)
        return self.composed(tool, name, described)

    def composed(self, tool: Tool, name: str, described: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Return a text, steps or conditions that the model writes; None for other arguments."""
        text = described["description"]
        if text.startswith("tested when"):
            return [self.condition(described["items"]["properties"])]
        if text == "in order":
            return [self.step(described["items"]["properties"]) for _ in range(STEP_COUNT)]
        if "JSON if conditions read its fields" in text:
            (_, tested, value) = self.tested_field()
            return json.dumps({tested: value})
        is_free_text = text and described["type"] == "string"
        required = name in tool.input_schema["required"]
        return "How many rivers?" if required and is_free_text else None

    def step(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        kind = properties["stepType"]["enum"][0]
        return {"stepType": kind, "instructions": "Count the rivers of one country."}

    def condition(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return a condition that skips to the last step if the example expression is true."""
        expression, _, _ = self.tested_field()
        actions = properties["actionParams"]["properties"]
        (action,) = [
            each
            for each in properties["ifTrueAction"]["enum"]
            if actions["targetStepOrder"]["description"] == f"needed for {each}"
        ]
        return {
            "afterStepOrder": 1,
            "conditionExpression": expression,
            "ifTrueAction": action,
            "actionParams": {"targetStepOrder": STEP_COUNT},
        }

    def tested_field(self) -> tuple[str, str, int]:
        """Return the example of a condition, with the field and the value that it compares."""
        match = re.search(r"result\.(\w+) == (\d+)", json.dumps(self.all_schemas()))
        if match is None:
            raise Unreadable("no description has an example of a condition")
        return match[0], match[1], int(match[2])

    def all_schemas(self) -> Sequence[Any]:
        return [tool.input_schema for tool in self.tools.values()]

    def latest(self, name: str, source: str | None = None) -> Any:  # noqa: ANN401 - JSON
        """Return the field `name` of the latest reply that has this field.

        If `source` is given, only replies of this tool are searched.
        """
        for tool, reply in reversed(self.replies):
            if source in {None, tool} and name in reply:
                return reply[name]
        return None


async def call(client: Client, reader: DescriptionReader, tool: Tool) -> Any:  # noqa: ANN401 - JSON
    """Call a tool, repeat the call as after a lost reply, and return the first reply.

    Raises:
        Unreadable: the tool refused the first call, or the second call also took effect.
    """
    arguments = reader.arguments(tool)
    reader.calls.append((tool.name, arguments))
    first, second = [await client.call_tool(tool.name, arguments) for _ in range(2)]
    if first.is_error:
        raise Unreadable(f"a call of {tool.name} was refused: {first.content}")
    if second.is_error or "replayed" not in (second.structured_content or {}):
        raise Unreadable(f"a repeated call of {tool.name} counted twice")
    reader.replies.append((tool.name, first.structured_content))
    return first.structured_content


async def complete_plan(client: Client, reader: DescriptionReader) -> str:
    creates, asks, _ = TASK
    tool = reader.tool_that_does(creates)
    reply = await call(client, reader, tool)
    while len(reader.calls) < MAX_CALLS:
        tool = reader.tool_after(tool)
        if reply.get("stepOrder") == STEP_COUNT:
            tool = reader.tool_that_does(asks)
        reply = await call(client, reader, tool)
        if "status" in reply and reply["status"] not in reader.statuses(tool):
            raise Unreadable(f"{tool.name} does not list the status {reply['status']}")
        if reply.get("status") == "plan_complete":
            check_calls(reader)
            return str(reply["planId"])
    raise Unreadable(f"the plan is not complete after {MAX_CALLS} calls")


def check_calls(reader: DescriptionReader) -> None:
    """Raise `Unreadable` if a call lacks its session or attempt, or no condition was true."""
    if not any(reply.get("branches") for _, reply in reader.replies):
        raise Unreadable("no description says what a condition reads")
    if not all(arguments.get("sessionId") == reader.session for _, arguments in reader.calls):
        raise Unreadable("no description says that the session is the one per conversation")
    submitted = [arguments for name, arguments in reader.calls if name == "submit_step_result"]
    if not all("attempt" in arguments for arguments in submitted):
        raise Unreadable("no description says where the attempt comes from")


async def read_tools(client: Client, without: str | None = None) -> dict[str, Tool]:
    """Return the tools, after removing the phrase `without` from their descriptions."""
    listed = (await client.list_tools()).model_dump_json(by_alias=True)
    tools = json.loads(listed if without is None else listed.replace(without, ""))["tools"]
    assert without is None or without in listed
    return {tool["name"]: Tool.model_validate(tool) for tool in tools}


async def test_client_that_knows_only_the_tool_descriptions_completes_a_plan(world: OrgEnv) -> None:
    async with free_port(world.agent) as address, Client(f"{address}/mcp") as client:
        reader = DescriptionReader(await read_tools(client))
        plan_id = await complete_plan(client, reader)
    status = await world.agent.call("get_plan_status", planId=plan_id)
    assert status["status"] == "completed"
    assert [step["status"] for step in status["completedSteps"]] == [
        "completed",
        "skipped",
        "completed",
    ]
    assert [name for name, _ in reader.calls] == [
        *("create_research_plan", "get_next_step", "submit_step_result", "get_next_step"),
        *("request_user_review", "submit_user_decision", "get_next_step"),
    ]
    assert len((await world.agent.call("list_active_plans"))["plans"]) == 0


NEEDED_PHRASES = (
    *("Then call get_next_step with its planId", "then call submit_step_result"),
    *("then call get_next_step", "Create a plan", "Ask a person to review"),
    *("call submit_user_decision", "plan_complete", "the plan", "the step", "result.n == 0"),
    *("JSON if conditions read its fields", "one per conversation", "retries count once"),
    "from get_next_step",
)


@pytest.mark.parametrize("phrase", NEEDED_PHRASES)
async def test_removing_a_needed_phrase_of_tool_descriptions_breaks_the_client(
    world: OrgEnv, phrase: str
) -> None:
    async with free_port(world.agent) as address, Client(f"{address}/mcp") as client:
        reader = DescriptionReader(await read_tools(client, without=phrase))
        with pytest.raises(Unreadable):
            await complete_plan(client, reader)
