"""Example for pydantic-ai with a scripted model, which calls a tool and then answers."""

import asyncio

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_agent import build_agent, work_through
from script import TOOL, answer_to, read_arguments

from waybook.client import Client

ARGUMENTS = read_arguments()


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Return the next reply of the model: first a tool call, then the answer."""
    parts = [part for item in messages if isinstance(item, ModelRequest) for part in item.parts]
    if not any(isinstance(part, ToolReturnPart) for part in parts):
        return ModelResponse(parts=[ToolCallPart(TOOL, {})])
    prompt = next(part.content for part in parts if isinstance(part, UserPromptPart))
    finding = {"result": answer_to(str(prompt), ARGUMENTS.crash_word), "confidence": 0.9}
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, finding)])


async def main() -> None:
    """Run the example with a fixed session, so that a restart continues the interrupted step."""
    async with Client(ARGUMENTS.address, session_id="pydantic-ai") as client:
        await work_through(client, ARGUMENTS.plan_id, build_agent(FunctionModel(respond)))


asyncio.run(main())
