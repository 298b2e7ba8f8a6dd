"""Closing summary of the demo."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waybook.app.operations.audit_verification import AuditVerdict
from waybook.app.queries.audit import list_audit
from waybook.app.queries.runs.run import RunDetail, list_documents
from waybook.app.queries.runs.run_work import read_document
from waybook.cli.commands.anchoring import summary
from waybook.cli.demo import script
from waybook.cli.demo.scene import DemoContext
from waybook.cli.terminal.run_board import documents_available
from waybook.core.short_ids import short_id

SHOWN_DOCUMENT = "advisor_recommendations"
MAX_WIDTH = 92

SURVIVED = {
    "two killed agents": "Others took over and completed their work.",
    "a lost reply": "The result was submitted again, and counted once.",
    "two agents on one job": "The late result was refused; the job is done once.",
    "a model's timeout": "Only this job was repeated.",
    "a new conversation": "cleo continued from what is stored in the plan.",
    "a person's review": "The plan waited, then went on with the feedback.",
}
NEXT = {
    "waybook connect claude-code": "connect your agent (also codex, cursor, …)",
    "waybook serve": "serve agents and the dashboard over HTTP",
}
AGAIN = {"waybook demo --keep": "repeat the demo, and keep its results"}
STORED = {
    "waybook plans --all": "list the plan of this demo",
    "waybook runs --all": "list the run of this demo",
}


async def print_summary(
    console: Console,
    scene: DemoContext,
    board: RunDetail,
    verdicts: list[AuditVerdict],
    *,
    keep: bool,
) -> None:
    _heading(console, "The plan's answer")
    console.print(_facts(script.WORK[script.WRITE].result))
    await _print_document(console, scene, board, keep=keep)
    _heading(console, "Who did what")
    console.print(_facts(_contributions(scene)))
    _heading(console, "What the work survived")
    console.print(_facts(SURVIVED))
    _heading(console, "Proof: every change is recorded in a hash-chained audit log")
    console.print(Padding(summary(verdicts), (0, 2)))
    for name, subject in (("plan", scene.plan_id), ("run", scene.run_id)):
        entries = await list_audit(scene.call, subject, limit=1)
        seal = str(entries[0]["hash"])[:16]
        line = f"  the {name} has {entries[0]['seq']} entries; the last has the seal {seal}…"
        console.print(Text(line, "dim"))
    _heading(console, "Next")
    _print_path(console)
    console.print(_facts({**NEXT, **(STORED if keep else AGAIN)}))


async def _print_document(
    console: Console, scene: DemoContext, board: RunDetail, *, keep: bool
) -> None:
    _heading(console, "One of the documents that the run produced")
    listed = await list_documents(scene.call, scene.run_id)
    chosen = next(item for item in listed if item.document_key == SHOWN_DOCUMENT)
    document = await read_document(scene.call, chosen.resource_id)
    title = Text(f" {chosen.document_key}, by {chosen.model} ", style="dim")
    page = Panel(Markdown(document.markdown), title=title, border_style="dim")
    console.print(Padding(page, (0, 2)), width=min(console.width, MAX_WIDTH))
    write = f"waybook documents {short_id(scene.run_id)} --out documents"
    console.print(
        _facts({documents_available(board): write if keep else "to keep them, use --keep"})
    )


def _print_path(console: Console) -> None:
    if shutil.which("waybook") is None:
        program = Path(sys.argv[0] if Path(sys.argv[0]).stem == "waybook" else sys.executable)
        folder = program.absolute().parent
        line = f'  waybook is not on your PATH. First:\n  export PATH="{folder}:$PATH"'
        console.print(Text(line), soft_wrap=True)


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


def _contributions(scene: DemoContext) -> dict[str, str]:
    notes = {
        "ada": " and one that mira approved",
        "ben": " (one submitted twice after a network timeout, counted once)",
        "cleo": " (killed during a third)",
    }
    agents = {
        name: f"{_count(scene.counters[name], 'step')}{note}, {_count(scene.jobs[name], 'job')}"
        for name, note in notes.items()
    }
    decisions, stages = scene.counters["mira"], scene.jobs["mira"]
    return {**agents, "mira": f"{decisions} review decisions, feedback on {stages} stages"}


def _count(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
