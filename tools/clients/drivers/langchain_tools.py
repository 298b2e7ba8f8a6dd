"""Waybook's tools as LangChain tools, for the compatibility tests of several frameworks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from trial import Trial


@asynccontextmanager
async def load_tools(trial: Trial) -> AsyncIterator[list[Any]]:
    """Yield Waybook's tools as LangChain tools, all with the same connection."""
    command, *arguments = trial.command
    if trial.is_stdio:
        connection: Any = {
            "transport": "stdio",
            "command": command,
            "args": arguments,
            "env": trial.environment,
        }
    else:
        connection = {"transport": "streamable_http", "url": trial.url}
    async with MultiServerMCPClient({"waybook": connection}).session("waybook") as session:
        yield await load_mcp_tools(session)
