"""Compatibility test with CrewAI and the MCP adapter of crewai-tools."""

from typing import Any

from crewai import LLM, Agent, Crew, Task
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters
from trial import Trial, read_trial


def main(trial: Trial) -> None:
    command, *arguments = trial.command
    if trial.is_stdio:
        server: Any = StdioServerParameters(command=command, args=arguments, env=trial.environment)
    else:
        server = {"url": trial.url, "transport": "streamable-http"}
    llm = LLM(model="openai/gpt-4o", base_url=trial.openai_url, api_key="none")
    with MCPServerAdapter(server, connect_timeout=60) as tools:
        agent = Agent(
            role="worker", goal="complete the plan", backstory="none", llm=llm, tools=[*tools]
        )
        task = Task(description=trial.prompt, expected_output="a sentence", agent=agent)
        Crew(agents=[agent], tasks=[task]).kickoff()


main(read_trial())
