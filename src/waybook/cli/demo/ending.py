"""Closing summary of the demo: answer, documents, contributions, audit check, commands."""

import os
import shutil
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waybook.app.operations.audit_verification import AuditVerdict
from waybook.app.queries.audit import list_audit
from waybook.app.queries.documents import list_documents, read_document
from waybook.app.queries.runs.run import RunDetail
from waybook.cli.demo import script
from waybook.cli.demo.scene import DemoContext
from waybook.cli.terminal.audit_text import summary
from waybook.cli.terminal.run_board import documents_available
from waybook.core.short_ids import short_id

#: Key of the document that is printed in full at the end of the demo.
SHOWN_DOCUMENT = "advisor_recommendations"
MAX_WIDTH = 92

NEXT = (
    ("waybook serve --tools all", "the same for your agents, over HTTP"),
    ("claude mcp add waybook -- waybook mcp", "or for one agent, over stdio"),
    ("waybook dag show dialectic --models 3", "the map the run went by"),
)
AGAIN = ("waybook demo --keep", "play it in a database that stays")
STORED_MESSAGE = (
    ("waybook plans --all", "the plan; also status, watch, audit"),
    ("waybook runs --all", "the run; also run, feedback, audit"),
)


async def print_summary(
    console: Console,
    scene: DemoContext,
    board: RunDetail,
    verdicts: list[AuditVerdict],
    *,
    keep: bool,
) -> None:
    """Print the closing summary of the demo."""
    _heading(console, "The answer")
    console.print(_facts(script.WORK[script.WRITE].result))
    await _tell_documents(console, scene, board, keep=keep)
    _heading(console, "Who did what")
    console.print(_facts(_deeds(scene)))
    _heading(console, "Proof")
    console.print(Padding(summary(verdicts), (0, 2)))
    for name, subject in (("plan", scene.plan_id), ("run", scene.run_id)):
        entries = await list_audit(scene.call, subject, limit=1)
        seal = str(entries[0]["hash"])[:16]
        line = f"  the {name}'s chain ends with entry {entries[0]['seq']}, sealed {seal}…"
        console.print(Text(line, "dim"))
    _heading(console, "Next")
    console.print(_facts(dict((*NEXT, *(STORED_MESSAGE if keep else [AGAIN])))))
    _say_where(console)


async def _tell_documents(
    console: Console, scene: DemoContext, board: RunDetail, *, keep: bool
) -> None:
    """Print one document in full, and the command that writes all documents to files."""
    _heading(console, "The documents")
    listed = await list_documents(scene.call, scene.run_id)
    chosen = next(item for item in listed if item.document_key == SHOWN_DOCUMENT)
    document = await read_document(scene.call, chosen.resource_id)
    title = Text(f" {chosen.document_key}, by {chosen.model} ", style="dim")
    page = Panel(Markdown(document.markdown), title=title, border_style="dim")
    console.print(Padding(page, (0, 2)), width=min(console.width, MAX_WIDTH))
    saved = {
        documents_available(board): f"waybook documents {short_id(scene.run_id)} --out documents"
    }
    gone = {documents_available(board): "here; waybook demo --keep keeps them for you to read"}
    console.print(_facts(saved if keep else gone))


def _say_where(console: Console) -> None:
    """Print the path of the executable if the `waybook` command is not on the PATH."""
    if shutil.which("waybook") is None:
        here = os.path.relpath(sys.argv[0])
        console.print(Text(f"  waybook is not on your PATH; it is {here}", "dim"))


def _heading(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold"))


def _facts(facts: Mapping[str, object]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for name, value in facts.items():
        table.add_row(name, str(value))
    return Padding(table, (0, 2))


def _deeds(scene: DemoContext) -> dict[str, str]:
    steps = {
        "ada": ", and one that a person approved",
        "ben": ", one of them twice over a bad line, counted once",
        "cleo": ", killed during another, back in a new conversation",
    }
    jobs = {
        "ben": ", one given back and tried again, one left behind and taken over",
        "cleo": ", one of them in two parts",
    }
    summaries = {
        name: f"{_count(count, 'step')}{steps[name]}; "
        f"{_count(scene.jobs[name], 'job')}{jobs.get(name, '')}"
        for name, count in sorted(scene.counters.items())
        if name != "mira"
    }
    decided, spoken = scene.counters["mira"], scene.jobs["mira"]
    person = f"{decided} decisions: sent back once, then approved; a word on {spoken} stages"
    return {**summaries, "mira": person}


def _count(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
