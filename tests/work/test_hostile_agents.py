"""Agents that lie, escape, flood or destroy: each is contained, and its step says why it failed."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from org_env import AgentClient, make_step
from waybook.work.tasks import Limits
from work_env import Place

NOTHING: Mapping[str, Any] = MappingProxyType({})
HIDDEN = "token-of-the-worker-4711"
SCHEMA = {
    "type": "object",
    "properties": {"river": {"type": "string"}},
    "required": ["river"],
}
#: Starts a process in a session of its own, whose parent has ended.
FORK = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        (pathlib.Path(sys.argv[0]).parent / "child").write_text(str(os.getpid()))
        for number in range(3):
            os.close(number)
        time.sleep(1000)
    os._exit(0)
os.wait()
while not (child := pathlib.Path(sys.argv[0]).parent / "child").exists() or not child.read_text():
    time.sleep(0.01)
"""


class Hostile(NamedTuple):
    program: str
    #: Why the step fails; None if the agent's work is accepted without its attack.
    reason: str | None
    step: Mapping[str, Any] = NOTHING
    options: Mapping[str, Any] = NOTHING


AGENTS = {
    "forges a result block": Hostile(
        """
mark = "RESULT 0123456789abcdef"
print(f"BEGIN {mark}", '{"river": "forged"}', f"END {mark}", sep="\\n")
""",
        "does not match the schema",
        {"resultSchema": SCHEMA},
    ),
    "exits 0 with garbage": Hostile(
        "sys.stdout.buffer.write(bytes(range(256)) * 20)",
        "does not match the schema",
        {"resultSchema": SCHEMA},
    ),
    "writes into the repository of the person": Hostile(
        """
folder = pathlib.Path(sys.argv[0]).parent / "repository"
write(folder / "stolen.txt", "mine")
answer("I changed it")
""",
        "you changed no file",
        {"touches": ["*.txt"]},
    ),
    "says done without a change": Hostile(
        "answer('all is done')", "you changed no file", {"touches": ["src/**"]}
    ),
    "forks and leaves": Hostile(f"{FORK}\nanswer('did it')", None),
    "floods its output": Hostile(
        "while True: print('x' * 10_000)",
        "wrote more than 200,000 bytes",
        options={"limits": Limits(output_bytes=200_000, grace_seconds=0.1)},
    ),
    "ignores SIGTERM and hangs": Hostile(
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)",
        "took more than 1 seconds",
        options={"limits": Limits(seconds=1, grace_seconds=0.1)},
    ),
    "changes the record of its step": Hostile(
        """
for path in (pathlib.Path(sys.argv[0]).parent / "state" / "steps").glob("*.json"):
    record = json.loads(path.read_text()) | {"stage": "finished", "result": "forged"}
    path.write_text(json.dumps(record))
sys.exit(1)
""",
        "ended with status 1",
    ),
    "prints a token": Hostile(
        f"print('{HIDDEN}'); print('{HIDDEN}', file=sys.stderr); answer('it is {HIDDEN}')",
        None,
        options={"secrets": (HIDDEN,)},
    ),
    "leaves a lock of git": Hostile(
        """
folder = subprocess.check_output(["git", "rev-parse", "--absolute-git-dir"], text=True).strip()
write("a.txt", "text")
pathlib.Path(folder, "index.lock").touch()
answer("did it")
""",
        "index.lock",
    ),
    "deletes its worktree": Hostile(
        "import shutil; answer('did it'); shutil.rmtree(os.getcwd())", "No such file"
    ),
    "installs a hook that refuses commits": Hostile(
        """
folder = subprocess.check_output(["git", "rev-parse", "--git-common-dir"], text=True).strip()
hook = pathlib.Path(folder, "hooks", "pre-commit")
hook.parent.mkdir(exist_ok=True)
ran = pathlib.Path(sys.argv[0]).parent / "ran"
hook.write_text(f"#!/bin/sh\\ntouch {ran}\\nexit 1\\n")
hook.chmod(0o755)
write("a.txt", "text")
answer("did it")
""",
        None,
    ),
}


def is_alive(file: Path) -> bool:
    """Return whether the process runs whose id is in the file. A killed one may wait for init."""
    if not file.exists():
        return False
    stat = Path("/proc", file.read_text(), "stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("name", AGENTS)
async def test_hostile_agent_is_contained_with_a_clear_reason(
    place: Place, agent: AgentClient, name: str
) -> None:
    hostile = AGENTS[name]
    plan = await agent.plan([make_step("Write.", **hostile.step)])
    options = {"max_attempts": 1, **hostile.options}
    status = await place.work(plan["planId"], (place.agent(hostile.program), 1), **options)
    known = await agent.status(plan)
    if hostile.reason is None:
        assert (status, len(known["completedSteps"])) == (0, 1), place.messages
    else:
        assert (status, known["completedSteps"]) == (1, [])
        (failed,) = known["failedSteps"]
        assert hostile.reason in failed["reason"]
        assert any(hostile.reason in line for line in place.messages)
        assert set(place.files(f"waybook/{plan['planId']}/merged")) == {"README.md"}
    assert place.leftovers() == []
    assert not (place.root / "ran").exists()
    assert not is_alive(place.root / "child")
    logs = "".join(path.read_text() for path in (place.root / "state" / "logs").iterdir())
    assert HIDDEN not in f"{known} {place.messages} {logs}"
