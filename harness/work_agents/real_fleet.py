"""Real coding agents that do one plan together: `make harness NAME=work-fleet`.

The plan has twelve steps, with a condition, a review, a schema and a conflict of two steps. Local
scripted models let the agents change files with the tools of each agent.
"""

import asyncio
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tools.clients.catalog import select
from tools.clients.install import ENVIRONMENTS, install
from tools.clients.model.script import FinalText, Reply, ToolCall
from tools.clients.waybook_server import serve_waybook
from waybook.client import Client
from waybook.client.connection import HttpConnection
from waybook.work import keeper
from waybook.work.adapters import Adapter
from work_agents.real_agents import SCHEMA, Model, real_agent, serve, set_up
from work_env import Place

DEFAULT: Final = ("claude-code", "codex", "gemini-cli")
PARTS: Final = ("Amazon", "Congo", "Danube", "Elbe", "Ganges", "Lena")
SHELLS: Final = ("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command")
TITLES: Final = sorted(["Size", "Extra", "Left", "Right", "Resolve", "Draft", "Join", *PARTS])
LIMIT_SECONDS: Final = 900.0


class FleetModel(Model):
    """Model that writes the files of a step with the shell of its agent."""

    def __init__(self, meeting: Path) -> None:
        super().__init__()
        #: Both sides of the conflict write a file there, and wait for the other.
        self.meeting = meeting
        self.titles: Counter[str] = Counter()

    def reply(self, conversation: Any, body: str) -> Reply:  # noqa: ANN401 - as in FORMATS
        match = re.search(r"# Step \d+: (\w+)", body)
        if match is None:  # Agents also ask for a title of the conversation.
            return FinalText("Rivers")
        title = match[1]
        shell = next((tool for tool in conversation.tools if tool.name in SHELLS), None)
        if shell is not None and title not in ("Size", "Join") and not conversation.results:
            return ToolCall(shell, self._arguments(shell.parameters, title))
        self.titles[title] += 1
        if title != "Size":
            return FinalText(title)
        return super().reply(conversation, body)

    def _arguments(self, schema: Any, title: str) -> dict[str, Any]:  # noqa: ANN401 - JSON
        text, name = f"{title}\n", f"{title}.txt"
        if title in ("Left", "Right", "Resolve"):
            name = "shared.txt"
        if title == "Resolve":
            text = "Left\nRight\n"
        command = f"printf '{text}' > {name}".replace("\n", "\\n")
        if title in ("Left", "Right"):
            wait = f'while [ "$(ls {self.meeting} | wc -l)" -lt 2 ]; do sleep 0.2; done'
            command = f"{command}; touch {self.meeting}/{title}; {wait}"
        known = schema["properties"]
        key = next(key for key in ("command", "cmd") if key in known)
        value: Any = command
        if known[key]["type"] == "array":
            value = ["bash", "-c", command]
        described = {"description": "write"} if "description" in known else {}
        return {key: value, **described}


def unconfined(adapter: Adapter) -> Adapter:
    """Return the agent without its own sandbox, which does not work in every container."""
    permissions = [
        word.replace("workspace-write", "danger-full-access") for word in adapter.permissions
    ]
    return adapter.model_copy(update={"permissions": tuple(permissions)})


async def work(names: list[str], model: FleetModel, address: str, root: Path) -> list[str]:
    """Let the agents do the plan; return what is wrong."""
    place = Place(address, root)
    client = Client(HttpConnection(address, None, 30.0, "person"))

    def step(title: str, **more: object) -> dict[str, Any]:
        return {"stepType": "custom", "title": title, "instructions": f"{title}.", **more}

    extra = {
        "afterStepOrder": 1,
        "conditionExpression": "result.rivers == 3",
        "ifTrueAction": "add_steps",
        "actionParams": {"steps": [step("Extra")]},
    }
    plan = await client.call(
        "create_research_plan",
        name="Rivers",
        researchQuestion="How many rivers are there?",
        steps=[
            step("Size", resultSchema=SCHEMA),
            *(step(title, dependsOn=[1]) for title in ("Left", "Right", *PARTS)),
            {**step("Draft", dependsOn=[1]), "stepType": "checkpoint"},
            step("Join", dependsOn=[*range(2, 11)]),
        ],
        branchingConditions=[extra],
    )

    async def approve() -> None:
        await place.hear("waits for a review")
        await client.call("submit_user_decision", planId=plan["planId"], decision="approve")

    deciding = asyncio.create_task(approve())
    agents = [(unconfined(real_agent(name, ENVIRONMENTS / name, None)), 1) for name in names]
    faults = []
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            status = await place.work(plan["planId"], *agents)
            await asyncio.wait_for(deciding, 60)
        if status:
            faults.append(f"the workers ended with {status}")
    except TimeoutError:
        deciding.cancel()
        faults.append("the plan was not completed in time")
    done = (await client.call("get_plan_status", planId=plan["planId"], detail=True))[
        "completedSteps"
    ]
    titles = sorted(str(step["title"]).split()[0] for step in done)
    if titles != TITLES:
        faults.append(f"these steps are completed: {titles}")
    if twice := [title for title, count in model.titles.items() if count > 1 and title != "Size"]:
        faults.append(f"done more than once: {twice}")
    wanted = {"README.md": "Rivers\n", "shared.txt": "Left\nRight\n"}
    wanted |= {f"{name}.txt": f"{name}\n" for name in ("Draft", "Extra", *PARTS)}
    files = place.files(f"waybook/{plan['planId']}/merged")
    if files != wanted:
        faults.append(f"the merged files are {files}")
    faults += [f"left behind: {name}" for name in place.leftovers()]
    by = Counter(re.findall(r"^\S+ \((\S+)\): step", "\n".join(place.messages), re.MULTILINE))
    sys.stdout.write(f"{len(titles)} steps by {dict(by)}\n")
    if faults:
        sys.stdout.write("".join(f"    {line}\n" for line in place.messages))
    return faults


def main(names: list[str]) -> int:
    names = names or [*DEFAULT]
    for client in select(names):
        install(client)
    with tempfile.TemporaryDirectory(prefix="waybook-real-") as folder:
        root, meeting = Path(folder, "place"), Path(folder, "meeting")
        root.mkdir()
        meeting.mkdir()
        with (
            serve_waybook(ENVIRONMENTS / "work-fleet.log") as waybook,
            serve(FleetModel(meeting)) as model,
        ):
            set_up(Path(folder, "home"), f"http://127.0.0.1:{model.server_address[1]}/x")
            faults = asyncio.run(work(names, model, waybook.url, root))
        left = keeper.kill_marked(lambda mark: mark.startswith(f"{os.getpid()}."))
        faults += [f"{left} processes are left"] if left else []
    sys.stdout.write("".join(f"FAILED {fault}\n" for fault in faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
