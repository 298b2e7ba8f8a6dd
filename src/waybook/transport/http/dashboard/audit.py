"""Audit page with its export."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from waybook.app.queries.agents import (
    NameRow,
    Names,
    find_names,
    find_subjects,
    item_of,
)
from waybook.app.queries.audit import (
    RUN,
    AuditEntry,
    AuditFilter,
    all_entries,
    browse_audit,
    changes_in,
    entry_details,
    entry_text,
    event_label,
)
from waybook.app.queries.audit import entry_view as audit_entry_view
from waybook.app.queries.timeline import csv_text
from waybook.core.changes import Event
from waybook.core.decision_context import Channel
from waybook.errors import InvalidInput
from waybook.json_values import Json
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.requests import file_headers

COLUMNS: Final = ("at", "subject", "subject_id", "seq", "event", "actor", "channel", "session",
                  "details")  # fmt: skip
MAX_CHANGES: Final = 30
MAX_VALUE_LENGTH: Final = 600
#: An entry is shown expanded if all its values are at most this long.
_SHORT_VALUE_LENGTH: Final = 80
_MAX_INLINE_CHANGES: Final = 4
#: Fields that are hidden, because the page shows the name of the step or job instead.
_ITEM_DETAILS: Final = frozenset({"stepId", "stepOrder", "jobId"})
FILTERS: Final = ("subject", "event", "actor", "session", "channel", "since", "until")


async def audit_page(page: PageRequest) -> Response:
    ctx = await page.context()
    names, matches = dict[str, NameRow](), list[NameRow]()
    entries, cursor, error = list[AuditEntry](), None, None
    try:
        filter_ = _filter(page)
        if filter_.subject_id is not None:
            matches = await find_subjects(ctx, filter_.subject_id)
        if matches:
            filter_ = filter_._replace(subject_id=matches[0].id)
        if len(matches) <= 1:
            entries, cursor = await browse_audit(ctx, filter_)
            names = dict(await find_names(ctx, entries))
    except InvalidInput as refused:
        error = refused.message
    subject = {"subject": matches[0].id} if len(matches) == 1 else {}
    _, mark, query = page.url_with(behind=None, **subject).partition("?")
    return await page.render(
        "audit",
        status=400 if error else 200,
        entries=[entry_view(entry, names) for entry in entries],
        fault=error,
        filters={name: page.query(name) or "" for name in FILTERS},
        matches=[(row, page.url_with(subject=row.id, behind=None)) for row in matches],
        events=[str(event) for event in Event],
        channels=[str(channel) for channel in Channel],
        **page.list_links("behind", cursor),
        files={form: f"/audit.{form}{mark}{query}" for form in _EXPORT_FORMATS},
    )


def _filter(page: PageRequest) -> AuditFilter:
    since, until = page.query("since"), page.query("until")
    return AuditFilter(
        subject_id=page.query("subject"),
        event=page.query("event"),
        actor=page.query("actor"),
        session=page.query("session"),
        channel=page.query("channel"),
        since=_time(since) if since else None,
        until=_time(until) if until else None,
        after_cursor=page.query("behind"),
    )


def _time(text: str) -> datetime:
    try:
        timestamp = datetime.fromisoformat(text)
        return timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"“{text}” is not a time; write it like 2030-01-31T08:00") from None


async def audit_export(page: PageRequest) -> Response:
    form, filter_ = page.path("form"), _filter(page)
    if form not in _EXPORT_FORMATS:
        raise HTTPException(404)
    media_type, lines = _EXPORT_FORMATS[form]
    pages = all_entries(await page.context(), filter_)
    # Fetch the first page before the response starts, because after that an error cannot change the
    # status of the response.
    first = await anext(pages)

    async def texts() -> AsyncIterator[str]:
        if form == "csv":
            yield csv_text([COLUMNS])
        yield lines(first)
        async for entries in pages:
            yield lines(entries)

    headers = file_headers(f"audit.{form}", f"{media_type}; charset=utf-8")
    return StreamingResponse(texts(), headers=headers)


def json_lines(entries: list[AuditEntry]) -> str:
    return "".join(orjson.dumps(audit_entry_view(entry)).decode() + "\n" for entry in entries)


def csv_lines(entries: list[AuditEntry]) -> str:
    return csv_text(
        (
            entry.at.isoformat(),
            entry.subject,
            entry.subject_id,
            str(entry.seq),
            entry.event,
            entry.actor,
            entry.channel,
            entry.session or "",
            entry_text(entry),
        )
        for entry in entries
    )


_EXPORT_FORMATS: Final[Mapping[str, tuple[str, Callable[[list[AuditEntry]], str]]]] = {
    "csv": ("text/csv", csv_lines),
    "jsonl": ("application/jsonl", json_lines),
}


def entry_event(entry: AuditEntry) -> str:
    action = entry_details(entry).get("action")
    kind = RUN if entry.subject == RUN else "plan"
    return event_label(entry.event, action if isinstance(action, str) else None, kind)


def entry_view(entry: AuditEntry, names: Names) -> dict[str, Any]:
    """Return the values that the template shows for an audit entry.

    Each change has the name of the changed row, the old value and the new value.
    """
    every, item = list(changes_in([entry])), item_of(entry, names)
    details = [
        (name, _display_value(value))
        for name, value in entry_details(entry).items()
        if name != "action" and not (item and name in _ITEM_DETAILS)
    ]
    changes = []
    for change in every[:MAX_CHANGES]:
        row, label = names.get(change.id), ""
        if row is not None and row.kind in {"step", "job"}:
            label = row.name if row.number is None else str(row.number)
        changes.append((change, label, _display_value(change.old), _display_value(change.new)))
    shown = [value for _, value in details]
    shown += [value for *_, old, new in changes for value in (old, new)]
    is_brief = all(len(text) <= _SHORT_VALUE_LENGTH and not omitted for text, omitted in shown)
    return {
        "entry": entry,
        "what": entry_event(entry),
        "details": details,
        "changes": changes,
        "more": len(every) - len(changes),
        "short": is_brief and len(every) <= _MAX_INLINE_CHANGES,
        "subject": (entry.subject, entry.subject_id, names.get(entry.subject_id)),
        "item": item,
    }


def _display_value(value: Json) -> tuple[str, int]:
    """Return a value as text, and the number of characters that are cut off.

    >>> _display_value(None), _display_value("a"), _display_value({"a": 1})
    (('∅', 0), ('a', 0), ('{"a": 1}', 0))
    """
    if value is None:
        return "∅", 0
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:MAX_VALUE_LENGTH], max(0, len(text) - MAX_VALUE_LENGTH)
