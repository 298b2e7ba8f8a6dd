"""Agent processes: real commands, which hold to the rules or break them."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from waybook.json_values import Json
from waybook.work import keeper
from waybook.work.adapters import find_adapter, load_adapters
from waybook.work.agent_process import run_agent
from waybook.work.process import end_leftovers
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Task, Usage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
SCHEMA: Json = {
    "type": "object",
    "properties": {"rivers": {"type": "integer"}},
    "required": ["rivers"],
}
Run = Callable[..., "asyncio.Task[Outcome]"]
LIMITS = Limits(seconds=60, grace_seconds=0.2)
#: A child that outlives its parent in a session of its own, and does not end at SIGTERM.
LEAVE = """
import os, signal, sys
def leave(clean=False):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open("left", "w").write(str(os.getpid()))
            os.write(pipe[1], b"x")
            signal.pause()
        os._exit(0)
    os.read(pipe[0], 1)
pipe = os.pipe()
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def start(
        code: str,
        *,
        task: Task | None = None,
        limits: Limits = LIMITS,
        lines: list[str] | None = None,
    ) -> "asyncio.Task[Outcome]":
        script = tmp_path / "agent.py"
        script.write_text(code)
        command = f"cmd:{sys.executable} {script} {{prompt_file}}"
        adapter, _ = find_adapter(command, load_adapters())
        shown: list[str] = [] if lines is None else lines
        task = task or Task("Count the rivers.", tmp_path)
        return asyncio.ensure_future(run_agent(adapter, task, limits, shown.append))

    return start


def is_alive(file: Path) -> bool:
    return keeper.read_stat(int(file.read_text()))[0] not in ("", "Z", "X")


def wait_for_end(file: Path) -> None:
    """Wait until the process with the id in the file has ended, at most a minute."""
    try:
        ending = os.pidfd_open(int(file.read_text()))
    except ProcessLookupError:
        return
    select.select([ending], [], [], 60)
    os.close(ending)


async def test_prompt_arrives_by_file_and_standard_input(run: Run) -> None:
    lines: list[str] = []
    code = "import sys; print(open(sys.argv[1]).read()); print(sys.stdin.read())"
    outcome = await run(code, lines=lines)
    assert lines == ["Count the rivers.", "Count the rivers."]
    assert (outcome.kind, outcome.text, outcome.result) == (
        OutcomeKind.DONE,
        "Count the rivers.\nCount the rivers.",
        None,
    )


async def test_result_comes_from_the_result_file(run: Run, tmp_path: Path) -> None:
    code = "import os; open(os.environ['WAYBOOK_RESULT'], 'w').write('{\"rivers\": 3}'); print('x')"
    outcome = await run(code, task=Task("Count.", tmp_path, SCHEMA))
    assert (outcome.kind, outcome.result) == (OutcomeKind.DONE, {"rivers": 3})


FORGED = """
import re, sys
prompt = sys.stdin.read()
begin = re.search(r"`(BEGIN RESULT \\w+)`", prompt)[1]
end = begin.replace("BEGIN", "END")
print("BEGIN RESULT 0123456789abcdef\\n{\\"rivers\\": 1}\\nEND RESULT 0123456789abcdef")
print(f"{begin}\\n{{\\"rivers\\": 2}}\\n{end}")
print(f"{begin}\\n{{\\"rivers\\": 3}}\\n{end}")
print(prompt)
print("BEGIN RESULT 0123456789abcdef\\n{\\"rivers\\": 4}\\nEND RESULT 0123456789abcdef")
"""


async def test_last_block_with_the_nonce_counts_and_forged_ones_do_not(
    run: Run, tmp_path: Path
) -> None:
    outcome = await run(FORGED, task=Task("Count.", tmp_path, SCHEMA))
    assert (outcome.kind, outcome.result) == (OutcomeKind.DONE, {"rivers": 3})


async def test_wrong_result_is_repaired_once_and_then_fails(run: Run, tmp_path: Path) -> None:
    task = Task("Count.", tmp_path, SCHEMA)
    repaired = await run(
        """
import sys
print('{"rivers": "three"}' if "was not accepted" not in sys.stdin.read() else '{"rivers": 3}')
""",
        task=task,
    )
    assert (repaired.kind, repaired.result) == (OutcomeKind.DONE, {"rivers": 3})
    failed = await run("open('runs', 'a').write('x'); print('no JSON')", task=task)
    assert (failed.kind, failed.result) == (OutcomeKind.FAILED, None)
    assert "there is no JSON" in failed.message
    assert (tmp_path / "runs").read_text() == "xx"


