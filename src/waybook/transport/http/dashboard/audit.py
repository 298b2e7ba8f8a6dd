"""Audit page: filtered audit entries with their changes, and export as CSV or JSON Lines."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from waybook.app.queries.agents import Names, RowName, find_names, find_subjects
from waybook.app.queries.audit import (
    RUN,
    AuditEntry,
    AuditFilter,
    EntriesPage,
    all_entries,
    browse_audit,
    changes_in,
    entry_details,
    entry_text,
    event_label,
)
from waybook.app.queries.audit import entry_view as audit_entry_view
from waybook.app.queries.timeline import csv_text
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Event
from waybook.core.decision_context import Channel
from waybook.errors import InvalidInput
from waybook.json_values import Json
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.record_links import (
    Link,
    agent_link,
    item_link,
    row_label,
    subject_link,
)
from waybook.transport.http.html.forms import current_url_with, query_param
from waybook.transport.http.requests import SANDBOX_HEADERS

COLUMNS: Final = ("at", "subject", "subject_id", "seq", "event", "actor", "channel", "session",
                  "details")  # fmt: skip


async def export_audit(ctx: RequestContext, filter_: AuditFilter, form: str) -> Response:
    if form not in EXPORT_FORMATS:
        raise HTTPException(404)
    kind, lines = EXPORT_FORMATS[form]
    pages = all_entries(ctx, filter_)
    # Fetch the first page before the response starts, so that an error can still set its status.
    first = await anext(pages)
    headers = {
        **SANDBOX_HEADERS,
        "content-disposition": f'attachment; filename="audit.{form}"',
        "content-type": f"{kind}; charset=utf-8",
    }
    return StreamingResponse(_sent(first, pages, lines), headers=headers)


async def _sent(
    first: list[AuditEntry],
    rest: AsyncIterator[list[AuditEntry]],
    lines: Callable[[list[AuditEntry]], str],
) -> AsyncIterator[str]:
    if lines is csv_lines:
        yield csv_text([COLUMNS])
    yield lines(first)
    async for page in rest:
        yield lines(page)


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


EXPORT_FORMATS: Final[Mapping[str, tuple[str, Callable[[list[AuditEntry]], str]]]] = (
    MappingProxyType({"csv": ("text/csv", csv_lines), "jsonl": ("application/jsonl", json_lines)})
)

MAX_CHANGES: Final = 30
MAX_VALUE_LENGTH: Final = 600
#: An entry is shown expanded if all its values are at most this long.
SHORT_VALUE_LENGTH: Final = 80
MAX_INLINE_CHANGES: Final = 4
#: Fields that are not shown, because the entry already shows the name of the step or job.
ITEM_DETAILS: Final = frozenset({"stepId", "stepOrder", "jobId"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayValue:
    text: str
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView:
    entity: str
    id: str
    label: str
    field: str
    old: DisplayValue
    new: DisplayValue


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    entry: AuditEntry
    what: str
    details: tuple[tuple[str, DisplayValue], ...]
    changes: tuple[ChangeView, ...]
    more: int
    subject: Link
    item: Link | None
    agent: Link

    @property
    def at(self) -> datetime:
        return self.entry.at

    @property
    def short(self) -> bool:
        values = [v for c in self.changes for v in (c.old, c.new)] + [v for _, v in self.details]
        fits = all(len(value.text) <= SHORT_VALUE_LENGTH and not value.omitted for value in values)
        return fits and len(self.changes) <= MAX_INLINE_CHANGES and not self.more


def entry_view(entry: AuditEntry, names: Names) -> EntryView:
    changes = list(changes_in([entry]))
    details = entry_details(entry)
    action = details.get("action")
    item = item_link(entry, names)
    return EntryView(
        entry=entry,
        what=event_label(entry.event, action if isinstance(action, str) else None, _kind(entry)),
        details=tuple(
            (name, display_value(value))
            for name, value in details.items()
            if name != "action" and not (item and name in ITEM_DETAILS)
        ),
        changes=tuple(
            ChangeView(
                entity=str(change.entity),
                id=change.id,
                label=row_label(change.id, names),
                field=change.field,
                old=display_value(change.old),
                new=display_value(change.new),
            )
            for change in changes[:MAX_CHANGES]
        ),
        more=max(0, len(changes) - MAX_CHANGES),
        subject=subject_link(entry, names),
        item=item,
        agent=agent_link(entry),
    )


def display_value(value: Json) -> DisplayValue:
    """Return a value as text for display. Long texts are cut.

    >>> display_value(None).text, display_value("a").text, display_value({"a": 1}).text
    ('∅', 'a', '{"a": 1}')
    """
    if value is None:
        return DisplayValue(text="∅")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = len(text) - MAX_VALUE_LENGTH
    return (
        DisplayValue(text=text[:MAX_VALUE_LENGTH], omitted=cut)
        if cut > 0
        else DisplayValue(text=text)
    )


def _kind(entry: AuditEntry) -> str:
    return RUN if entry.subject == RUN else "plan"


FILTERS: Final = ("subject", "event", "actor", "session", "channel", "since", "until")


@dataclass(frozen=True, slots=True)
class AuditPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        call = await self.page_context.request_context(request)
        names: Names = {}
        matches: list[RowName] = []
        page, error = EntriesPage([], None), None
        try:
            filter_, matches = await self._named_filter(call, filter_from_query(request))
            if len(matches) <= 1:
                page = await browse_audit(call, filter_)
                names = await find_names(call, page.entries)
        except InvalidInput as refused:
            error = refused.message
        filters = {name: query_param(request, name) or "" for name in FILTERS}
        return await self.page_context.render_page(
            request,
            "audit",
            status_code=400 if error else 200,
            entries=[entry_view(entry, names) for entry in page.entries],
            fault=error,
            filters=filters,
            matches=[
                (row, current_url_with(request, subject=row.id, behind=None)) for row in matches
            ],
            events=[str(event) for event in Event],
            channels=[str(channel) for channel in Channel],
            first=query_param(request, "behind") is None,
            further=current_url_with(request, behind=page.next_cursor)
            if page.next_cursor
            else None,
            newest=current_url_with(request, behind=None),
            files={form: _file_address(request, form, matches) for form in ("csv", "jsonl")},
        )

    async def _named_filter(
        self, call: RequestContext, filter_: AuditFilter
    ) -> tuple[AuditFilter, list[RowName]]:
        text = filter_.subject_id
        matches = await find_subjects(call, text) if text is not None else []
        return (replace(filter_, subject_id=matches[0].id) if matches else filter_), matches

    async def export(self, request: Request) -> Response:
        call = await self.page_context.request_context(request)
        return await export_audit(call, filter_from_query(request), request.path_params["form"])


def filter_from_query(request: Request) -> AuditFilter:
    since, until = query_param(request, "since"), query_param(request, "until")
    return AuditFilter(
        subject_id=query_param(request, "subject"),
        event=query_param(request, "event"),
        actor=query_param(request, "actor"),
        session=query_param(request, "session"),
        channel=query_param(request, "channel"),
        since=_time(since) if since else None,
        until=_time(until) if until else None,
        after_cursor=query_param(request, "behind"),
    )


def _time(text: str) -> datetime:
    try:
        timestamp = datetime.fromisoformat(text)
        return timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"“{text}” is not a time; write it like 2030-01-31T08:00") from None


def _file_address(request: Request, form: str, matches: list[RowName]) -> str:
    named = {"subject": matches[0].id} if len(matches) == 1 else {}
    _, _, query = current_url_with(request, behind=None, **named).partition("?")
    return f"/audit.{form}?{query}" if query else f"/audit.{form}"
