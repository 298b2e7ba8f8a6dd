"""`waybook audit`: lists, verifies and anchors the audit entries."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import click
from rich.text import Text

from waybook.app.operations.anchors import AnchorCheck, check_anchor, write_anchor
from waybook.app.operations.audit_verification import AuditVerdict, audited_subjects, verify_subject
from waybook.app.operations.erasure import contexts_of_all_orgs, verify_erasures
from waybook.app.operations.private_file import is_backup
from waybook.app.queries.audit import list_audit, subject_as_of
from waybook.app.queries.work_list import resolve_plan_or_run
from waybook.app.request.request_context import RequestContext
from waybook.cli.inputs import read_time
from waybook.cli.lazy import CommandGroup, load
from waybook.cli.options import database_options, json_option, limit_option
from waybook.cli.progress import progress_bar
from waybook.cli.runtime import (
    AppSession,
    Outcome,
    app_command,
    load_settings,
    print_outcome,
    run_in_app,
)
from waybook.cli.terminal.audit_text import as_of_table, entries_table
from waybook.cli.terminal.console import success
from waybook.errors import InvalidInput
from waybook.settings import Settings

MAX_ERRORS = 5

#: Verdicts on audit chains, each with the id of the org.
Verdicts = Sequence[tuple[UUID, AuditVerdict]]


async def verify_all(ctx: RequestContext, *, bar: bool) -> Verdicts:
    with progress_bar("verifying", is_shown=bar) as report:
        calls = await contexts_of_all_orgs(ctx)
        subjects = [await audited_subjects(org_ctx) for org_ctx in calls]
        done, total = 0, sum(map(len, subjects))
        verdicts: list[tuple[UUID, AuditVerdict]] = []
        for org_ctx, audited in zip(calls, subjects, strict=True):
            org_id = org_ctx.caller.org_id
            for subject in audited:
                verdicts.append((org_id, await verify_subject(org_ctx, subject)))
                done += 1
                report(done, total)
            verdicts += [(org_id, verdict) for verdict in await verify_erasures(org_ctx)]
        return verdicts


def _verdict_lines(verdicts: Verdicts) -> Iterator[Text]:
    if not verdicts:  # An empty database never counts as verified.
        yield Text("✗ no audit entries: nothing was verified", style="bold red")
        return
    for org_id, verdict in verdicts:
        if verdict.ok and verdict.note:
            yield Text(f"† org {org_id}: {verdict.note}")
    for _, verdict in verdicts:
        if not verdict.ok:
            name = f"{verdict.subject.kind.replace('_', ' ')} {verdict.subject.id}"
            yield from _error_lines(name, verdict.errors)
    yield summary(verdicts)


def _error_lines(name: str, errors: Sequence[str]) -> Iterator[Text]:
    yield Text(f"✗ {name}", style="bold red")
    for error in errors[:MAX_ERRORS]:
        yield Text(f"  {error}")
    if len(errors) > MAX_ERRORS:
        yield Text(f"  … and {len(errors) - MAX_ERRORS} more")


def summary(verdicts: Verdicts) -> Text:
    there = [verdict for _, verdict in verdicts if not verdict.note]
    entries = sum(verdict.entries for verdict in there)
    wrong = sum(not verdict.ok for _, verdict in verdicts)
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


def _kept_anchor(settings: Settings) -> Path | None:
    """Return the path of the anchor file, or None if the database is not the embedded one."""
    return None if settings.database_url else Path(settings.data_dir) / ANCHOR_NAME


async def _verify_with_anchors(here: AppSession, named: Path | None, *, bar: bool) -> Outcome:
    """Verify the audit chains of all orgs, and compare them with the anchor files.

    If everything matches, the stored anchor is updated to the current last entries.

    Raises:
        InvalidInput: an anchor file is missing or damaged.
    """
    stored_anchor = _kept_anchor(here.app.settings)
    files = [file for file in (named, stored_anchor) if file and (file == named or file.exists())]
    checks = {file: await check_anchor(here.call, file) for file in files}
    verdicts = await verify_all(here.call, bar=bar)
    is_sound = all(verdict.ok for _, verdict in verdicts) and all(c.ok for c in checks.values())
    exit_code = _BROKEN_EXIT
    if is_sound:
        exit_code = 0 if verdicts else NOTHING_VERIFIED_EXIT
    lines = [*_verdict_lines(verdicts)]
    for file, check in checks.items():
        lines += _check_lines(file, check)
    if not verdicts and not checks:
        lines.append(Text("  the database is new, was emptied, or is the wrong one;"))
        lines.append(Text("  try: waybook audit verify --anchor FILE, with a backup or an anchor"))
    elif stored_anchor and exit_code == 0:
        await write_anchor(here.call, stored_anchor)
        lines.append(Text(f"  the ends of all chains are anchored in {stored_anchor}"))
    elif not checks:
        lines.append(Text("  only an anchor outside the database can show missing entries;"))
        lines.append(Text("  try: waybook audit anchor FILE"))
    return Outcome(_verification_json(verdicts, checks, is_ok=exit_code == 0), lines, exit_code)


def _check_lines(file: Path, check: AnchorCheck) -> Iterator[Text]:
    if check.ok:
        yield success(f"all {check.chains} chains anchored in {file} at {check.at} are still there")
        return
    for org_id, errors in check.errors.items():
        yield from _error_lines(f"org {org_id}", errors)
    missing = check.error_count
    message = f"✗ {missing} of {check.chains} chains anchored in {file} at {check.at} do not match"
    yield Text(message, style="bold red")
    if not is_backup(file):
        yield Text("  if this database is an older copy on purpose, accept its present state:")
        yield Text(f"  waybook audit anchor --force {file}")


def _verification_json(
    verdicts: Verdicts, checks: Mapping[Path, AnchorCheck], *, is_ok: bool
) -> dict[str, object]:
    return {
        "ok": is_ok,
        "entries": sum(verdict.entries for _, verdict in verdicts if not verdict.note),
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
            for org_id, verdict in verdicts
        ],
        "anchors": [_check_json(file, check) for file, check in checks.items()],
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
        answer = _verify_file(file, seal)
    elif seal is not None:
        raise click.UsageError("--seal needs a FILE to compare with")
    else:
        answer = run_in_app(
            load_settings(flags),
            lambda here: _verify_with_anchors(here, anchor, bar=not as_json),
        )
    print_outcome(answer, as_json=as_json)


def _verify_file(file: Path, seal: str | None) -> Outcome:
    if not file.is_file():
        raise InvalidInput(f"there is no file {file}; name a snapshot or a JSON export")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise InvalidInput(f"{file} has over {MAX_FILE_BYTES:,} bytes, too many to be verified")
    verify = load("waybook.app.operations.file_verification:verify_file")
    try:
        verified = verify(file.read_bytes(), seal)
    except InvalidInput as error:
        value = {"ok": False, "file": str(file), "error": error.message}
        line = Text.assemble(("✗ ", "red"), f"{file}: {error.message}")
        return Outcome(value, [line], _BROKEN_EXIT)
    number, at = len(verified.entries), verified.entries[-1].at.isoformat()
    named = {"kind": verified.kind, "id": verified.id, "name": verified.name}
    found = {**named, "entries": number, "at": at, "seal": verified.seal}
    message = f"{verified.kind} “{verified.name}” is intact as of entry {number}, {at}"
    hint = Text("  Compare the seal with the one from the sender, or use --seal.")
    lines = [success(f"{message}\n  seal {verified.seal}"), *([hint] if seal is None else [])]
    return Outcome({"ok": True, "file": str(file), **found}, lines)


@app_command(
    click.argument("file", required=False, type=click.Path(path_type=Path)),
    click.option("--force", is_flag=True, help="Replace the file without comparing it first."),
)
async def anchor_command(here: AppSession, file: Path | None, *, force: bool) -> Outcome:
    """Write the last seal of every chain to a file outside the database.

    An existing file is compared first; if a chain is missing, the file is not changed and the exit
    code is 1. Default: the anchor file of the embedded database in the data directory.
    """
    path = file or _kept_anchor(here.app.settings)
    if path is None:
        raise click.UsageError("With a database URL, name the FILE to write the anchor to.")
    if path.exists() and is_backup(path):
        raise InvalidInput(f"{path} is a backup; name another file for the anchor")
    check = await check_anchor(here.call, path) if path.exists() and not force else None
    if check is not None and not check.ok:
        return Outcome(_check_json(path, check), _check_lines(path, check), _BROKEN_EXIT)
    totals = await write_anchor(here.call, path)
    message = f"{totals.chains} chains with {totals.entries} entries are anchored in {path}"
    return Outcome({"file": str(path), **totals._asdict()}, [success(message)])


@app_command(
    click.argument("plan", required=False, metavar="[PLAN|RUN]"),
    click.option("--since", metavar="TIME", help="Start time, e.g. 2030-01-31T08:00."),
    limit_option(50),
    people=True,
)
async def list_command(
    here: AppSession, plan: str | None, since: str | None, limit: int
) -> Outcome:
    """List audit entries, newest first, for one plan or run or all."""
    start = read_time(since) if since else None
    subject = await resolve_plan_or_run(here.call, plan) if plan else None
    entries = await list_audit(here.call, subject, since=start, limit=limit)
    return Outcome(entries, [entries_table(entries, one_plan=plan is not None)])


@app_command(
    click.argument("plan", metavar="PLAN|RUN"),
    click.argument("moment", metavar="TIME|SEQ"),
)
async def as_of_command(here: AppSession, plan: str, moment: str) -> Outcome:
    """Show a plan or run as of a time or an audit entry number."""
    subject_id = await resolve_plan_or_run(here.call, plan)
    seq = int(moment) if moment.isdigit() else None
    at = read_time(moment) if seq is None else None
    then = await subject_as_of(here.call, subject_id, seq=seq, at=at)
    value = {"seq": then.last.seq, "at": then.last.at.isoformat(), "rows": then.rows}
    return Outcome(value, [as_of_table(then)])


group = CommandGroup(
    help="Read and verify the audit log, or view past states.",
    commands={
        "anchor": anchor_command,
        "as-of": as_of_command,
        "list": list_command,
        "verify": verify_command,
    },
)