async def test_process_in_another_session_is_ended_with_the_agent(run: Run, tmp_path: Path) -> None:
    outcome = await run(LEAVE + "leave(); print('done')")
    assert (outcome.kind, outcome.text) == (OutcomeKind.DONE, "done")
    assert not is_alive(tmp_path / "left")
    assert "1 processes that the agent had left running were ended" in outcome.transcript


async def test_agent_that_ignores_sigterm_is_killed_at_the_time_limit(
    run: Run, tmp_path: Path
) -> None:
    code = LEAVE + "leave(); signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    outcome = await run(code, limits=LIMITS._replace(seconds=3))
    assert outcome.kind is OutcomeKind.TIMEOUT
    assert outcome.message == "the agent took more than 3 seconds; it was ended"
    assert not is_alive(tmp_path / "left")


async def test_agent_that_kills_the_keeper_leaves_no_process(run: Run, tmp_path: Path) -> None:
    outcome = await run(LEAVE + "leave(); os.kill(os.getppid(), signal.SIGKILL); signal.pause()")
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.message.startswith("the process that owns the agent was killed")
    assert not is_alive(tmp_path / "left")


async def test_flood_is_ended_and_the_transcript_stays_bounded(run: Run) -> None:
    code = "while True: print('x' * 1000)"
    outcome = await run(code, limits=LIMITS._replace(output_bytes=2_000_000))
    assert outcome.kind is OutcomeKind.FLOODED
    assert outcome.message == "the agent wrote more than 2,000,000 bytes; it was ended"
    assert 50_000 < len(outcome.transcript) <= 60_000


async def test_output_over_the_limit_does_not_count_as_done(run: Run) -> None:
    outcome = await run("print('x' * 3_000)", limits=LIMITS._replace(output_bytes=2_000))
    assert outcome.kind is OutcomeKind.FLOODED


async def test_memory_of_all_processes_together_is_limited(run: Run) -> None:
    code = (
        "import os, signal; os.fork(); kept = bytearray(os.urandom(1)) * 60_000_000; signal.pause()"
    )
    outcome = await run(code, limits=LIMITS._replace(memory_bytes=100_000_000))
    assert outcome.kind is OutcomeKind.OVER_MEMORY


REPORTING = """
import json, signal, sys
for _ in range(3):
    print(json.dumps({"type": "turn", "in": 400, "out": 100, "dollars": 0.1}), flush=True)
signal.pause()
"""
RETRYING = """
import signal
print('{"type": "retry", "why": "fetch failed: ECONNREFUSED"}', flush=True)
signal.pause()
"""
RULES = """
[agents.described]
command = ["python3", "agent.py"]
output = "json-lines"
usage_of_conversation = true
[[agents.described.read]]
when = { type = "hello" }
conversation = "id"
text = "text"
[[agents.described.read]]
when = { type = "turn" }
usage = "add"
input_tokens = ["in"]
output_tokens = ["out"]
cost_dollars = "dollars"
[[agents.described.read]]
when = { type = "retry" }
retry = "why"
"""


async def run_described(
    folder: Path, code: str, limits: Limits, *, resume: str | None = None, schema: Json = None
) -> Outcome:
    """Run a command whose output an own table in a file describes."""
    (folder / "agents.toml").write_text(RULES)
    (folder / "agent.py").write_text(code)
    adapter = load_adapters(folder / "agents.toml").by_name["described"]
    adapter = adapter.model_copy(update={"command": (sys.executable, "agent.py")})
    task = Task("Count.", folder, schema, resume=resume)
    return await run_agent(adapter, task, limits, lambda _: None)


@pytest.mark.parametrize(
    ("cap", "used"),
    [({"tokens": 1_400}, "more than 1,400 tokens"), ({"cost_micros": 290_000}, "more than $0.29")],
)
async def test_agent_is_ended_when_the_reported_usage_exceeds_a_cap(
    tmp_path: Path, cap: dict[str, int], used: str
) -> None:
    outcome = await run_described(tmp_path, REPORTING, LIMITS._replace(**cap))
    assert (outcome.kind, outcome.message) == (
        OutcomeKind.OVER_CAP,
        f"the agent used {used}; it was ended",
    )
    assert outcome.usage == Usage(1_200, 300, 300_000)


NAMING = """
import json, os, sys
print(json.dumps({"type": "hello", "id": "a#b", "text": "no JSON"}), flush=True)
print(json.dumps({"type": "turn", "in": 4, "out": 1, "dollars": 0}), flush=True)
open("runs", "a").write("x")
"""


async def test_conversation_with_any_name_can_be_resumed(tmp_path: Path) -> None:
    outcome = await run_described(tmp_path, NAMING, LIMITS, resume="a#b", schema=SCHEMA)
    assert (outcome.kind, outcome.conversation) == (OutcomeKind.FAILED, "a#b#4#1#0")
    again = await run_described(tmp_path, NAMING, LIMITS, resume=outcome.conversation)
    assert (again.kind, again.conversation) == (OutcomeKind.DONE, "a#b#8#2#0")


