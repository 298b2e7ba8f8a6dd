"""Draw the output of `waybook work` on a plan of six steps: docs/pictures/work.svg.

Scripts replace the agents; everything else is the real command, on a temporary database.
"""

import io
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from tools.pictures.watch import WIDTH, export_svg

TARGET = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "work.svg"
PLAN = """# Release 2

- [ ] Write NOTES.md: what changed since version 1
- [ ] Add a test of the new import
- [ ] Speed up the search
- [ ] Describe the new search in the guide (after 3)
- [ ] Compare the notes with the tests and the guide (after 1, 2, 4)
- [ ] Set the version (after 5)
"""
AGENT = """
import os, pathlib, re, sys, time
order = re.search(r"# Step (\\d+)", sys.stdin.read())[1]
time.sleep(1)
pathlib.Path(f"part-{order}.md").write_text(f"part {order}")
pathlib.Path(os.environ["WAYBOOK_RESULT"]).write_text(f"did step {order}")
"""
WORKERS = ("--agent", "claude-code:2", "--agent", "codex:2", "--max-cost", "5")
AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")


def record(place: Path) -> list[tuple[str, str]]:
    """Run the commands in a new repository; return each with its output."""
    script, repository = place / "agent.py", place / "shop"
    script.write_text(AGENT)
    repository.mkdir()
    configuration = place / "waybook" / "agents.toml"
    configuration.parent.mkdir()
    command = f'command = ["{sys.executable}", "{script}"]\noutput = "text"\n'
    names = ("claude-code", "codex")
    configuration.write_text("".join(f"[agents.{name}]\n{command}" for name in names))
    environment = {
        **os.environ,
        "XDG_CONFIG_HOME": str(place),
        "WAYBOOK_DATA_DIR": str(place / "data"),
    }

    def run(*words: str, text: str = "") -> str:
        done = subprocess.run(
            words,
            cwd=repository,
            env=environment,
            input=text,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.replace(socket.gethostname(), "laptop").strip()

    run("git", "init", "--quiet", "--initial-branch=main")
    run("git", *AUTHOR, "commit", "--quiet", "--allow-empty", "-m", "start")
    waybook = (sys.executable, "-m", "waybook")
    imported = run(*waybook, "import", "-", "--yes", text=PLAN)
    plan_id = imported.split()[-1]
    branch = f"waybook/{plan_id}/merged"
    work = ("work", "Release 2", *WORKERS)
    log = ("log", "--oneline", "--graph", "--first-parent", branch)
    shown = " ".join(work).replace("Release 2", '"Release 2"')
    return [
        (f"waybook {shown}", run(*waybook, *work)),
        (f"git {' '.join(log)}", run("git", *log)),
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorded = record(Path(folder))
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True)
    for command, output in recorded:
        console.print(f"[bold green]$[/] [bold]{command}[/]", highlight=False)
        for line in output.splitlines():
            console.print(line, markup=False, highlight=False)
    TARGET.write_text(export_svg(console, "waybook work"), encoding="utf-8")
    sys.stdout.write(f"written  {TARGET.name}\n")


if __name__ == "__main__":
    main()
