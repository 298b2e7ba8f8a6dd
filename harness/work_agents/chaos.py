"""Workers on one plan, while agents, workers, servers and the database fail.

`make harness NAME=work-faults` lets eight workers do 40 steps that share twelve files.
Their agents reach limits, hang and crash; a person raises the cap whenever the work pauses at it.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import psycopg

from faults.cluster import DIRECT, HOST, POOLED, Cluster, Options, running_cluster, start_servers
from faults.conduct import internal_errors
from faults.processes import Command, Supervised
from faults.tenants import inside
from waybook.accounts.model import NewUser
from waybook.app.accounts.members import add_token, add_user
from waybook.app.request.request_context import RequestContext
from waybook.client import Client, Retry
from waybook.client.connection import HttpConnection
from waybook.core.decision_context import Channel, Scope
from waybook.work.keeper import MARK

STEPS: Final = 40
FILES: Final = tuple(f"{number}.txt" for number in range(12))
#: Two processes, each with two workers of each agent.
PROCESSES: Final = {"north": DIRECT, "south": POOLED}
AGENTS: Final = ("one", "two")
COST_DOLLARS: Final = 0.1
CAP_DOLLARS: Final = 1.2
#: Seconds of work on one machine of a step, for each minute of the whole test.
SECONDS_PER_MINUTE: Final = 2.0
FAULTS: Final = ("north", "south", DIRECT, POOLED, "database")
WORKER_SCOPES: Final = (Scope.PLAN_WRITE, Scope.RUN_WRITE)
RETRY: Final = Retry(deadline_seconds=300.0)

#: An agent that writes its order into the files of its step. What it spends is in `spent`, and a
#: file that another agent edits at the same time is in `violations`.
AGENT: Final = r"""
import fcntl, json, os, pathlib, random, re, signal, sys, time
place, seconds = pathlib.Path({place!r}), {seconds!r}
prompt = sys.stdin.read()
order = int(re.search(r"# Step (\d+)", prompt)[1])
touched = re.search(r"FILES (.*) END", prompt)[1].split()

def note(name, text):
    with open(place / name, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text + "\n")

def say(**line):
    print(json.dumps(line), flush=True)

def spend():
    note("spent", str({cost!r}))

def end(text, is_error=False, cost=0.0):
    say(type="result", result=text, is_error=is_error, subtype="success", total_cost_usd=cost,
        modelUsage={{"m": {{"inputTokens": 100, "outputTokens": 10}}}})

