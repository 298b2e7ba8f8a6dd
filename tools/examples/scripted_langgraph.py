"""LangGraph example with a scripted model, which writes, criticizes and rewrites a draft."""

import asyncio
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph_agent import GOOD, build_graph, work_through
from script import answer_to, read_arguments

from waybook.client import Client

ARGUMENTS = read_arguments()
SECOND = "second "


class ScriptedModel(BaseChatModel):
    """Chat model that criticizes the first draft of each step, and accepts the second."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401 - the signature of the framework
        message = AIMessage(content=_respond(messages[-1].text))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _respond(prompt: str) -> str:
    if prompt.startswith("Answer"):
        return GOOD if SECOND in prompt else "too short"
    is_second = "too short" in prompt
    return (SECOND if is_second else "") + answer_to(prompt, ARGUMENTS.crash_word)


async def main() -> None:
    """Run the example with a fixed session, so that a restart continues the interrupted step."""
    async with Client(ARGUMENTS.address, session_id="langgraph") as client:
        await work_through(client, ARGUMENTS.plan_id, build_graph(ScriptedModel()))


asyncio.run(main())
