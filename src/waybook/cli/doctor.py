"""`waybook doctor`: what is in force and from where, and what is wrong, each with what to do."""

import asyncio
import sys

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waybook.cli.checkup import examine
from waybook.cli.inside import the_console
from waybook.cli.logs import log_quietly
from waybook.cli.options import as_json, listening_options, serving_options, settings_from
from waybook.cli.printing import say_json
from waybook.settings import Found
from waybook.usecases.findings import Finding, State
from waybook.usecases.secrets import in_force

MARKS = {
    State.OK: Text("✓ ok", style="green"),
    State.WARN: Text("▲ warn", style="yellow"),
    State.FAIL: Text("✗ fail", style="red"),
}


@click.command()
@as_json
@listening_options
@serving_options
def command(*, as_json: bool, **flags: object) -> None:
    """Say what is in force and from where, and what is wrong.

    Looks only: nothing is migrated or repaired. Ends with exit code 1 if something fails.
    """
    found = settings_from(flags)
    log_quietly(found)
    findings = asyncio.run(examine(found.settings))
    if as_json:
        say_json(_as_json(found, findings))
    else:
        _show(the_console(), found, findings)
    sys.exit(int(any(finding.state is State.FAIL for finding in findings)))


def _show(console: Console, found: Found, findings: list[Finding]) -> None:
    settings = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("setting", "value", "from"):
        settings.add_column(name, overflow="fold")
    for name, value, source in in_force(found):
        style = "dim" if source == "default" else ""
        settings.add_row(name, value, source, style=style)
    checks = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    checks.add_column("check", no_wrap=True)
    checks.add_column("", no_wrap=True)
    checks.add_column("", overflow="fold")
    for finding in findings:
        said = Text(finding.said)
        if finding.todo:
            said.append(f"\n→ {finding.todo}", style="bold")
        checks.add_row(finding.name, MARKS[finding.state], said)
    console.print(settings, "", checks)


def _as_json(found: Found, findings: list[Finding]) -> dict[str, object]:
    return {
        "settings": {
            name: {"value": value, "from": source} for name, value, source in in_force(found)
        },
        "checks": [
            {"check": f.name, "state": str(f.state), "said": f.said, "todo": f.todo}
            for f in findings
        ],
    }
