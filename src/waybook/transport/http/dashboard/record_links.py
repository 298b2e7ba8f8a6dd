"""Names of what an audit entry is about, such as a plan or an agent, with links."""

from dataclasses import dataclass
from typing import Final

from waybook.app.queries.agents import Names, RowName, item_of
from waybook.app.queries.audit import AuditEntry
from waybook.core.decision_context import Channel
from waybook.transport.http.html.agent_urls import agent_url

MAX_NAME_LENGTH: Final = 120
PAGES: Final = {"plan": "/plans/", "run": "/runs/"}


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    url: str | None = None


def subject_link(entry: AuditEntry, names: Names) -> Link:
    """Return a link to the plan or run that an audit entry is about."""
    row = names.get(entry.subject_id)
    page = PAGES.get(entry.subject)
    if row is None:
        return Link(entry.subject.replace("_", " "), page and page + entry.subject_id)
    return Link(shorten(row.name), page and page + row.id)


def item_link(entry: AuditEntry, names: Names) -> Link | None:
    row = item_of(entry, names)
    return item_row_link(row) if row else None


def item_row_link(row: RowName) -> Link:
    if row.kind == "step":
        url = f"/plans/{row.work_id}/steps/{row.id}"
        return Link(shorten(f"step {row.number}: {row.name}"), url)
    return Link(shorten(row.name), f"/runs/{row.work_id}/jobs/{row.id}")


def agent_link(entry: AuditEntry) -> Link:
    if entry.channel != Channel.MCP:
        return Link(entry.actor)
    return Link(entry.actor, agent_url(entry.actor, entry.session))


def row_label(row_id: str, names: Names) -> str:
    row = names.get(row_id)
    if row is None or row.kind not in {"step", "job"}:
        return ""
    return str(row.number) if row.number is not None else shorten(row.name)


def shorten(name: str) -> str:
    cut = MAX_NAME_LENGTH
    return name if len(name) <= cut else f"{name[: cut - 1]}…"
