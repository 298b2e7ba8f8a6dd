"""Place in which workers run: a server, a git repository, and agents that are Python scripts."""

import asyncio
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from waybook.client import Client
from waybook.client.connection import HttpConnection
from waybook.work.adapters import Adapter, find_adapter, load_adapters
from waybook.work.fleet import run_fleet
from waybook.work.options import Options

#: Start of every agent: the prompt, the order of its step, and a function that returns its result.
_PRELUDE = """
import json, os, pathlib, re, subprocess, sys, time
prompt = pathlib.Path(sys.argv[1]).read_text()
order = int(re.search(r"# Step (\\d+)", prompt)[1]) if "# Step" in prompt else 0
def answer(value):
    pathlib.Path(os.environ["WAYBOOK_RESULT"]).write_text(value)
def write(name, text):
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
"""

ADAPTERS = load_adapters()


@dataclass
class Place:
    address: str
    root: Path
    messages: list[str] = field(default_factory=list)
    spoke: asyncio.Event = field(default_factory=asyncio.Event)
    heard: int = 0

    @property
    def repository(self) -> Path:
        folder = self.root / "repository"
        if not folder.exists():
            folder.mkdir()
            self.git("init", "--quiet", "--initial-branch=main")
            (folder / "README.md").write_text("Rivers\n")
            self.commit("start")
        return folder

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.root / "repository"), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def commit(self, message: str) -> None:
        author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        self.git("add", "--all")
        self.git(*author, "commit", "--quiet", "-m", message)

    def files(self, branch: str) -> dict[str, str]:
        """Return the files of a branch with their texts."""
        names = self.git("ls-tree", "-r", "--name-only", branch).split()
        return {name: self.git("show", f"{branch}:{name}") for name in names}

    def agent(self, program: str) -> Adapter:
        """Return an agent that runs this Python program."""
        path = self.root / f"agent-{abs(hash(program)) % 10**8}.py"
        path.write_text(_PRELUDE + program)
        return find_adapter(
            f"cmd:{sys.executable} {shlex.quote(str(path))} {{prompt_file}}", ADAPTERS
        )[0]

    def check(self, program: str) -> Adapter:
        """Return a check that runs this Python program."""
        command = shlex.join([sys.executable, "-c", program])
        return find_adapter(f"cmd:sh -c {shlex.quote(command)}", ADAPTERS)[0]

    async def work(self, plan_id: str | None, *agents: tuple[Adapter, int], **more: object) -> int:
        """Run workers on a plan, a `subject` or everything until they end; return their status."""
        subject = {"planId": plan_id} if plan_id else {}
        defaults = {"isolation": "step", "wait_seconds": 1, "subject": subject}
        options: dict[str, Any] = {**defaults, **more}
        return await run_fleet(
            Options(
                agents=agents,
                connect=lambda name: Client(HttpConnection(self.address, None, 30.0, name)),
                folder=self.repository,
                state_folder=self.root / "state",
                say=self.say,
                **options,
            )
        )

    async def view(self, name: str) -> Any:  # noqa: ANN401 - JSON
        async with httpx2.AsyncClient() as http:
            return (await http.get(f"{self.address}/api/views/{name}")).json()

    def start(
        self, plan_id: str, agent: Adapter, check: Adapter | None = None
    ) -> subprocess.Popen[bytes]:
        """Start one worker as a process of its own."""
        program = f"""
import asyncio, os, pathlib
from work_env import Adapter, Place
pathlib.Path({str(self.root)!r}, "pid").write_text(str(os.getpid()))
place = Place({self.address!r}, pathlib.Path({str(self.root)!r}))
check = {check and check.command!r}
options = {{"check": Adapter(name="check", command=check)}} if check else {{}}
asyncio.run(place.work({plan_id!r}, (Adapter(name="cmd", command={agent.command!r}), 1), **options))
"""
        _ = self.repository
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.Popen([sys.executable, "-c", program], env=environment)

    async def wait_for_agent(self, name: str) -> None:
        """Wait until an agent opens this pipe."""
        await asyncio.to_thread((self.root / name).read_bytes)

    def say(self, line: str) -> None:
        self.messages.append(line)
        self.spoke.set()

    async def hear(self, text: str) -> None:
        """Wait until a worker has said a new line with this text."""
        while not any(text in line for line in self.messages[self.heard :]):
            self.spoke.clear()
            await self.spoke.wait()
        self.heard = len(self.messages)

    def leftovers(self) -> list[str]:
        """Return the worktrees, branches and records that should be gone."""
        trees = [str(path) for path in (self.root / "state" / "trees").iterdir()]
        records = [path.name for path in (self.root / "state" / "steps").iterdir()]
        listed = self.git("worktree", "list", "--porcelain").count("worktree ")
        branches = self.git("branch", "--list", "waybook/*", "--format=%(refname:short)").split()
        unmerged = [branch for branch in branches if not branch.endswith("/merged")]
        return [*trees, *records, *unmerged, *([] if listed == 1 else [f"{listed} worktrees"])]
