"""Agent that has only MCP and writes, corrects, runs and changes a workflow."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp import Client
from mcp_types import TextContent, TextResourceContents
from starlette.requests import Request

from org_env import Body, OrgEnv
from run_documents import render_all
from waybook.app.request.caller import Caller
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

BROKEN: Body = {
    "slug": "essay",
    "stages": [
        {
            "slug": "write",
            "recipe": {
                "steps": [
                    {"stepKey": "outline", "jobType": "EXECUTE", "granularityStrategy": "once"},
                    {
                        "stepKey": "draft",
                        "jobType": "EXECUTE",
                        "granularityStrategy": "all_to_one",
                        "inputsRequired": [{"documentKey": "outline"}],
                    },
                    {
                        "stepKey": "final",
                        "jobType": "EXECUTE",
                        "granularityStrategy": "all_to_one",
                        "inputsRequired": [{"documentKey": "draft", "stage": "writing"}],
                    },
                ],
                "edges": [["outline", "draft"], ["drafts", "final"]],
            },
        }
    ],
}


@dataclass(frozen=True, slots=True)
class McpAgent:
    """Agent that calls tools and reads resources over MCP; each call advances the clock by 1 s."""

    client: Client
    world: OrgEnv

    async def ask(self, tool: str, **arguments: object) -> tuple[bool, Any]:
        self.world.clock.advance(seconds=1)
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        return bool(result.is_error), json.loads(content.text)

    async def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - a reply
        is_error, body = await self.ask(tool, **arguments)
        assert not is_error, body
        return body

    async def read(self, uri: str) -> TextResourceContents:
        (contents,) = (await self.client.read_resource(uri)).contents
        assert isinstance(contents, TextResourceContents)
        return contents

    async def write_all(self, run_id: str, text: str) -> list[str]:
        """Complete all jobs of a run, with documents that quote their inputs; return the steps."""
        steps = []
        while (job := await self.call("get_next_job", runId=run_id))["status"] == "job_ready":
            steps.append(job["stepKey"])
            quoted = "".join(f"({item['content']})" for item in job.get("inputs", ()))
            held = {"jobId": job["jobId"], "attempt": job["attempt"]}
            documents = [{"content": f"{text} {quoted}".strip()}]
            await self.call("submit_job_result", **held, documents=documents)
        await render_all(self.world.agent)
        return steps

    async def documents(self, run_id: str) -> dict[str, Any]:
        report = await self.call("get_run_progress", runId=run_id)
        return {
            document["documentKey"]: document
            for stage in report["stages"]
            for document in stage["documents"]
        }


@asynccontextmanager
async def mcp_agent(world: OrgEnv) -> AsyncIterator[McpAgent]:
    async def caller(_: Request | None) -> Caller:
        return world.agent.caller

    async def dispatcher() -> ServerDispatcher:
        return world.agent.dispatcher

    gateway = ToolGateway(dispatcher, caller)
    async with Client(build_server(published_tools(), gateway, profile="all")) as client:
        yield McpAgent(client, world)


async def test_agent_with_only_mcp_writes_corrects_and_changes_a_workflow(world: OrgEnv) -> None:
    async with mcp_agent(world) as agent:
        is_error, refused = await agent.ask("add_dag", definition=BROKEN)
        assert is_error
        details = refused["error"]["details"]
        recipe = "stages[0].recipe"
        assert [(fault["fault"], fault["at"]) for fault in details["faults"]] == [
            ("unknown_strategy", f"{recipe}.steps[0].granularityStrategy"),
            ("dangling_edge", f"{recipe}.edges[1]"),
            ("unknown_stage", f"{recipe}.steps[2].inputsRequired[0].stage"),
        ]
        schema = json.loads((await agent.read(details["schema"])).text)
        strategies = schema["$defs"]["step"]["properties"]["granularityStrategy"]["enum"]
        mended = json.loads(json.dumps(BROKEN))
        steps = mended["stages"][0]["recipe"]["steps"]
        steps[0]["granularityStrategy"] = strategies[0]
        del steps[2]["inputsRequired"][0]["stage"]
        mended["stages"][0]["recipe"]["edges"][1] = ["draft", "final"]
        assert (await agent.call("add_dag", definition=mended))["version"] == 1

        start = {"dagSlug": "essay", "name": "Lighthouses", "input": "Why?", "models": ["m"]}
        run_id = (await agent.call("start_run", **start))["runId"]
        assert await agent.write_all(run_id, "one") == ["outline", "draft", "final"]

        definition = (await agent.call("get_dag_map", dagSlug="essay", detail=True))["definition"]
        definition["stages"][0]["recipe"]["steps"][2]["prompt"] = "Polish the draft."
        assert (await agent.call("add_dag", definition=definition))["version"] == 2

        outline = (await agent.documents(run_id))["outline"]
        await agent.call("regenerate_document", documentId=outline["resourceId"])
        assert await agent.write_all(run_id, "two") == ["outline"]
        documents = await agent.documents(run_id)
        assert [key for key, item in documents.items() if item.get("outdated")] == ["draft"]
        draft = await agent.read(f"waybook://documents/{documents['draft']['resourceId']}")
        assert draft.meta is not None
        (source,) = draft.meta["madeFrom"]
        assert (source["documentKey"], source["version"], source["newerVersion"]) == (
            "outline",
            1,
            2,
        )

        chain = {"documentId": documents["draft"]["resourceId"], "following": True}
        assert (await agent.call("regenerate_document", **chain))["following"] == 1
        assert await agent.write_all(run_id, "three") == ["draft", "final"]
        documents = await agent.documents(run_id)
        assert not any(item.get("outdated") for item in documents.values())
        final = await agent.read(f"waybook://documents/{documents['final']['resourceId']}")
        assert final.text.strip() == "three (three (two))"
