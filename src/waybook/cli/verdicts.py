"""Verifying the audit with a progress bar, and how its verdicts look."""

from typing import NamedTuple
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from waybook.usecases.call import RequestContext
from waybook.usecases.verify_audit import AuditVerdict, audited_subjects, verify_audit
from waybook.usecases.verify_erasures import contexts_of_all_orgs, verify_erasures

MAX_ERRORS = 5


class OrgVerdict(NamedTuple):
    """What verifying one subject of an org found."""

    org_id: UUID
    verdict: AuditVerdict


async def verify_all(ctx: RequestContext, *, bar: bool) -> list[OrgVerdict]:
    """Verify everything of everybody, keeping only what each subject came to."""
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not bar) as shown:
        calls = await contexts_of_all_orgs(ctx)
        subjects = [await audited_subjects(one) for one in calls]
        task = shown.add_task("verifying", total=sum(map(len, subjects)))
        verdicts: list[OrgVerdict] = []
        for one, audited in zip(calls, subjects, strict=True):
            async for verdict in verify_audit(one, audited):
                verdicts.append(OrgVerdict(one.caller.org_id, verdict))
                shown.advance(task)
            erased = await verify_erasures(one)
            verdicts += [OrgVerdict(one.caller.org_id, verdict) for verdict in erased]
        return verdicts


def show_verdicts(console: Console, found: list[OrgVerdict]) -> None:
    """One line if all is well, and what was erased; otherwise what is wrong with what."""
    for org_id, verdict in found:
        if verdict.ok and verdict.note:
            console.print(Text(f"† org {org_id}: {verdict.note}"))
    verdicts = [one.verdict for one in found]
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    for verdict in wrong:
        name = f"{verdict.subject.kind.replace('_', ' ')} {verdict.subject.id}"
        console.print(Text(f"✗ {name}", style="bold red"))
        for error in verdict.errors[:MAX_ERRORS]:
            console.print(Text(f"  {error}"))
        if len(verdict.errors) > MAX_ERRORS:
            console.print(Text(f"  … and {len(verdict.errors) - MAX_ERRORS} more"))
    console.print(summary(verdicts))


def summary(verdicts: list[AuditVerdict]) -> Text:
    """What verifying came to, in a line."""
    there = [verdict for verdict in verdicts if not verdict.note]
    entries = sum(verdict.entries for verdict in there)
    wrong = sum(not verdict.ok for verdict in verdicts)
    what = f"{entries} entries in {_chains(len(there))}"
    if wrong:
        return Text(f"✗ {what}: {_chains(wrong)} broken", style="bold red")
    return Text.assemble(("✓ ", "green"), f"{what}: every seal holds, state = replay(audit)")


def _chains(count: int) -> str:
    return "1 chain" if count == 1 else f"{count} chains"


def verdict_json(found: list[OrgVerdict]) -> dict[str, object]:
    """The verdicts for machines."""
    return {
        "ok": all(one.verdict.ok for one in found),
        "entries": sum(one.verdict.entries for one in found if not one.verdict.note),
        "chains": [
            {
                "orgId": str(org_id),
                "subject": verdict.subject.kind,
                "subjectId": verdict.subject.id,
                "entries": verdict.entries,
                "ok": verdict.ok,
                "firstBroken": verdict.first_broken_entry,
                "faults": list(verdict.errors),
                "note": verdict.note,
            }
            for org_id, verdict in found
        ],
    }
