"""Run of the quickstart page from the built wheel, on an empty machine.

    python tools/package/start_test.py dist/waybook-VERSION-py3-none-any.whl

Every command of docs/start.md is executed as it is printed, in an empty home directory and with an
environment that has nothing but a PATH and the settings of pip. Only these parts are replaced: the
name of the package by the wheel, the ids by those that the calls return, and the question of
`waybook review` by its option. The first command that fails ends the run.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "start.md"
COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)
EXPORT = re.compile(r'export PATH="(.+)"')
#: Input for commands that ask.
ANSWERS = {"waybook connect": "y\n"}
#: Commands that ask only on a terminal, and the same decision as an option.
DECIDED = {"waybook review": "waybook review --approve"}
#: Commands that run until they are interrupted.
ENDLESS = ("waybook watch",)
#: Variables that the package installer may need to reach an index.
KEPT = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "NO_PROXY", "no_proxy", "http", "LANG")
#: Maximum time in seconds for one command; the first one downloads every dependency.
MAX_COMMAND_SECONDS = 600


def commands() -> list[str]:
    """Return the commands of the page, in order."""
    blocks = re.findall(
        r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return [command for block in blocks for command in COMMAND.findall(block)]


def fill(command: str, wheel: Path, ids: dict[str, str]) -> str:
    """Return the command with the wheel and the ids in place of their names."""
    command = command.replace("pip install waybook", f"pip install {wheel}")
    for name, value in ids.items():
        command = command.replace(name, value)
    return DECIDED.get(command, command)


def run(command: str, environment: dict[str, str]) -> str:
    """Run a command in the empty home directory and return its output.

    Raises:
        SystemExit: it fails.
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
    """Return the ids in a tool's reply, by the names that the page uses."""
    try:
        reply = json.loads(output)
    except ValueError:
        return {}
    names = {"PLAN_ID": "planId", "STEP_ID": "stepId"}
    return {name: reply[key] for name, key in names.items() if reply.get(key)}


def main(wheel: Path) -> None:
    """Run all commands of the page, and print each one."""
    with tempfile.TemporaryDirectory() as home:
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        environment = {**kept, "HOME": home, "PATH": os.defpath}
        ids: dict[str, str] = {}
        for command in commands():
            if command.startswith(ENDLESS):
                continue
            if exported := EXPORT.fullmatch(command):
                path = exported[1].replace("$HOME", home).replace("$PATH", environment["PATH"])
                environment["PATH"] = path
                continue
            output = run(fill(command, wheel, ids), environment)
            ids.update(ids_in(output))
            last = output.strip().splitlines()[-1:] or [""]
            sys.stdout.write(f"✓ {command[:76]}\n    {last[0][:100]}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
