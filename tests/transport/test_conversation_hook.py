"""Stop hook of the plugins, which uses files that the server writes about a conversation."""

import json
import os
from pathlib import Path

from mcp import Client

from org_env import AgentClient
from plugins.hook_process import HookFolder
from transport.full_app import gateway_of
from waybook.transport.mcp.conversation_files import FOLDER, ConversationFiles
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools


async def test_stop_hook_makes_agent_continue_once_per_completed_step(
    agent: AgentClient, tmp_path: Path
) -> None:
    hook = HookFolder(tmp_path)
    files = ConversationFiles(tmp_path / FOLDER, "one", os.getpid(), str(tmp_path))
    server = build_server(
        published_tools(), gateway_of(agent), profile="research", conversations=files
    )

    def reasons() -> list[str]:
        answers = [hook.event("Stop", stop_hook_active=False) for _ in range(2)]
        return [json.loads(answer)["reason"] for answer in answers if answer]

    async with Client(server) as client:

        async def call(tool: str, **arguments: object) -> dict[str, object]:
            answer = await client.call_tool(tool, arguments)
            assert not answer.is_error, answer.content
            return answer.structured_content or {}

        made = await call(
            "create_research_plan",
            name="Rivers",
            researchQuestion="Which river is longest?",
            steps=[{"stepType": "search", "instructions": f"Part {n}"} for n in range(3)],
        )
        plan = {"planId": made["planId"]}
        assert reasons() == []
        step = await call("get_next_step", **plan)
        assert [f"stepId {step['stepId']}" in reason for reason in reasons()] == [True]
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        await call("submit_step_result", **held, resultSummary="One.")
        assert ["1 of 3 steps done" in reason for reason in reasons()] == [True]
        step = await call("get_next_step", **plan)
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        step = await call("submit_step_result", **held, resultSummary="Two.", takeNext=True)
        assert [f"stepId {step['stepId']}" in reason for reason in reasons()] == [True]
        assert "2 of 3 steps done" in hook.injected()
        await call("request_user_review", stepId=step["stepId"], summary="Enough?")
        assert reasons() == []
        assert "waits for a person's decision" in hook.injected()
        await call("submit_user_decision", **plan, decision="approve")
        await call("get_next_step", **plan)
        await call(
            "store_research_output",
            **plan,
            title="Rivers",
            content="The Nile.",
            mediaType="text/plain",
        )
        assert reasons() == []
        assert hook.injected() == ""
