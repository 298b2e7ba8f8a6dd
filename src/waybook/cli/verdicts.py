"""Verifying the audit with a progress bar, and how its verdicts look."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from waybook.usecases.call import Call
from waybook.usecases.verify_audit import Verdict, audited_subjects, verify_audit

MOST_FAULTS = 5


async def verify_all(call: Call, *, bar: bool) -> list[Verdict]:
    """Verify everything, keeping only what each subject came to."""
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not bar) as shown:
        subjects = await audited_subjects(call)
        task = shown.add_task("verifying", total=len(subjects))
        verdicts = []
        async for verdict in verify_audit(call, subjects):
            verdicts.append(verdict)
            shown.advance(task)
        return verdicts


def show_verdicts(console: Console, verdicts: list[Verdict]) -> None:
    """One line if all is well; otherwise what is wrong with what."""
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    for verdict in wrong:
        name = f"{verdict.subject.kind.replace('_', ' ')} {verdict.subject.id}"
        console.print(Text(f"✗ {name}", style="bold red"))
        for fault in verdict.faults[:MOST_FAULTS]:
            console.print(Text(f"  {fault}"))
        if len(verdict.faults) > MOST_FAULTS:
            console.print(Text(f"  … and {len(verdict.faults) - MOST_FAULTS} more"))
    console.print(summary(verdicts))


def summary(verdicts: list[Verdict]) -> Text:
    """What verifying came to, in a line."""
    entries = sum(verdict.entries for verdict in verdicts)
    wrong = sum(not verdict.ok for verdict in verdicts)
    what = f"{entries} entries in {_chains(len(verdicts))}"
    if wrong:
        return Text(f"✗ {what}: {_chains(wrong)} broken", style="bold red")
    return Text.assemble(("✓ ", "green"), f"{what}: every seal holds, state = replay(audit)")


def _chains(count: int) -> str:
    return "1 chain" if count == 1 else f"{count} chains"


def verdict_json(verdicts: list[Verdict]) -> dict[str, object]:
    """The verdicts for machines."""
    return {
        "ok": all(verdict.ok for verdict in verdicts),
        "entries": sum(verdict.entries for verdict in verdicts),
        "chains": [
            {
                "subject": verdict.subject.kind,
                "subjectId": verdict.subject.id,
                "entries": verdict.entries,
                "ok": verdict.ok,
                "firstBroken": verdict.broken,
                "faults": list(verdict.faults),
            }
            for verdict in verdicts
        ],
    }
