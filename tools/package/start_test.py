"""Test that runs the README and the quickstart page literally, in an empty home directory.

    python -m tools.package.start_test dist/waybook-VERSION-py3-none-any.whl

Both pages are run from a clone of the last commit, and the quickstart also from the built wheel.
Every command and Python program is executed as printed. Only these parts are replaced: the
repository's address by a local one, the package name by the path of the wheel, ids by those that
earlier calls returned, and the interactive `waybook review` by `waybook review --approve`. `claude`
is the real Claude Code with a scripted model. The test ends at the first command that fails, or
whose output differs from the page.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.package.claude_code import ScriptedClaudeCode, scripted_claude_code

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
QUICKSTART = ROOT / "docs" / "start.md"
REPOSITORY = "https://github.com/waybook/waybook"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROMPT = "$ "
#: Start of the command that runs the agent in the quickstart.
AGENT = "claude -p "
#: For each way to install Waybook, a text that only code blocks for this way contain.
SOURCES = {"clone": ".venv/bin", "wheel": ".waybook-env/bin"}
#: First words of code blocks that belong in a second terminal.
NEW_TERMINAL = ("cd ", "export PATH=")
#: First words of commands that ask for confirmation, each with the answer to type.
ANSWERS = {"waybook connect": "y\n"}
#: Commands that ask for a decision, each with a command to run instead that contains the decision.
DECIDED = {"waybook review": "waybook review --approve"}
#: First words of commands that run until they are interrupted.
ENDLESS = ("waybook plan watch", "waybook serve")
#: URL that `waybook serve` answers when it is ready.
READY = "http://127.0.0.1:8750/readyz"
#: Commands that are skipped, because CI runs them separately.
SKIPPED = ("make test",)
#: Beginnings of the names of environment variables that commands keep, because an installer may
#: need them to reach a package index.
KEPT = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "NO_PROXY", "no_proxy", "http", "LANG")
#: Maximum seconds for a command. The first command of a page downloads all dependencies.
MAX_COMMAND_SECONDS = 600
#: Maximum seconds until an endless command is ready, and until it ends.
MAX_START_SECONDS = 60


@dataclass
class ShownCommand:
    """Command on a page, with the output lines that the page shows."""

    text: str
    output: list[str] = field(default_factory=list)

    def missing_output(self, output: str) -> list[str]:
        """Return those lines on the page that the real output lacks.

        `…` stands for any characters.
        """
        lines = [line.strip() for line in output.splitlines()]
        return [shown for shown in self.output if not any(map(_pattern(shown).fullmatch, lines))]


def _pattern(shown: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, shown.strip().split("…"))))


def commands(page: str) -> list[ShownCommand]:
    return [
        shown for kind, text in BLOCK.findall(page) if kind == "console" for shown in typed(text)
    ]


def typed(block: str) -> list[ShownCommand]:
    shown: list[ShownCommand] = []
    for line in block.splitlines():
        if line.startswith(PROMPT):
            shown.append(ShownCommand(line.removeprefix(PROMPT)))
        else:
            shown[-1].output.append(line)
    return shown


def ids_in(output: str) -> dict[str, str]:
    """Return the ids in the reply of a tool, by the placeholders that the page has for them."""
    try:
        reply = json.loads(output)
    except ValueError:
        return {}
    names = {"PLAN_ID": "planId", "STEP_ID": "stepId"}
    return {name: reply[key] for name, key in names.items() if reply.get(key)}


@dataclass
class Terminal:
    """Shell that keeps its folder and its PATH for the next command."""

    environment: dict[str, str]
    folder: Path

    def run(self, command: str, more: dict[str, str] | None = None) -> str:
        """Run a command; return its output.

        Raises:
            SystemExit: the command fails.
        """
        answer = next((text for start, text in ANSWERS.items() if command.startswith(start)), "")
        with tempfile.NamedTemporaryFile("r") as state:
            left = f'trap \'printf "%s\\n" "$PWD" "$PATH" > {state.name}\' EXIT'
            done = subprocess.run(
                ["bash", "-c", f"{left}\n{command}"],
                env={**self.environment, **(more or {})},
                cwd=self.folder,
                input=answer,
                capture_output=True,
                text=True,
                timeout=MAX_COMMAND_SECONDS,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"failed: {command}\n{done.stdout}{done.stderr}")
            folder, self.environment["PATH"] = state.read().splitlines()
        self.folder = Path(folder)
        return done.stdout

    @contextmanager
    def endless(self, command: str) -> Iterator[None]:
        """During the block, run a command that does not end by itself; wait until it is ready.

        Raises:
            SystemExit: the command ends early, does not become ready, or does not end on
                Ctrl-C.
        """
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            deadline = time.monotonic() + MAX_START_SECONDS
            try:
                while not is_ready(command, os.fstat(output.fileno()).st_size):
                    if process.poll() is not None or time.monotonic() > deadline:
                        output.seek(0)
                        raise SystemExit(f"ended or not ready: {command}\n{output.read()}")
                    time.sleep(0.2)
                yield
                process.send_signal(signal.SIGINT)
                if code := process.wait(MAX_START_SECONDS):
                    output.seek(0)
                    raise SystemExit(f"failed with exit code {code}: {command}\n{output.read()}")
            finally:
                process.kill()
                process.wait()


def is_ready(command: str, printed: int) -> bool:
    """Return whether an endless command is ready, after it has printed this many bytes."""
    if not command.startswith("waybook serve"):
        return printed > 0
    try:
        with urllib.request.urlopen(READY, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@dataclass
class PageRun:
    """Execution of all commands on a page, in one home directory."""

    source: str
    wheel: Path
    environment: dict[str, str]
    agent: ScriptedClaudeCode
    endless: ExitStack
    ids: dict[str, str] = field(default_factory=dict)
    has_used_agent: bool = False

    def __post_init__(self) -> None:
        self.home = Path(self.environment["HOME"])
        self.terminal = Terminal(dict(self.environment), self.home)

    def block(self, kind: str, text: str) -> None:
        """Execute a code block of the page, and print each command.

        Raises:
            SystemExit: a command or program fails, or has another effect than the page shows.
        """
        others = [mark for source, mark in SOURCES.items() if source != self.source]
        if any(mark in text for mark in others):
            return
        if kind == "python":
            program = self.terminal.folder / "program.py"
            program.write_text(text, "utf-8")
            report("python3 program.py", self.terminal.run("python3 program.py"))
            return
        shown_commands = typed(text)
        terminal = self.terminal
        if shown_commands[0].text.startswith(NEW_TERMINAL):
            folder = self.home if shown_commands[0].text.startswith("cd ") else terminal.folder
            terminal = Terminal(dict(self.environment), folder)
        for shown in shown_commands:
            if not shown.text.startswith(SKIPPED):
                report(shown.text, self.perform(shown, terminal))

    def perform(self, shown: ShownCommand, terminal: Terminal) -> str:
        """Run a command in a terminal; return its output.

        Raises:
            SystemExit: the command fails, or its output differs from the page.
        """
        command = self.filled(shown.text)
        if shown.text.startswith(ENDLESS):
            self.endless.enter_context(terminal.endless(command))
            return "started"
        output = self.prompt(command) if shown.text.startswith(AGENT) else terminal.run(command)
        if missing := shown.missing_output(output):
            raise SystemExit(f"failed: {shown.text}\nthe output lacks {missing}:\n{output}")
        self.ids.update(ids_in(output))
        return output

    def filled(self, command: str) -> str:
        """Return a command with values for its placeholders, the local repository and the wheel."""
        command = command.replace(f"git clone {REPOSITORY}", f"git clone {ROOT.as_uri()} waybook")
        command = command.replace("pip install waybook", f"pip install {self.wheel}")
        for name, value in self.ids.items():
            command = command.replace(name, value)
        return DECIDED.get(command, command)

    def prompt(self, command: str) -> str:
        """Run the agent; check in the database that it has completed the plan.

        Raises:
            SystemExit: the agent has not completed the plan.
        """
        self.has_used_agent = True
        output = self.terminal.run(command, dict(self.agent.environment))
        if problems := self.agent.problems(command, self.terminal.run):
            raise SystemExit(f"failed: {command}\n{output}\n" + "\n".join(problems))
        return output


def report(command: str, output: str) -> None:
    last = output.strip().splitlines()[-1:] or [""]
    sys.stdout.write(f"✓ {command[:76]}\n    {last[0][:100]}\n")
    sys.stdout.flush()


def run_page(page: Path, source: str, wheel: Path) -> PageRun:
    """Run all commands and programs of a page in an empty home directory.

    Raises:
        SystemExit: a command or program failed.
    """
    sys.stdout.write(f"\n{page.name}, from the {source}\n")
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as programs,
        scripted_claude_code(Path(programs)) as agent,
        ExitStack() as endless,
    ):
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        path = f"{programs}{os.pathsep}{os.defpath}"
        environment = {**kept, "HOME": home, "PATH": path}
        page_run = PageRun(source, wheel, environment, agent, endless)
        for kind, text in BLOCK.findall(page.read_text("utf-8")):
            page_run.block(kind, text)
    return page_run


def main(wheel: Path) -> None:
    """Run the README and the quickstart from a clone, and the quickstart from the wheel.

    Raises:
        SystemExit: a command or program failed, or the quickstart has no prompt for the agent.
    """
    run_page(README, "clone", wheel)
    for source in SOURCES:
        if not run_page(QUICKSTART, source, wheel).has_used_agent:
            raise SystemExit(f"failed: {QUICKSTART.name} has no command that starts with {AGENT!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
