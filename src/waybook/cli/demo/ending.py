"""How the demo ends: the answer, who did what, the proof, and what to try next."""

import os
import shutil
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from waybook.cli.demo import story
from waybook.cli.demo.scene import Scene
from waybook.cli.verdicts import summary
from waybook.usecases.list_audit import list_audit
from waybook.usecases.verify_audit import Verdict

NEXT = (
    ("waybook serve", "the same for your agents, over HTTP"),
    ("claude mcp add waybook -- waybook mcp", "or for one agent, over stdio"),
    ("waybook demo --keep", "play it in a database that stays"),
    ("waybook plans --all", "see it there; also status, audit"),
)


async def tell_ending(console: Console, scene: Scene, verdicts: list[Verdict]) -> None:
    """Print what came of it."""
    _heading(console, "The answer")
    console.print(_facts(story.WORK[story.WRITE].result))
    _heading(console, "Who did what")
    console.print(_facts(_deeds(scene)))
    _heading(console, "Proof")
    console.print(Padding(summary(verdicts), (0, 2)))
    entries = await list_audit(scene.call, scene.plan_id, limit=1)
    if entries:
        seal = str(entries[0]["hash"])[:16]
        console.print(Text(f"  entry {entries[0]['seq']} ends the chain, sealed {seal}…", "dim"))
    _heading(console, "Next")
    console.print(_facts(dict(NEXT)))
    _say_where(console)


def _say_where(console: Console) -> None:
    """Help whoever has just built it and cannot call it by its name yet."""
    if shutil.which("waybook") is None:
        here = os.path.relpath(sys.argv[0])
        console.print(Text(f"  waybook is not on your PATH; it is {here}", "dim"))


def _heading(console: Console, said: str) -> None:
    console.print()
    console.print(Text(said, style="bold"))


def _facts(facts: Mapping[str, object]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for name, said in facts.items():
        table.add_row(name, str(said))
    return Padding(table, (0, 2))


def _deeds(scene: Scene) -> dict[str, str]:
    notes = {
        "ada": ", and one that a person approved",
        "ben": ", one of them twice over a bad line, counted once",
        "cleo": ", killed during another, back in a new conversation",
    }
    told = {
        name: f"{_steps(count)}{notes.get(name, '')}"
        for name, count in sorted(scene.tally.items())
        if name != "mira"
    }
    return {**told, "mira": f"{scene.tally['mira']} decisions: sent back once, then approved"}


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
