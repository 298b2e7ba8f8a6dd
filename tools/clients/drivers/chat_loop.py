"""Minimal agent loop with the chat completions API, for MCP clients without an agent."""

import asyncio
import json
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from trial import Trial

#: Maximum number of model turns; the test needs nine.
MAX_TURNS = 30


async def run_agent(
    trial: Trial,
    tools: Sequence[tuple[str, str | None, Any]],
    call: Callable[[str, Any], Awaitable[str]],
) -> None:
    """Let the model call tools, given as name, description and schema, until it ends its turn."""
    functions = [
        {"type": "function", "function": {"name": n, "description": d, "parameters": schema}}
        for n, d, schema in tools
    ]
    messages: list[Any] = [{"role": "user", "content": trial.prompt}]
    for _ in range(MAX_TURNS):
        body = {"model": "scripted", "messages": messages, "tools": functions}
        message = await asyncio.to_thread(_ask, trial, body)
        messages.append(message)
        if not message.get("tool_calls"):
            return
        for each in message["tool_calls"]:
            arguments = json.loads(each["function"]["arguments"])
            text = await call(each["function"]["name"], arguments)
            messages.append({"role": "tool", "tool_call_id": each["id"], "content": text})


def _ask(trial: Trial, body: Any) -> Any:  # noqa: ANN401 - JSON
    request = urllib.request.Request(  # noqa: S310 - the model of the trial, on loopback
        f"{trial.openai_url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        return json.load(answer)["choices"][0]["message"]
