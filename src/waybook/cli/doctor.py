"""`waybook doctor`: what is in force and from where, and what is wrong, each with what to do."""

import asyncio
import sys

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waybook.cli.checkup import run_checks
from waybook.cli.inside import get_console
from waybook.cli.logs import configure_command_logging
from waybook.cli.options import json_option, listening_options, serving_options, settings_from
from waybook.cli.printing import print_json
from waybook.settings import LoadedSettings
from waybook.usecases.findings import CheckResult, CheckState
from waybook.usecases.secrets import effective_settings

MARKS = {
    CheckState.OK: Text("✓ ok", style="green"),
    CheckState.WARN: Text("▲ warn", style="yellow"),
    CheckState.FAIL: Text("✗ fail", style="red"),
}


@click.command()
@json_option
@listening_options
@serving_options
def command(*, as_json: bool, **flags: object) -> None:
    """Say what is in force and from where, and what is wrong.

    Looks only: nothing is migrated or repaired. Ends with exit code 1 if something fails.
    """
    found = settings_from(flags)
    configure_command_logging(found)
    findings = asyncio.run(run_checks(found.settings))
    if as_json:
        print_json(_as_json(found, findings))
    else:
        _show(get_console(), found, findings)
    sys.exit(int(any(finding.state is CheckState.FAIL for finding in findings)))


def _show(console: Console, found: LoadedSettings, findings: list[CheckResult]) -> None:
    settings = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("setting", "value", "from"):
        settings.add_column(name, overflow="fold")
    for name, value, source in effective_settings(found):
        style = "dim" if source == "default" else ""
        settings.add_row(name, value, source, style=style)
    checks = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    checks.add_column("check", no_wrap=True)
    checks.add_column("", no_wrap=True)
    checks.add_column("", overflow="fold")
    for finding in findings:
        said = Text(finding.message)
        if finding.remedy:
            said.append(f"\n→ {finding.remedy}", style="bold")
        checks.add_row(finding.name, MARKS[finding.state], said)
    console.print(settings, "", checks)


def _as_json(found: LoadedSettings, findings: list[CheckResult]) -> dict[str, object]:
    return {
        "settings": {
            name: {"value": value, "from": source}
            for name, value, source in effective_settings(found)
        },
        "checks": [
            {"check": f.name, "state": str(f.state), "said": f.message, "todo": f.remedy}
            for f in findings
        ],
    }
