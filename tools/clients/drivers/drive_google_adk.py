"""Compatibility test with Google ADK, over the Gemini API."""

import asyncio
import os
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import (
    McpToolset,
    StdioConnectionParams,
    StreamableHTTPConnectionParams,
)
from google.genai import types
from mcp import StdioServerParameters
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    os.environ["GOOGLE_GEMINI_BASE_URL"] = trial.model_url
    os.environ["GOOGLE_API_KEY"] = "none"
    command, *arguments = trial.command
    if trial.is_stdio:
        process = StdioServerParameters(command=command, args=arguments, env=trial.environment)
        server: Any = StdioConnectionParams(server_params=process, timeout=60)
    else:
        server = StreamableHTTPConnectionParams(url=trial.url)
    toolset = McpToolset(connection_params=server)
    agent = LlmAgent(name="worker", model="gemini-2.5-flash", tools=[toolset])
    runner = InMemoryRunner(agent, app_name="trial")
    session = await runner.session_service.create_session(app_name="trial", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=trial.prompt)])
    async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        pass
    await runner.close()


asyncio.run(main(read_trial()))