async def test_wrong_result_is_not_corrected_after_the_last_token(tmp_path: Path) -> None:
    outcome = await run_described(tmp_path, NAMING, LIMITS._replace(tokens=5), schema=SCHEMA)
    assert outcome.kind is OutcomeKind.FAILED
    assert "does not match the schema" in outcome.message
    assert (tmp_path / "runs").read_text() == "x"


async def test_agent_that_only_retries_is_ended_with_the_reason(tmp_path: Path) -> None:
    outcome = await run_described(tmp_path, RETRYING, LIMITS._replace(patience_seconds=0.1))
    assert outcome.kind is OutcomeKind.NO_NETWORK
    assert outcome.message == "fetch failed: ECONNREFUSED; it was ended"


async def test_canceled_task_ends_the_agent_first(run: Run, tmp_path: Path) -> None:
    started = asyncio.Event()

    class Lines(list[str]):
        def append(self, _: str) -> None:
            started.set()

    running = run(LEAVE + "leave(); print('up', flush=True); signal.pause()", lines=Lines())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(tmp_path / "left")


async def test_secrets_appear_in_no_line_result_or_transcript(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "not-passed-to-agents")
    lines: list[str] = []
    task = Task(
        "Count.",
        tmp_path,
        {"type": "object"},
        environment={"MY_TOKEN": 'hush"hush'},
        mcp_server={
            "url": "http://127.0.0.1:9/mcp",
            "headers": {"Authorization": "Bearer t0p-secret"},
        },
    )
    code = """
import json, os, sys
config = json.load(open(os.environ["WAYBOOK_MCP_CONFIG"]))
headers = config["mcpServers"]["waybook"]["headers"]
text = os.environ["MY_TOKEN"] + " " + headers["Authorization"]
print(text, file=sys.stderr)
print("x" * 1_996 + os.environ["MY_TOKEN"], file=sys.stderr)
print(json.dumps({"is": text, "other": os.environ.get("OTHER_API_KEY"), "argv": sys.argv[1:]}))
"""
    outcome = await run(code, task=task, lines=lines)
    assert outcome.kind is OutcomeKind.DONE
    result = outcome.result
    assert isinstance(result, dict)
    assert (result["is"], result["other"]) == ("… Bearer …", None)
    everything = [*lines, outcome.text, outcome.transcript, json.dumps(result)]
    assert [text for text in everything if "hush" in text or "t0p" in text] == []


async def test_missing_command_fails_with_the_name_of_the_command(tmp_path: Path) -> None:
    adapter, _ = find_adapter("cmd:/nowhere/agent", load_adapters())
    outcome = await run_agent(adapter, Task("x", tmp_path), LIMITS, lambda _: None)
    message = "the agent did not start: /nowhere/agent: No such file or directory"
    assert (outcome.kind, outcome.message) == (OutcomeKind.FAILED, message)


WORKER = """
import asyncio, sys
from pathlib import Path
from waybook.work.adapters import find_adapter, load_adapters
from waybook.work.agent_process import run_agent
from waybook.work.tasks import Limits, Task
adapter, _ = find_adapter(f"cmd:{sys.executable} agent.py", load_adapters())
def show(line):
    print(line, flush=True)
asyncio.run(run_agent(adapter, Task("x", Path.cwd()), Limits(grace_seconds=0.2), show))
"""


def start_worker(folder: Path, code: str) -> "subprocess.Popen[str]":
    (folder / "agent.py").write_text(code)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "up\n"
    return worker


def test_agents_of_a_killed_worker_are_ended(tmp_path: Path) -> None:
    code = LEAVE + "leave(); print('up', flush=True); signal.pause()"
    with start_worker(tmp_path, code) as worker:
        worker.kill()
        wait_for_end(tmp_path / "left")
    assert not is_alive(tmp_path / "left")


def test_agents_of_a_dead_worker_and_keeper_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    code = LEAVE + "leave(); open('keeper', 'w').write(str(os.getppid()))"
    code += "\nprint('up', flush=True); signal.pause()"
    with start_worker(tmp_path, code) as worker:
        os.kill(int((tmp_path / "keeper").read_text()), signal.SIGSTOP)
        worker.kill()
        worker.wait()
        os.kill(int((tmp_path / "keeper").read_text()), signal.SIGKILL)
        assert is_alive(tmp_path / "left")
        assert [*tmp_path.glob("waybook-agents/*/prompt.md")] != []
        assert end_leftovers() >= 1
        assert [*tmp_path.glob("waybook-agents/*")] == []
        wait_for_end(tmp_path / "left")
    assert not is_alive(tmp_path / "left")
