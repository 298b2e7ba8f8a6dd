"""Test that runs the quickstart page with the built wheel, in an empty environment.

    python -m tools.package.start_test dist/waybook-VERSION-py3-none-any.whl

Every command of docs/start.md is executed as printed, in an empty home directory, with only PATH
and the settings of pip in the environment. Only these parts are replaced: the package name by the
path of the wheel, ids by the ids that the calls return, and the question of `waybook review` by its
option. `claude` is the real Claude Code, configured to use a scripted model. The test ends at the
first command that fails or whose output differs from the page.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tools.package.claude_code import ScriptedClaudeCode, scripted_claude_code

PAGE = Path(__file__).parents[2] / "docs" / "start.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROMPT = "$ "
EXPORT = re.compile(r'export PATH="(.+)"')
#: Beginning of the quickstart command that starts the agent.
AGENT = "claude -p "
#: Input for commands of the quickstart that ask for confirmation.
ANSWERS = {"waybook connect": "y\n"}
#: Commands that ask for a decision on a terminal, each with the command that passes the decision as
#: an option.
DECIDED = {"waybook review": "waybook review --approve"}
#: Commands that run until they are interrupted.
ENDLESS = ("waybook watch",)
#: Prefixes of environment variables that the package installer may need to reach an index.
KEPT = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "NO_PROXY", "no_proxy", "http", "LANG")
#: Maximum time in seconds for one command of the quickstart; the first command downloads every
#: dependency.
MAX_COMMAND_SECONDS = 600


@dataclass
class ShownCommand:
    """Command of the quickstart page, and the lines of output that the page shows below it."""

    text: str
    output: list[str] = field(default_factory=list)

    def missing_output(self, output: str) -> list[str]:
        """Return the lines shown on the page that the output lacks; `…` matches any characters."""
        lines = [line.strip() for line in output.splitlines()]
        return [shown for shown in self.output if not any(map(_pattern(shown).fullmatch, lines))]


def _pattern(shown: str) -> re.Pattern[str]:
    """Return the regular expression that matches an output line shown on the page."""
    return re.compile(".*".join(map(re.escape, shown.strip().split("…"))))


def commands(page: str) -> list[ShownCommand]:
    """Return the commands of a page, in order."""
    shown: list[ShownCommand] = []
    for line in "".join(BLOCK.findall(page)).splitlines():
        if line.startswith(PROMPT):
            shown.append(ShownCommand(line.removeprefix(PROMPT)))
        else:
            shown[-1].output.append(line)
    return shown


def fill(command: str, wheel: Path, ids: dict[str, str]) -> str:
    """Return the command with the package name replaced by the wheel, and placeholders by ids."""
    command = command.replace("pip install waybook", f"pip install {wheel}")
    for name, value in ids.items():
        command = command.replace(name, value)
    return DECIDED.get(command, command)


def run(command: str, environment: dict[str, str]) -> str:
    """Run a command in the empty home directory and return its output.

    Raises:
        SystemExit: the command fails.
    """
    typed = next((text for start, text in ANSWERS.items() if command.startswith(start)), "")
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment,
        cwd=environment["HOME"],
        input=typed,
        capture_output=True,
        text=True,
        timeout=MAX_COMMAND_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"failed: {command}\n{done.stdout}{done.stderr}")
    return done.stdout


def ids_in(output: str) -> dict[str, str]:
    """Return the ids in a tool's reply, by their placeholders on the page."""
    try:
        reply = json.loads(output)
    except ValueError:
        return {}
    names = {"PLAN_ID": "planId", "STEP_ID": "stepId"}
    return {name: reply[key] for name, key in names.items() if reply.get(key)}


@dataclass
class QuickstartRun:
    """One test run of the quickstart page, in one home directory."""

    wheel: Path
    environment: dict[str, str]
    agent: ScriptedClaudeCode
    ids: dict[str, str] = field(default_factory=dict)
    has_used_agent: bool = False

    def perform(self, shown: ShownCommand) -> str | None:
        """Run a command and return its output; return None for a command that the test skips.

        Raises:
            SystemExit: the command fails, or has a different effect than the page shows.
        """
        if shown.text.startswith(ENDLESS):
            return None
        if exported := EXPORT.fullmatch(shown.text):
            old, home = self.environment["PATH"], self.environment["HOME"]
            self.environment["PATH"] = exported[1].replace("$HOME", home).replace("$PATH", old)
            return None
        command = fill(shown.text, self.wheel, self.ids)
        if shown.text.startswith(AGENT):
            output = self.prompt(command)
        else:
            output = run(command, self.environment)
        if missing := shown.missing_output(output):
            raise SystemExit(f"failed: {shown.text}\nthe output lacks {missing}:\n{output}")
        self.ids.update(ids_in(output))
        return output

    def prompt(self, command: str) -> str:
        """Run the agent, and check in the database that it completed the plan.

        Raises:
            SystemExit: the agent did not complete the plan.
        """
        self.has_used_agent = True
        output = run(command, {**self.environment, **self.agent.environment})
        check = partial(run, environment=self.environment)
        if problems := self.agent.problems(command, check):
            raise SystemExit(f"failed: {command}\n{output}\n" + "\n".join(problems))
        return output


def main(wheel: Path) -> None:
    """Run all commands of the quickstart page, and print each command.

    Raises:
        SystemExit: a command failed, or the page has no prompt for the agent.
    """
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as programs,
        scripted_claude_code(Path(programs)) as agent,
    ):
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        path = f"{programs}{os.pathsep}{os.defpath}"
        quickstart = QuickstartRun(wheel, {**kept, "HOME": home, "PATH": path}, agent)
        for shown in commands(PAGE.read_text("utf-8")):
            output = quickstart.perform(shown)
            if output is not None:
                last = output.strip().splitlines()[-1:] or [""]
                sys.stdout.write(f"✓ {shown.text[:76]}\n    {last[0][:100]}\n")
                sys.stdout.flush()
        if not quickstart.has_used_agent:
            raise SystemExit(f"failed: {PAGE.name} has no command that starts with {AGENT!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