calls = (place / "calls").read_text().split()
note("calls", str(order))
fate = random.Random(f"{seed}-{{order}}-{{calls.count(str(order))}}")
pause = fate.uniform(0.5, 1.5) * seconds
say(type="system", subtype="init", session_id=f"s{{order}}", model="m")
held = []
for name in touched:
    lock = open(place / "locks" / name, "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("violations", f"step {{order}} edits {{name}} while another agent does")
    held.append(lock)
kind = fate.random()
fates = ((0.1, "limit"), (0.15, "hang"), (0.25, "crash"), (1, "work"))
note("fates", next(name for below, name in fates if kind < below))
if kind < 0.1:
    time.sleep(pause / 4)
    end(f"Claude AI usage limit reached|{{int(time.time()) + 8}}", is_error=True)
    sys.exit(1)
if kind < 0.15:
    while True:
        time.sleep(60)
for name in touched:
    time.sleep(pause / len(touched))
    path = pathlib.Path(name)
    path.write_text((path.read_text() if path.exists() else "") + f"{{order}}\n")
    if kind < 0.25:
        spend()
        os.kill(os.getpid(), signal.SIGKILL)
spend()
end(f"did {{order}}", cost={cost!r})
"""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(slots=True)
class Scene:
    cluster: Cluster
    #: Folder with the repository, the state of the workers, and what the agents write.
    place: Path
    worker_token: str
    person: Client
    seed: int
    minutes: float
    plan_id: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    raised: int = 0

    @property
    def repository(self) -> Path:
        return self.place / "repository"

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.repository), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def lines(self, name: str) -> list[str]:
        path = self.place / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    @property
    def seconds(self) -> float:
        return self.minutes * SECONDS_PER_MINUTE

    def command(self, name: str) -> Command:
        """Return the command of a worker process."""
        words = ["env", "-C", str(self.repository), sys.executable, "-m", "waybook"]
        words += ["work", "start", self.plan_id, "--yes", "--grace", "5", "--attempts", "9"]
        for agent in AGENTS:
            words += ["--agent", f"{agent}:2"]
        words += ["--max-cost", str(CAP_DOLLARS), "--timeout", str(self.seconds * 3 / 60)]
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.cluster.options.source),
            "HOME": str(self.place),
            "XDG_CONFIG_HOME": str(self.place / "config"),
            "WAYBOOK_SERVER": f"http://{HOST}:{self.cluster.ports[PROCESSES[name]]}",
            "WAYBOOK_TOKEN": self.worker_token,
            "WAYBOOK_DATA_DIR": str(self.place / "data"),
        }
        return Command(words=words, log=self.place / f"{name}.log", environment=environment)


def prepare(scene: Scene) -> None:
    """Create the repository, the agents and the files that they share."""
    for folder in (scene.repository, scene.place / "locks", scene.place / "config" / "waybook"):
        folder.mkdir(parents=True)
    (scene.place / "calls").touch()
    scene.git("init", "--quiet", "--initial-branch=main")
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    scene.git(*author, "commit", "--quiet", "--allow-empty", "-m", "start")
    program = scene.place / "agent.py"
    program.write_text(
        AGENT.format(
            place=str(scene.place), seconds=scene.seconds, seed=scene.seed, cost=COST_DOLLARS
        )
    )
    known = "".join(
        f'[agents.{name}]\nlike = "claude-code"\n'
        f"command = {json.dumps([sys.executable, str(program)])}\n"
        for name in AGENTS
    )
    (scene.place / "config" / "waybook" / "agents.toml").write_text(known)


def make_steps(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield steps that each change one to three files; some wait for an earlier step."""
    for order in range(1, STEPS + 1):
        files = rng.sample(FILES, rng.randint(1, 3))
        step: dict[str, Any] = {
            "stepType": "custom",
            "title": f"Step {order}",
            "instructions": f"FILES {' '.join(files)} END",
            "touches": files,
        }
        if order > 5 and rng.random() < 0.3:
            step["dependsOn"] = [rng.randint(1, order - 1)]
        yield step


async def make_scene(cluster: Cluster, place: Path, seed: int, minutes: float) -> Scene:
    async with inside(cluster) as here:
        org_id = await here.create_org("work")
        caller = replace(here.caller(Channel.CLI), org_id=org_id)
        call = RequestContext(services=here.dispatcher.services, caller=caller)
        tokens = {}
        for user, scopes in (("worker", WORKER_SCOPES), ("person", (*WORKER_SCOPES, Scope.REVIEW))):
            await add_user(call, NewUser(name=user, scopes=scopes))
            tokens[user] = (await add_token(call, user, "work", scopes)).secret
    address = f"http://{HOST}:{cluster.ports[DIRECT]}"
    person = Client(HttpConnection(address, tokens["person"], 30.0, "person"), retry=RETRY)
    return Scene(cluster, place, tokens["worker"], person, seed, minutes)


async def break_things(scene: Scene, workers: dict[str, Supervised], rng: random.Random) -> None:
    """Kill one process after the other, about 40 in the whole test."""
    while True:
        await asyncio.sleep(rng.uniform(0.5, 1.5) * max(1.5 * scene.minutes, 12))
        name = rng.choice(FAULTS)
        scene.faults[name] += 1
        if name == "database":
            scene.cluster.postgres.kill_tree()
            await scene.cluster.await_postgres()
        else:
            ({**workers, **scene.cluster.servers})[name].send(SIGKILL)


async def raise_caps(scene: Scene) -> None:
    """Raise the cap whenever the work pauses at it, and check that no more was spent."""
    limit = CAP_DOLLARS
    while True:
        await asyncio.sleep(1.0)
        spent = len(scene.lines("spent")) * COST_DOLLARS
        if spent > limit + 1e-9:
            note = f"{spent:.2f} dollars were spent under a cap of {limit:.2f}"
            with (scene.place / "violations").open("a") as file:
                file.write(f"{note}\n")
        with suppress(psycopg.Error):
            paused = await scene.cluster.sql(
                "select id, most from work_cap where paused_at is not null"
            )
            for cap_id, most in paused:
                limit = most / 1_000_000 + 2 * CAP_DOLLARS
                await scene.person.call("decide_cap", capId=cap_id, limit=limit)
                scene.raised += 1


async def wait_for_the_end(scene: Scene, limit_seconds: float) -> dict[str, Any]:
    """Wait until the plan has ended; return its status."""
    end = time.monotonic() + limit_seconds
    while True:
        status = await scene.person.call("get_plan_status", planId=scene.plan_id, detail=True)
        done = len(status["completedSteps"])
        if status["status"] in {"completed", "failed", "canceled"} or time.monotonic() > end:
            return status
        if sys.stdout.isatty():
            sys.stdout.write(f"\r{done} steps, {scene.faults.total()} faults ")
        await asyncio.sleep(2.0)


def merged_faults(scene: Scene, steps: dict[int, list[str]]) -> Iterator[str]:
    """Yield each edit that is missing from the merged files, or in them twice."""
    branch = f"waybook/{scene.plan_id}/merged"
    for name in FILES:
        wanted = sorted(order for order, files in steps.items() if name in files)
        found: list[int] = []
        with suppress(subprocess.CalledProcessError):
            found = [int(line) for line in scene.git("show", f"{branch}:{name}").split()]
        if sorted(found) != wanted:
            yield f"{name} has the edits {found}, not {wanted}"


def leftovers(scene: Scene) -> Iterator[str]:
    state = scene.place / "data" / "work"
    yield from (f"worktree {path}" for path in (state / "trees").iterdir())
    yield from (f"record {path}" for path in (state / "steps").iterdir())
    if scene.git("worktree", "list", "--porcelain").count("worktree ") > 1:
        yield "git lists a worktree"
    for branch in scene.git("branch", "--list", "waybook/*", "--format=%(refname:short)").split():
        if not branch.endswith("/merged"):
            yield f"branch {branch}"
    mark = f"{MARK}=".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            environment = path.read_bytes()
            if mark in environment and str(scene.place).encode() in environment:
                yield f"process {path.parent.name}"


def faults_of(scene: Scene, steps: list[dict[str, Any]], status: dict[str, Any]) -> Iterator[str]:
    done = {step["stepOrder"]: step.get("resultSummary") for step in status["completedSteps"]}
    if done != {order: f"did {order}" for order in range(1, STEPS + 1)}:
        yield f"the plan is {status['status']}; results: {done}"
    yield from scene.lines("violations")
    yield from merged_faults(scene, {n: step["touches"] for n, step in enumerate(steps, 1)})
    yield from leftovers(scene)
    say(f"{len(done)} steps done; {len(scene.lines('calls'))} starts of agents:")
    say(f"{dict(Counter(scene.lines('fates')))}")
    spent = len(scene.lines("spent")) * COST_DOLLARS
    say(f"{spent:.2f} dollars spent; the cap was raised {scene.raised} times")


async def conduct(seed: int, minutes: float) -> int:
    rng = random.Random(seed)
    options = Options(disk_megabytes=None, lease_seconds=20)
    async with running_cluster(options) as cluster:
        scene = await make_scene(cluster, cluster.home / "place", seed, minutes)
        await asyncio.to_thread(prepare, scene)
        await start_servers(cluster)
        steps = [*make_steps(rng)]
        plan = await scene.person.call(
            "create_research_plan",
            name="Overlapping steps",
            researchQuestion="Is every edit made once?",
            steps=steps,
        )
        scene.plan_id = plan["planId"]
        workers = {name: Supervised(name, partial(scene.command, name)) for name in PROCESSES}
        begun = time.monotonic()
        for worker in workers.values():
            worker.start()
        ending = asyncio.create_task(wait_for_the_end(scene, minutes * 60 * 3 + 300))
        background = [
            asyncio.create_task(break_things(scene, workers, rng)),
            asyncio.create_task(raise_caps(scene)),
        ]
        await asyncio.wait([ending, *background], return_when=asyncio.FIRST_COMPLETED)
        for task in background:
            task.cancel()
        ends = await asyncio.gather(*background, return_exceptions=True)
        status = await ending
        # The workers find the plan completed, and end.
        for worker in workers.values():
            worker.may_run.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(60):
                    while worker.pid is not None:
                        await asyncio.sleep(0.1)
            await worker.stop()
        say(f"{(time.monotonic() - begun) / 60:.1f} minutes, kills: {dict(scene.faults)}")
        violations = [*faults_of(scene, steps, status), *internal_errors(cluster.home)]
        violations += [repr(end) for end in ends if not isinstance(end, asyncio.CancelledError)]
        for violation in violations:
            say(f"VIOLATION: {violation}")
        if not violations:
            shutil.rmtree(cluster.home, ignore_errors=True)
    return 1 if violations else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make harness NAME=work-faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=30.0)
    chosen = parser.parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(10**6)
    say(f"seed {seed}")
    return asyncio.run(conduct(seed, chosen.minutes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
