"""Results of the compatibility tests, as the table in `docs/clients.md`."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tools.clients.catalog import CLIENTS, ROOT, TRANSPORTS, Client, Transport
from tools.clients.run import Outcome

PAGE: Final = ROOT / "docs" / "clients.md"
BEGIN: Final = "<!-- matrix: written by `make harness NAME=clients` -->"
END: Final = "<!-- end of matrix -->"
HEADER: Final = (
    "| client | version | stdio | HTTP | server's instructions reach the model | remarks |",
    "|---|---|---|---|---|---|",
)

Row = Mapping[Transport, Outcome]


def unexpected(client: Client, row: Row) -> list[str]:
    """Return the unexpected results: new failures, and known failures that did not occur."""
    reasons = []
    for transport, outcome in row.items():
        known = client.known_failures.get(transport)
        if outcome.failure and not known:
            reasons.append(f"{outcome.trial}: {outcome.failure}")
        elif known and not outcome.failure:
            reasons.append(f"{outcome.trial} passes now; remove its known failure: {known}")
    return reasons


def group(outcomes: Sequence[Outcome]) -> Mapping[str, Row]:
    rows: dict[str, dict[Transport, Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.client, {})[outcome.transport] = outcome
    return rows


def format_row(client: Client, row: Row) -> str:
    """Return the results of a client as a row of a Markdown table."""
    cells = [_cell(row.get(transport)) for transport in TRANSPORTS]
    shown = "yes" if any(each.shows_instructions for each in row.values()) else "no"
    shown = shown if client.has_agent else "no agent"
    remarks = [client.remarks, *(client.known_failures[each] for each in client.known_failures)]
    text = " ".join(filter(None, remarks))
    return f"| {client.label} | {client.version} | {' | '.join(cells)} | {shown} | {text} |"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    return "fails" if outcome.failure else "passes"


def format_table(rows: Mapping[str, Row]) -> str:
    """Return the Markdown table of these clients, in the order of the catalog."""
    listed = [format_row(client, rows[client.name]) for client in CLIENTS if client.name in rows]
    return "\n".join([*HEADER, *listed])


def update_page(rows: Mapping[str, Row]) -> None:
    """Replace the rows of these clients in `docs/clients.md`, and keep all other rows."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    kept = {match[1]: match[0] for match in re.finditer(r"^\| (.+?) \|.*$", table, re.MULTILINE)}
    written = {
        client.label: format_row(client, rows[client.name])
        for client in CLIENTS
        if client.name in rows
    }
    merged = {**kept, **written}
    listed = [merged[client.label] for client in CLIENTS if client.label in merged]
    body = "\n".join([*HEADER, *listed])
    PAGE.write_text(f"{before}{BEGIN}\n\n{body}\n\n{END}{after}", encoding="utf-8")
