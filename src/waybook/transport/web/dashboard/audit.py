"""The audit: who did what, when and why, of whatever is asked for."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.errors import InvalidInput
from waybook.record.changes import Event
from waybook.record.moment import Channel
from waybook.transport.web.dashboard.addresses import current_url_with, query_param
from waybook.transport.web.dashboard.audit_file import export_audit
from waybook.transport.web.dashboard.audit_view import entry_view
from waybook.transport.web.dashboard.desk import PageContext
from waybook.usecases.browse_audit import AuditFilter, EntriesPage, browse_audit

FILTERS: Final = ("subject", "event", "actor", "channel", "since", "until")


@dataclass(frozen=True, slots=True)
class AuditPage:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The entries, newest first; what cannot be asked is said in its place."""
        try:
            found = await browse_audit(
                await self.desk.request_context(request), filter_from_query(request)
            )
            error = None
        except InvalidInput as refused:
            found, error = EntriesPage([], None), refused.message
        return await self.desk.render_page(
            request,
            "audit",
            status_code=400 if error else 200,
            entries=[entry_view(entry) for entry in found.entries],
            fault=error,
            asked={name: query_param(request, name) or "" for name in FILTERS},
            events=[str(event) for event in Event],
            channels=[str(channel) for channel in Channel],
            first=query_param(request, "behind") is None,
            further=current_url_with(request, behind=found.next_cursor)
            if found.next_cursor
            else None,
            newest=current_url_with(request, behind=None),
            files={form: _file_address(request, form) for form in ("csv", "jsonl")},
        )

    async def export(self, request: Request) -> Response:
        """The same entries as a file to keep."""
        call = await self.desk.request_context(request)
        return await export_audit(call, filter_from_query(request), request.path_params["form"])


def filter_from_query(request: Request) -> AuditFilter:
    """The filter in the address.

    Raises:
        InvalidInput: a time is none.
    """
    since, until = query_param(request, "since"), query_param(request, "until")
    return AuditFilter(
        subject_id=query_param(request, "subject"),
        event=query_param(request, "event"),
        actor=query_param(request, "actor"),
        channel=query_param(request, "channel"),
        since=_time(since) if since else None,
        until=_time(until) if until else None,
        after_cursor=query_param(request, "behind"),
    )


def _time(text: str) -> datetime:
    try:
        told = datetime.fromisoformat(text)
        return told.astimezone(UTC) if told.tzinfo else told.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"“{text}” is not a time; write it like 2030-01-31T08:00") from None


def _file_address(request: Request, form: str) -> str:
    _, _, asked = current_url_with(request, behind=None).partition("?")
    return f"/audit.{form}?{asked}" if asked else f"/audit.{form}"
