"""Compatibility test with Strands Agents, over the chat completions API."""

from mcp.client.stdio import StdioServerParameters, stdio_client
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient
from trial import Trial, read_trial


def make_client(trial: Trial) -> MCPClient:
    """Return a connection to Waybook's server, with a timeout that allows for a slow start."""
    if not trial.is_stdio:
        return MCPClient(url=trial.url, startup_timeout=60)
    command, *arguments = trial.command
    server = StdioServerParameters(command=command, args=arguments, env=trial.environment)
    return MCPClient(lambda: stdio_client(server), startup_timeout=60)


def main(trial: Trial) -> None:
    api = {"base_url": trial.openai_url, "api_key": "none"}
    model = OpenAIModel(client_args=api, model_id="scripted")
    with make_client(trial) as client:
        Agent(model=model, tools=client.list_tools_sync())(trial.prompt)


main(read_trial())
