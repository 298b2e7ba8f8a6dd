"""Example for openai-agents with a scripted model, which calls a tool and then answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse, RunConfig, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai_agents_agent import build_agent, work_through
from script import TOOL, answer_to, read_arguments

from waybook.client import Client

ARGUMENTS = read_arguments()


class ScriptedModel(Model):
    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002, ANN401, ARG002 - the signature of the framework
        """Return the next response of the model in this conversation."""
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        if not any(item.get("type") == "function_call_output" for item in items):
            call = ResponseFunctionToolCall(
                type="function_call", call_id="1", name=TOOL, arguments="{}"
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        prompt = next(item["content"] for item in items if item.get("role") == "user")
        finding = {"result": answer_to(prompt, ARGUMENTS.crash_word), "confidence": 0.9}
        text = ResponseOutputText(type="output_text", text=json.dumps(finding), annotations=[])
        message = ResponseOutputMessage(
            id="1", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - as above
        """Raise an error, because the example does not stream."""
        raise NotImplementedError


async def main() -> None:
    """Run the example with a fixed session, so that a restart continues the interrupted step."""
    config = RunConfig(tracing_disabled=True)
    async with Client(ARGUMENTS.address, session_id="openai-agents") as client:
        await work_through(client, ARGUMENTS.plan_id, build_agent(ScriptedModel()), config)


asyncio.run(main())
