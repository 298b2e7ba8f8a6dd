"""Real coding agents with scripted local models, started as `waybook work` starts them.

Each agent answers with a result by schema, continues its conversation, uses an MCP server, and
meets the errors of its provider: `make harness NAME=work-agents`.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from tools.clients.catalog import select
from tools.clients.install import ENVIRONMENTS, NODE, install
from tools.clients.model.script import FinalText, Reply, ToolCall
from tools.clients.model.server import FORMATS, Handler
from tools.clients.run import OFFLINE
from waybook.json_values import Json
from waybook.work import keeper
from waybook.work.adapters import Adapter, load_adapters
from waybook.work.agent_process import run_agent
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Task

MODULES: Final = "node_modules"
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "claude-code": ("node", f"{MODULES}/@anthropic-ai/claude-code/cli-wrapper.cjs"),
    "codex": ("node", f"{MODULES}/@openai/codex/bin/codex.js"),
    "gemini-cli": ("node", f"{MODULES}/@google/gemini-cli/bundle/gemini.js"),
    "opencode": (f"{MODULES}/opencode-linux-x64/bin/opencode",),
}
MODELS: Final = {"claude-code": "claude-sonnet-4-5", "gemini-cli": "gemini-2.5-flash"}
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"rivers": {"type": "integer"}},
    "required": ["rivers"],
    "additionalProperties": False,
}
LIMITS: Final = Limits(seconds=240, patience_seconds=5)
#: Status and error of each API for a request that it refuses.
ERRORS: Final[Mapping[OutcomeKind, Mapping[str, tuple[int, dict[str, Json]]]]] = {
    OutcomeKind.QUOTA: {
        "anthropic": (429, {"type": "rate_limit_error", "message": "Too many requests."}),
        "openai": (429, {"type": "usage_limit_reached", "message": "The limit has been reached"}),
        "gemini": (
            429,
            {
                "code": 429,
                "message": "You exceeded your current quota. Please retry in 3600.5s.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                        "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
                    }
                ],
            },
        ),
    },
    OutcomeKind.SIGN_IN: {
        "anthropic": (401, {"type": "authentication_error", "message": "invalid x-api-key"}),
        "openai": (401, {"code": "invalid_api_key", "message": "Incorrect API key provided."}),
        "gemini": (
            400,
            {"code": 400, "message": "API key not valid."},
        ),
    },
    OutcomeKind.NO_MODEL: {
        "anthropic": (404, {"type": "not_found_error", "message": "model: nope"}),
        "openai": (404, {"code": "model_not_found", "message": "The model does not exist."}),
        "gemini": (404, {"code": 404, "message": "models/nope is not found."}),
    },
}


class Model(ThreadingHTTPServer):
    """Scripted model: answers with the result block that the prompt asks for, or with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.error: OutcomeKind | None = None
        self.wants_tool = False
        #: Whether requests wait for an answer, until they are given up.
        self.hangs = False
        self.ended = threading.Event()
        self.bodies: list[str] = []

    def reply(self, conversation: Any, body: str) -> Reply:  # noqa: ANN401 - as in FORMATS
        tools = {tool.name: tool for tool in conversation.tools}
        called = {result.tool for result in conversation.results}
        ping = next((tool for name, tool in tools.items() if name.endswith("ping")), None)
        if self.wants_tool and not any(name.endswith("ping") for name in called):
            if ping is not None:
                return ToolCall(ping, {})
            if search := tools.get("ToolSearch"):
                return ToolCall(search, {"query": "select:mcp__waybook__ping", "max_results": 1})
        if "BEGIN RESULT" not in body:
            return FinalText("There are three rivers.")
        if structured := tools.get("StructuredOutput"):
            if "StructuredOutput" not in called:
                return ToolCall(structured, {"rivers": 3})
            return FinalText("Done.")
        begin = "BEGIN RESULT " + body.rpartition("BEGIN RESULT ")[2][:16]
        end = begin.replace("BEGIN", "END")
        return FinalText(f'Three rivers.\n{begin}\n{{"rivers": 3}}\n{end}')


AnyModel = TypeVar("AnyModel", bound=Model)


