"""Audit anchors on the command line: where they are, verification, and output."""

from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from waybook.app.operations.anchors import AnchorCheck, AnchorTotals, check_anchor, write_anchor
from waybook.app.operations.backup import is_backup
from waybook.cli.runtime import open_app
from waybook.cli.terminal.audit_text import (
    MAX_ERRORS,
    OrgVerdict,
    show_verdicts,
    verdict_json,
    verify_all,
)
from waybook.errors import InvalidInput
from waybook.settings import Settings

#: File with the audit anchor of an embedded database, in the data directory.
ANCHOR_NAME = "audit-anchor.jsonl"
BROKEN_EXIT = 1
NOTHING_VERIFIED_EXIT = 3


class Verification(NamedTuple):
    """Results of verifying the database and comparing it with each anchor."""

    verdicts: list[OrgVerdict]
    checks: dict[Path, AnchorCheck]
    #: The anchor in the data directory, if the verification renewed it.
    renewed: Path | None = None

    @property
    def exit_code(self) -> int:
        sound = all(org_verdict.verdict.ok for org_verdict in self.verdicts)
        if not sound or not all(check.ok for check in self.checks.values()):
            return BROKEN_EXIT
        return 0 if self.verdicts else NOTHING_VERIFIED_EXIT


def kept_anchor(settings: Settings) -> Path | None:
    """Return the embedded database's anchor file; None for another database."""
    return None if settings.database_url else Path(settings.data_dir) / ANCHOR_NAME


async def verify_with_anchors(settings: Settings, named: Path | None, *, bar: bool) -> Verification:
    """Verify all orgs and compare them with the anchors.

    If everything matches, the embedded database's anchor file is written again.

    Raises:
        InvalidInput: an anchor file is missing or damaged.
    """
    stored_anchor = kept_anchor(settings)
    files = [file for file in (named, stored_anchor) if file and (file == named or file.exists())]
    async with open_app(settings) as here:
        checks = {file: await check_anchor(here.call, file) for file in files}
        verification = Verification(await verify_all(here.call, bar=bar), checks)
        if stored_anchor and verification.exit_code == 0:
            await write_anchor(here.call, stored_anchor)
            return verification._replace(renewed=stored_anchor)
        return verification


async def renew_anchor(
    settings: Settings, file: Path, *, force: bool
) -> AnchorTotals | AnchorCheck:
    """Write an anchor file, unless it exists and the database does not match it."""
    compare = _is_anchor_there(file) and not force
    async with open_app(settings) as here:
        check = await check_anchor(here.call, file) if compare else None
        if check is not None and not check.ok:
            return check
        return await write_anchor(here.call, file)


def _is_anchor_there(file: Path) -> bool:
    if not file.exists():
        return False
    if is_backup(file):
        raise InvalidInput(f"{file} is a backup; name another file for the anchor")
    return True


def show_verification(console: Console, verification: Verification) -> None:
    """Print the result of a verification. An empty database never counts as verified."""
    if verification.verdicts:
        show_verdicts(console, verification.verdicts)
    else:
        console.print(Text("✗ no audit entries: nothing was verified", style="bold red"))
    for file, check in verification.checks.items():
        show_check(console, file, check)
    if not verification.verdicts and not verification.checks:
        console.print(Text("  the database is new, was emptied, or is the wrong one;"))
        console.print(Text("  try: waybook audit verify --anchor FILE, with a backup or an anchor"))
    elif verification.renewed:
        console.print(Text(f"  the ends of all chains are anchored in {verification.renewed}"))
    elif not verification.checks:
        console.print(Text("  only an anchor outside the database can show missing entries;"))
        console.print(Text("  try: waybook audit anchor FILE"))


def show_check(console: Console, file: Path, check: AnchorCheck) -> None:
    if check.ok:
        message = f"all {check.chains} chains anchored in {file} at {check.at} are still there"
        console.print(Text.assemble(("✓ ", "green"), message))
        return
    for org_id, errors in check.errors.items():
        console.print(Text(f"✗ org {org_id}", style="bold red"))
        for error in errors[:MAX_ERRORS]:
            console.print(Text(f"  {error}"))
        if len(errors) > MAX_ERRORS:
            console.print(Text(f"  … and {len(errors) - MAX_ERRORS} more"))
    missing = check.error_count
    message = f"✗ {missing} of {check.chains} chains anchored in {file} at {check.at} do not match"
    console.print(Text(message, style="bold red"))
    if not is_backup(file):
        console.print(
            Text("  if this database is an older copy on purpose, accept its present state:")
        )
        console.print(Text(f"  waybook audit anchor --force {file}"))


def verification_json(verification: Verification) -> dict[str, object]:
    return {
        **verdict_json(verification.verdicts),
        "ok": verification.exit_code == 0,
        "anchors": [check_json(file, check) for file, check in verification.checks.items()],
    }


def check_json(file: Path, check: AnchorCheck) -> dict[str, object]:
    errors = {str(org_id): messages for org_id, messages in check.errors.items()}
    anchored = {"file": str(file), "at": check.at, "chains": check.chains}
    return {**anchored, "ok": check.ok, "errors": errors}
