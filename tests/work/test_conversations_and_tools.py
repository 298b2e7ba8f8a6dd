"""Agents on the jobs of runs and on everything, with their own tools and with conversations."""

import asyncio
import os
import signal
import sys

from org_env import AgentClient, Body, make_step
from patience import PATIENCE_SECONDS
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.work.adapters import Adapter, ReadRule
from work_env import Place


async def start(agent: AgentClient, models: str) -> Body:
    definition = make_definition("short", make_stage("work", make_recipe_step("do")))
    await agent.call("add_dag", definition=definition)
    return await agent.run("short", models)


async def test_jobs_of_a_run_are_done_once_each(place: Place, agent: AgentClient) -> None:
    run = await start(agent, "abcd")
    writer = place.agent("""
with open(pathlib.Path(sys.argv[0]).parent / "calls", "a") as calls:
    calls.write("x")
answer("# Rivers")
""")
    subject = {"runId": run["runId"]}
    assert await place.work(None, (writer, 2), subject=subject) == 0, place.messages
    assert (await agent.progress(run))["status"] == "completed"
    assert (place.root / "calls").read_text() == "xxxx"


async def test_workers_for_everything_do_plans_and_runs_until_stopped(
    place: Place, agent: AgentClient
) -> None:
    run = await start(agent, "a")
    plan = await agent.plan([make_step("One.")])
    writer = place.agent("""
root = pathlib.Path(sys.argv[0]).parent
(root / ("step" if order else "job")).open("w").close()
while (root / "hold").exists():
    time.sleep(0.01)
answer("done")
""")
    for name in ("step", "job"):
        os.mkfifo(place.root / name)
    (place.root / "hold").touch()
    async with asyncio.timeout(PATIENCE_SECONDS):
        working = asyncio.create_task(place.work(None, (writer, 2)))
        await asyncio.gather(place.wait_for_agent("step"), place.wait_for_agent("job"))
        os.kill(os.getpid(), signal.SIGTERM)
        (place.root / "hold").unlink()
        assert await working == 143
    assert (await agent.status(plan))["status"] == "completed"
    assert (await agent.progress(run))["status"] == "completed"
    assert place.leftovers() == []


async def test_step_submitted_by_the_agent_is_merged_and_kept(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("One.")])
    submitter = place.agent("""
import urllib.request
config = json.load(open(os.environ["WAYBOOK_MCP_CONFIG"]))["mcpServers"]["waybook"]
held = {"stepId": os.environ["WAYBOOK_STEP_ID"], "attempt": int(os.environ["WAYBOOK_ATTEMPT"])}
call = {"name": "submit_step_result", "arguments": {**held, "resultSummary": "by the agent"}}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
request = urllib.request.Request(config["url"], body, headers)
assert b"by the agent" not in urllib.request.urlopen(request).read()
write("a.txt", "text")
answer("by the worker")
""")
    server = {"url": f"{place.address}/mcp", "headers": {}}
    status = await place.work(plan["planId"], (submitter, 1), mcp_server=server)
    assert status == 0, place.messages
    (done,) = (await agent.status(plan))["completedSteps"]
    assert done["resultSummary"] == "by the agent"
    assert place.files(f"waybook/{plan['planId']}/merged")["a.txt"] == "text"
    assert place.leftovers() == []


async def test_conversation_is_resumed_after_the_decision_of_a_person(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("Choose.")])
    program = place.agent("""
mark = re.search(r"(ask-person-\\w+):", prompt)[1]
resumed = sys.argv[2:]
text = f"resumed {resumed[1]}: {'blue' in prompt}" if resumed else f"{mark}: Which color?"
print(json.dumps({"conversation": "c-1", "text": text}))
""")
    rule = ReadRule(conversation="conversation", text="text")
    talker = Adapter(
        name="talker",
        command=(
            sys.executable,
            program.command[1],
            "{prompt_file}",
            ("--resume", "{conversation}"),
        ),
        output="json-lines",
        read=(rule,),
    )

    async def decide() -> None:
        await place.hear("waits for a review")
        await agent.decide(plan, "modify", place="client", feedback="blue")

    deciding = asyncio.create_task(decide())
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await place.work(plan["planId"], (talker, 1)) == 0, place.messages
        await deciding
    (done,) = (await agent.status(plan))["completedSteps"]
    assert done["resultSummary"] == "resumed c-1: True"
    assert place.leftovers() == []