class _Answers(Handler):
    server: Model  # type: ignore[assignment]

    def do_POST(self) -> None:  # noqa: N802 - the server calls it
        """Answer in the format of the API in the path."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}")
        path = urlsplit(self.path).path
        suffix = next((each for each in FORMATS if path.endswith(each)), None)
        if suffix is None:
            return self._send(200, {"input_tokens": 100, "totalTokens": 100})
        self.server.bodies.append(json.dumps(body))
        if self.server.hangs:
            self.server.ended.wait()
            return None
        if self.server.error is not None:
            api = {"/messages": "anthropic", "/chat/completions": "openai", "/responses": "openai"}
            status, content = ERRORS[self.server.error][api.get(suffix, "gemini")]
            return self._send(status, {"type": "error", "error": content})
        reply = self.server.reply(FORMATS[suffix].read(body), self.server.bodies[-1])
        call_id = f"call_{len(self.server.bodies)}"
        if body.get("stream") or suffix == ":streamGenerateContent":
            return self._stream(FORMATS[suffix].stream(reply, body, call_id))
        return self._send(200, FORMATS[suffix].write(reply, body, call_id))


@contextmanager
def serve(model: AnyModel) -> Iterator[AnyModel]:
    with model:
        thread = threading.Thread(target=model.serve_forever, daemon=True)
        thread.start()
        try:
            yield model
        finally:
            model.ended.set()
            model.shutdown()
            thread.join()


def set_up(home: Path, url: str) -> None:
    """Configure all agents to use the model, in a home folder of their own."""
    files = {
        ".codex/config.toml": f"""\
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
""",
        ".gemini/settings.json": json.dumps(
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
                "privacy": {"usageStatisticsEnabled": False},
            }
        ),
        ".config/opencode/opencode.json": json.dumps(
            {
                "provider": {
                    "scripted": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
                        "models": {"scripted": {}},
                    }
                },
                "model": "scripted/scripted",
                "autoupdate": False,
                "share": "disabled",
            }
        ),
    }
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    os.environ.update(
        OFFLINE,
        HOME=str(home),
        PATH=f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}",
        ANTHROPIC_BASE_URL=url,
        ANTHROPIC_API_KEY="none",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        GOOGLE_GEMINI_BASE_URL=url,
        GEMINI_API_KEY="none",
        OPENCODE_DISABLE_MODELS_FETCH="1",
    )
    for name in [name for name in os.environ if name.startswith(("XDG_", "CLAUDE_CONFIG"))]:
        del os.environ[name]


def real_agent(name: str, folder: Path, recorded: Path | None) -> Adapter:
    """Return the adapter with the installed program; its output is also written to a file."""
    adapter = load_adapters().by_name[name]
    program = [str(folder / word) if "/" in word else word for word in PROGRAMS[name]]
    tee = ("bash", "-c", f'set -o pipefail; "$@" | tee {recorded}', "agent") if recorded else ()
    return adapter.model_copy(
        update={
            "command": (*program, *adapter.command[1:]),
            "model": MODELS.get(name),
            "wrap": tee,
        }
    )


async def check(name: str, model: Model, place: Path, record: Path | None) -> list[str]:
    """Run all cases with one agent; return what went wrong."""
    (client,) = select([name])
    folder = install(client)
    faults = []

    async def run(case: str, task: Task, limits: Limits = LIMITS) -> Outcome:
        file = record / f"{name}-{case}.jsonl" if record else None
        lines: list[str] = []
        outcome = await run_agent(real_agent(name, folder, file), task, limits, lines.append)
        sys.stdout.write(f"{name} {case}: {outcome._replace(transcript='')}\n")
        sys.stdout.flush()
        log = ENVIRONMENTS / "logs" / f"work-{name}-{case}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(outcome.transcript, "utf-8")
        return outcome

    def expect(case: str, is_right: bool, outcome: Outcome) -> None:  # noqa: FBT001 - a check
        if not is_right:
            faults.append(f"{name}: {case}: {outcome._replace(transcript='')}")

    task = Task("How many rivers are there?", place)
    model.error, model.wants_tool = None, False
    done = await run("schema", task._replace(schema=SCHEMA))
    expect("schema", done.result == {"rivers": 3} and done.usage.input_tokens > 0, done)
    first = await run("text", task)
    again = await run("resumed", task._replace(prompt="And lakes?", resume=first.conversation))
    expect("text", "three rivers" in first.text, first)
    remembers = "How many rivers" in model.bodies[-1] and "And lakes?" in model.bodies[-1]
    expect("resumed", again.kind is OutcomeKind.DONE and remembers, again)
    expect("resumed usage", again.usage.input_tokens == first.usage.input_tokens, again)
    model.wants_tool = True
    server: dict[str, Json] = {
        "command": sys.executable,
        "args": ["-m", "waybook", "mcp", "--tools", "all"],
        "env": {"WAYBOOK_DATA_DIR": str(place / "data"), "WAYBOOK_CONFIG": str(place / "none")},
    }
    used = await run("tools", task._replace(mcp_server=server))
    expect("tools", used.kind is OutcomeKind.DONE and "list_active_plans" in model.bodies[-1], used)
    for kind in ERRORS:
        model.error = kind
        failed = await run(kind.value, task)
        expect(kind.value, failed.kind is kind, failed)
    model.error, model.hangs = None, True
    hung = await run("timeout", task, LIMITS._replace(seconds=20))
    model.hangs = False
    expect("timeout", hung.kind is OutcomeKind.TIMEOUT, hung)
    left = keeper.kill_marked(lambda mark: mark.startswith(f"{os.getpid()}."))
    expect("processes left", left == 0, hung)
    return faults


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make harness NAME=work-agents", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--record", type=Path, help="folder for the output of the agents")
    options = parser.parse_args(arguments)
    with serve(Model()) as model, tempfile.TemporaryDirectory(prefix="waybook-real-") as place:
        folder = Path(place, "work")
        folder.mkdir()
        set_up(Path(place, "home"), f"http://127.0.0.1:{model.server_address[1]}/x")
        faults = [
            fault
            for name in options.names
            for fault in asyncio.run(check(name, model, folder, options.record))
        ]
    sys.stdout.write("".join(f"FAILED {fault}\n" for fault in faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
