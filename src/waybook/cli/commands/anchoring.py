"""`waybook audit`: lists, verifies and anchors the audit entries."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from waybook.app.operations.anchors import AnchorCheck, AnchorTotals, check_anchor, write_anchor
from waybook.app.operations.audit_verification import AuditVerdict, audited_subjects, verify_subject
from waybook.app.operations.backup import is_backup
from waybook.app.operations.erasure import contexts_of_all_orgs, verify_erasures
from waybook.app.queries.audit import SubjectAsOf, list_audit, subject_as_of
from waybook.app.queries.work_list import resolve_plan_or_run
from waybook.app.request.request_context import RequestContext
from waybook.cli.inputs import read_time
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option, limit_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, run_in_app
from waybook.cli.terminal.audit_text import as_of_table, entries_table
from waybook.cli.terminal.console import success
from waybook.errors import InvalidInput
from waybook.json_values import Body
from waybook.settings import Settings

MAX_ERRORS = 5


class _OrgVerdict(NamedTuple):
    org_id: UUID
    verdict: AuditVerdict


async def verify_all(ctx: RequestContext, *, bar: bool) -> list[_OrgVerdict]:
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not bar) as shown:
        calls = await contexts_of_all_orgs(ctx)
        subjects = [await audited_subjects(org_ctx) for org_ctx in calls]
        task = shown.add_task("verifying", total=sum(map(len, subjects)))
        verdicts: list[_OrgVerdict] = []
        for org_ctx, audited in zip(calls, subjects, strict=True):
            for subject in audited:
                verdict = await verify_subject(org_ctx, subject)
                verdicts.append(_OrgVerdict(org_ctx.caller.org_id, verdict))
                shown.advance(task)
            erased = await verify_erasures(org_ctx)
            verdicts += [_OrgVerdict(org_ctx.caller.org_id, verdict) for verdict in erased]
        return verdicts


def _show_verdicts(console: Console, org_verdicts: list[_OrgVerdict]) -> None:
    for org_id, verdict in org_verdicts:
        if verdict.ok and verdict.note:
            console.print(Text(f"† org {org_id}: {verdict.note}"))
    verdicts = [org_verdict.verdict for org_verdict in org_verdicts]
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    for verdict in wrong:
        name = f"{verdict.subject.kind.replace('_', ' ')} {verdict.subject.id}"
        _show_errors(console, name, verdict.errors)
    console.print(summary(verdicts))


def _show_errors(console: Console, name: str, errors: Sequence[str]) -> None:
    console.print(Text(f"✗ {name}", style="bold red"))
    for error in errors[:MAX_ERRORS]:
        console.print(Text(f"  {error}"))
    if len(errors) > MAX_ERRORS:
        console.print(Text(f"  … and {len(errors) - MAX_ERRORS} more"))


def summary(verdicts: list[AuditVerdict]) -> Text:
    there = [verdict for verdict in verdicts if not verdict.note]
    entries = sum(verdict.entries for verdict in there)
    wrong = sum(not verdict.ok for verdict in verdicts)
    what = f"{entries} entries in {_chains(len(there))}"
    if wrong:
        return Text(f"✗ {what}: {_chains(wrong)} broken", style="bold red")
    return success(f"{what} verified: replay gives exactly the stored state")


def _chains(count: int) -> str:
    return "1 chain" if count == 1 else f"{count} chains"


#: File in the data directory that contains the anchor of an embedded database.
ANCHOR_NAME = "audit-anchor.jsonl"
_BROKEN_EXIT = 1
NOTHING_VERIFIED_EXIT = 3


class Verification(NamedTuple):
    verdicts: list[_OrgVerdict]
    checks: dict[Path, AnchorCheck]
    renewed: Path | None = None

    @property
    def exit_code(self) -> int:
        sound = all(org_verdict.verdict.ok for org_verdict in self.verdicts)
        if not sound or not all(check.ok for check in self.checks.values()):
            return _BROKEN_EXIT
        return 0 if self.verdicts else NOTHING_VERIFIED_EXIT


def _kept_anchor(settings: Settings) -> Path | None:
    """Return the path of the anchor file, or None if the database is not the embedded one."""
    return None if settings.database_url else Path(settings.data_dir) / ANCHOR_NAME


async def _verify_with_anchors(
    here: AppSession, stored_anchor: Path | None, named: Path | None, *, bar: bool
) -> Verification:
    """Verify the audit chains of all orgs, and compare them with the anchor files.

    If everything matches, `stored_anchor` is updated to the current last entries.

    Raises:
        InvalidInput: an anchor file is missing or damaged.
    """
    files = [file for file in (named, stored_anchor) if file and (file == named or file.exists())]
    checks = {file: await check_anchor(here.call, file) for file in files}
    verification = Verification(await verify_all(here.call, bar=bar), checks)
    if stored_anchor and verification.exit_code == 0:
        await write_anchor(here.call, stored_anchor)
        return verification._replace(renewed=stored_anchor)
    return verification


def _show_verification(console: Console, verification: Verification) -> None:
    """Print the result of a verification. An empty database never counts as verified."""
    if verification.verdicts:
        _show_verdicts(console, verification.verdicts)
    else:
        console.print(Text("✗ no audit entries: nothing was verified", style="bold red"))
    for file, check in verification.checks.items():
        _show_check(console, file, check)
    if not verification.verdicts and not verification.checks:
        console.print(Text("  the database is new, was emptied, or is the wrong one;"))
        console.print(Text("  try: waybook audit verify --anchor FILE, with a backup or an anchor"))
    elif verification.renewed:
        console.print(Text(f"  the ends of all chains are anchored in {verification.renewed}"))
    elif not verification.checks:
        console.print(Text("  only an anchor outside the database can show missing entries;"))
        console.print(Text("  try: waybook audit anchor FILE"))


def _show_check(console: Console, file: Path, check: AnchorCheck) -> None:
    if check.ok:
        message = f"all {check.chains} chains anchored in {file} at {check.at} are still there"
        console.print(success(message))
        return
    for org_id, errors in check.errors.items():
        _show_errors(console, f"org {org_id}", errors)
    missing = check.error_count
    message = f"✗ {missing} of {check.chains} chains anchored in {file} at {check.at} do not match"
    console.print(Text(message, style="bold red"))
    if not is_backup(file):
        hint = "  if this database is an older copy on purpose, accept its present state:"
        console.print(Text(hint))
        console.print(Text(f"  waybook audit anchor --force {file}"))


def _verification_json(verification: Verification) -> dict[str, object]:
    verdicts = [org_verdict.verdict for org_verdict in verification.verdicts]
    return {
        "ok": verification.exit_code == 0,
        "entries": sum(verdict.entries for verdict in verdicts if not verdict.note),
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
            for org_id, verdict in verification.verdicts
        ],
        "anchors": [_check_json(file, check) for file, check in verification.checks.items()],
    }


def _check_json(file: Path, check: AnchorCheck) -> dict[str, object]:
    errors = {str(org_id): messages for org_id, messages in check.errors.items()}
    anchored = {"file": str(file), "at": check.at, "chains": check.chains}
    return {**anchored, "ok": check.ok, "errors": errors}


MAX_FILE_BYTES = 64 * 1024 * 1024


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--seal", metavar="HEX", help="Expected seal of the last entry of the file.")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Audit anchor or backup whose chains must all still exist.",
)
@json_option
@database_options
def verify_command(
    *, file: Path | None, seal: str | None, anchor: Path | None, as_json: bool, **flags: object
) -> None:
    """Verify the audit chain and replay it against the database.

    With FILE, verifies a shared snapshot or a JSON export instead, without a database.

    Recomputes every chain of seals, replays every plan from its entries and compares the result
    with its rows. Exits with code 1 and names the first broken entry if anything is wrong; exits
    with code 3 if there are no entries.

    Only an anchor reveals chains that are missing entirely. The anchor of an embedded database is
    in the data directory; it is compared each time, and renewed if verification succeeds.
    """
    if file is not None:
        _verify_file(file, seal, as_json=as_json)
        return
    if seal is not None:
        raise click.UsageError("--seal needs a FILE to compare with")
    settings = load_settings(flags)
    stored_anchor = _kept_anchor(settings)
    verification = run_in_app(
        settings, lambda here: _verify_with_anchors(here, stored_anchor, anchor, bar=not as_json)
    )
    if as_json:
        print_json(_verification_json(verification))
    else:
        _show_verification(get_console(), verification)
    sys.exit(verification.exit_code)


def _verify_file(file: Path, seal: str | None, *, as_json: bool) -> None:
    if not file.is_file():
        raise InvalidInput(f"there is no file {file}; name a snapshot or a JSON export")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise InvalidInput(f"{file} has over {MAX_FILE_BYTES:,} bytes, too many to be verified")
    try:
        verified = load("waybook.app.operations.file_verification:verify_file")(
            file.read_bytes(), seal
        )
    except InvalidInput as error:
        if as_json:
            print_json({"ok": False, "file": str(file), "error": error.message})
        else:
            get_console().print(Text.assemble(("✗ ", "red"), f"{file}: {error.message}"))
        sys.exit(_BROKEN_EXIT)
    number, at = len(verified.entries), verified.entries[-1].at.isoformat()
    if as_json:
        named = {"kind": verified.kind, "id": verified.id, "name": verified.name}
        found = {**named, "entries": number, "at": at, "seal": verified.seal}
        print_json({"ok": True, "file": str(file), **found})
        return
    message = (
        f"{verified.kind} “{verified.name}” is intact as of entry {number}, "
        f"{at}\n  seal {verified.seal}"
    )
    get_console().print(success(message))
    if seal is None:
        get_console().print("  Compare the seal with the one from the sender, or use --seal.")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file without comparing it first.")
@json_option
@database_options
def anchor_command(*, file: Path | None, force: bool, as_json: bool, **flags: object) -> None:
    """Write the last seal of every chain to a file outside the database.

    An existing file is compared first; if a chain is missing, the file is not changed and the exit
    code is 1. Default: the anchor file of the embedded database in the data directory.
    """
    settings = load_settings(flags)
    path = file or _kept_anchor(settings)
    if path is None:
        raise click.UsageError("With a database URL, name the FILE to write the anchor to.")
    if path.exists() and is_backup(path):
        raise InvalidInput(f"{path} is a backup; name another file for the anchor")

    async def renew(here: AppSession) -> AnchorTotals | AnchorCheck:
        check = await check_anchor(here.call, path) if path.exists() and not force else None
        if check is not None and not check.ok:
            return check
        return await write_anchor(here.call, path)

    done = run_in_app(settings, renew)
    if isinstance(done, AnchorCheck):
        print_json(_check_json(path, done)) if as_json else _show_check(get_console(), path, done)
        sys.exit(_BROKEN_EXIT)
    if as_json:
        print_json({"file": str(path), **done._asdict()})
        return
    message = f"{done.chains} chains with {done.entries} entries are anchored in {path}"
    get_console().print(success(message))


@click.command()
@click.argument("plan", required=False, metavar="[PLAN|RUN]")
@click.option("--since", metavar="TIME", help="Start time, e.g. 2030-01-31T08:00.")
@limit_option(50)
@json_option
@database_options
def list_command(
    *, plan: str | None, since: str | None, limit: int, as_json: bool, **flags: object
) -> None:
    """List audit entries, newest first, for one plan or run or all."""
    settings, start = load_settings(flags), read_time(since) if since else None

    async def read(here: AppSession) -> list[Body]:
        subject = await resolve_plan_or_run(here.call, plan) if plan else None
        return await list_audit(here.call, subject, since=start, limit=limit)

    entries = run_in_app(settings, read)
    if as_json:
        print_json(entries)
    else:
        get_console().print(entries_table(entries, one_plan=plan is not None))


@click.command("as-of")
@click.argument("plan", metavar="PLAN|RUN")
@click.argument("moment", metavar="TIME|SEQ")
@json_option
@database_options
def as_of_command(*, plan: str, moment: str, as_json: bool, **flags: object) -> None:
    """Show a plan or run as of a time or an audit entry number."""

    async def read(here: AppSession) -> SubjectAsOf:
        subject_id = await resolve_plan_or_run(here.call, plan)
        if moment.isdigit():
            return await subject_as_of(here.call, subject_id, seq=int(moment))
        return await subject_as_of(here.call, subject_id, at=read_time(moment))

    then = run_in_app(load_settings(flags), read)
    if as_json:
        print_json({"seq": then.last.seq, "at": then.last.at.isoformat(), "rows": then.rows})
    else:
        get_console().print(as_of_table(then))
