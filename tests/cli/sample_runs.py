"""Runs in different states, such as completed, for tests of commands."""

from cli.terminal import Terminal
from org_env import AgentClient, Body
from run_documents import render_all
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.cli.runtime import AppSession
from waybook.core.decision_context import Channel

MODELS = ["alpha", "beta", "gamma"]


def agent_in(here: AppSession) -> AgentClient:
    """Return an agent that calls tools in this process."""
    dispatcher = ServerDispatcher(here.app.services, here.app.calls)
    return AgentClient(dispatcher, here.app.caller(Channel.MCP))


async def start(agent: AgentClient, name: str, models: int = 3) -> Body:
    text = "Move the reports to a queue."
    return await agent.run("dialectic", MODELS[:models], name=name, input=text)


async def work(agent: AgentClient, run: Body, jobs: int) -> None:
    for _ in range(jobs):
        await agent.submit_documents(await agent.job(run))


def run_in_progress(terminal: Terminal, name: str) -> str:
    """Return a run in its second stage; session `ada` holds a job, and another job has failed."""

    async def act(here: AppSession) -> str:
        agent = agent_in(here)
        run = await start(agent, name)
        await agent.work_off(run)
        await agent.feedback(run, "thesis", "Shorter.")
        await work(agent, run, 9 + 4)
        lost = await agent.job(run)
        await agent.fail_job(lost, "no such model")
        await agent.job(run, sessionId="ada")
        await render_all(agent)
        return str(run["runId"])

    return terminal.inside(act)


def run_awaiting_feedback(terminal: Terminal, name: str) -> str:
    """Return a run with one model, whose first stage awaits feedback."""

    async def act(here: AppSession) -> str:
        agent = agent_in(here)
        run = await start(agent, name, models=1)
        assert (await agent.work_off(run))["status"] == "awaiting_feedback"
        return str(run["runId"])

    return terminal.inside(act)


def completed_run(terminal: Terminal, name: str, models: int = 1) -> str:
    """Return a completed run with some documents that are not rendered."""

    async def act(here: AppSession) -> str:
        agent = agent_in(here)
        run = await start(agent, name, models=models)
        while (over := await agent.work_off(run))["status"] == "awaiting_feedback":
            await agent.feedback(run, over["stageSlug"])
        assert over["status"] == "run_complete", over
        return str(run["runId"])

    return terminal.inside(act)
