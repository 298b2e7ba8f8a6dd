"""Test of the Claude Code plugin, which must complete a plan although the client is killed.

The real client with the real plugin and a scripted model works on a plan of thirteen steps. The
conversation is compacted after every third step, and the client is killed after the seventh: `make
harness NAME=plugins`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from embedded_postgres.data_directories import make_data_directory
from embedded_postgres.processes import eventually
from plugin_clients.anthropic_server import ScriptedModel, last_reply, serve_model
from plugin_clients.scripted_agent import PROMPT, Call
from tokens import count_tokens

ROOT: Final = Path(__file__).resolve().parents[2]
PLUGIN: Final = ROOT / "build" / "plugins" / "claude-code"
STEPS: Final = 13
KILLED_AFTER: Final = 7
#: Maximum number of prompts; a test that needs more is stuck.
MAX_PROMPTS: Final = 8
PATIENCE: Final = 300.0
MAX_TOKENS: Final = 400
NOTICE: Final = re.compile(
    r"(?:An earlier conv.{,200}\n)?Waybook: you work on .*? are data\.", re.DOTALL
)


@dataclass
class Client:
    """Claude Code with a home directory of its own, the plugin, and no other settings."""

    program: str
    home: Path
    data_dir: Path
    url: str
    process: subprocess.Popen[str] | None = None

    def environment(self) -> dict[str, str]:
        bin_folder = Path(sys.executable).parent
        return {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "local",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "MCP_TIMEOUT": "120000",
            "WAYBOOK_DATA_DIR": str(self.data_dir),
            "WAYBOOK_CONFIG": str(self.home / "none.toml"),
        }

    def waybook(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
        """Call a Waybook tool from the command line, and return its reply."""
        done = subprocess.run(
            [sys.executable, "-m", "waybook", "call", "--json", tool, json.dumps(arguments)],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return json.loads(done.stdout)

    def prompt(self, text: str, session: str | None) -> str | None:
        """Run one prompt; return the id of the conversation, or None if the client was killed."""
        work = self.home / "project"
        work.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            self.command(text, session),
            cwd=work,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        output, _ = self.process.communicate(timeout=PATIENCE)
        if self.process.returncode == -signal.SIGKILL:
            return None
        assert self.process.returncode == 0, output
        return self.conversation(output)

    def command(self, text: str, session: str | None) -> list[str]:
        """Return the command line for a prompt that may only use Waybook's tools."""
        options = ["--plugin-dir", str(PLUGIN), "--output-format", "json"]
        allowed = ["--allowedTools", "mcp__plugin_waybook_waybook"]
        resumed = ["--resume", session] if session else []
        return [self.program, "-p", text, *options, *allowed, *resumed]

    def conversation(self, output: str) -> str | None:
        """Return the id of the conversation from the output for a prompt."""
        return str(json.loads(output)["session_id"])

    def kill(self) -> None:
        """Kill the client and all processes that it started."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)

    def has_ended(self) -> bool:
        """Return whether the MCP servers whose process ids are in the state files have ended."""
        states = (self.data_dir / "conversations").glob("*.json")
        pids = [json.loads(path.read_text("utf-8"))["process"] for path in states]
        return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@dataclass
class Interruption:
    """Interruption that kills the client while it holds the eighth step."""

    client: Client
    submitted: int = 0
    is_done: bool = False

    def before_answer(self, texts: list[str], decision: Call | str) -> None:
        """Kill the client when it is about to submit the eighth step for the first time."""
        reply = last_reply(texts)
        if self.is_done or not isinstance(decision, Call) or reply is None:
            return
        if reply.get("stepOrder") == KILLED_AFTER + 1:
            self.is_done = True
            self.client.kill()
            raise ConnectionAbortedError


def work_through(client: Client, plan_id: str) -> list[str]:
    """Prompt the client until the plan is complete; return what happened between the prompts."""
    events: list[str] = []
    session = client.prompt(f"{PROMPT} {plan_id}.", None)
    for _ in range(MAX_PROMPTS):
        status = client.waybook("get_plan_status", planId=plan_id)
        events.append(f"{status['counts']['done']} done")
        if status["status"] == "completed":
            return events
        if session is None:
            # In a new conversation, the model knows plan and step only from the hook of the plugin.
            events.append("new conversation")
            eventually(client.has_ended, "the MCP server of the ended client has ended")
        else:
            client.prompt("/compact", session)
            events.append("compacted")
        session = client.prompt(PROMPT, session)
    raise AssertionError(f"the plan is not complete after {MAX_PROMPTS} prompts: {events}")


def check(client: Client, calls: list[Call], plan_id: str) -> None:
    """Check that each step was submitted once, on its first attempt."""
    submitted = [c.arguments["stepId"] for c in calls if c.tool == "submit_step_result"]
    assert len(submitted) == len(set(submitted)) == STEPS, submitted
    status = client.waybook("get_plan_status", planId=plan_id, detail=True)
    assert [step["stepId"] for step in status["completedSteps"]] == submitted
    results = [step["resultSummary"] for step in status["completedSteps"]]
    assert results == [f"Result of {step_id}" for step_id in submitted]
    audit = client.waybook("get_research_context", planId=plan_id, since=0)["recentEvents"]
    started = [entry for entry in audit if entry["event"] == "step_started"]
    assert len(started) == STEPS, started


def longest_notice(contexts: list[list[str]]) -> int:
    """Return the number of tokens in the longest message of the hook."""
    texts = [text for context in contexts for text in context]
    notices = {notice for text in texts for notice in NOTICE.findall(text)}
    return max(map(count_tokens, notices))


def create_plan(client: Client) -> str:
    steps = [{"instructions": f"Do part {n}", "stepType": "analyze"} for n in range(STEPS)]
    question = {"name": "Thirteen", "researchQuestion": "All?"}
    return str(client.waybook("create_research_plan", **question, steps=steps)["planId"])


def main(program: str) -> None:
    with make_data_directory() as place, tempfile.TemporaryDirectory() as home:
        model = ScriptedModel()
        with serve_model(model) as url:
            client = Client(program, Path(home), place / "data", url)
            interruption = Interruption(client)
            model.before_answer = interruption.before_answer
            plan_id = create_plan(client)
            events = work_through(client, plan_id)
            check(client, model.calls, plan_id)
        assert interruption.is_done
        assert all("submit_step_result" in summary for summary in model.summaries)
        held = [t for c in model.contexts for t in c if "You still hold step" in t]
        paused = [t for c in model.contexts for t in c if "Do not ask whether to go on" in t]
        longest = longest_notice(model.contexts)
    assert held, "the Stop hook never stopped an agent with a step from ending its turn"
    assert paused, "the Stop hook never stopped an agent between two steps from ending its turn"
    assert longest <= MAX_TOKENS
    print("Claude Code:", ", ".join(events))  # noqa: T201 - the result of the command
    print(f"{STEPS} steps, each submitted once; longest notice {longest} tokens")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
