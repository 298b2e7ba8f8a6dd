"""The audit: who did what, when and why, of whatever is asked for."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.errors import InvalidInput
from waybook.record.changes import Event
from waybook.record.moment import Channel
from waybook.transport.web.dashboard.addresses import asked_for, here_with
from waybook.transport.web.dashboard.audit_file import audit_file
from waybook.transport.web.dashboard.audit_view import entry_shown
from waybook.transport.web.dashboard.desk import Desk
from waybook.usecases.browse_audit import AskedEntries, EntriesPage, browse_audit

FILTERS: Final = ("subject", "event", "actor", "channel", "since", "until")


@dataclass(frozen=True, slots=True)
class Audit:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The entries, newest first; what cannot be asked is said in its place."""
        try:
            found = await browse_audit(await self.desk.call(request), asked_entries(request))
            fault = None
        except InvalidInput as refused:
            found, fault = EntriesPage([], None), refused.message
        return await self.desk.page(
            request,
            "audit",
            status_code=400 if fault else 200,
            entries=[entry_shown(entry) for entry in found.entries],
            fault=fault,
            asked={name: asked_for(request, name) or "" for name in FILTERS},
            events=[str(event) for event in Event],
            channels=[str(channel) for channel in Channel],
            first=asked_for(request, "behind") is None,
            further=here_with(request, behind=found.behind) if found.behind else None,
            newest=here_with(request, behind=None),
            files={form: _file_address(request, form) for form in ("csv", "jsonl")},
        )

    async def file(self, request: Request) -> Response:
        """The same entries as a file to keep."""
        call = await self.desk.call(request)
        return await audit_file(call, asked_entries(request), request.path_params["form"])


def asked_entries(request: Request) -> AskedEntries:
    """The filter in the address.

    Raises:
        InvalidInput: a time is none.
    """
    since, until = asked_for(request, "since"), asked_for(request, "until")
    return AskedEntries(
        subject_id=asked_for(request, "subject"),
        event=asked_for(request, "event"),
        actor=asked_for(request, "actor"),
        channel=asked_for(request, "channel"),
        since=_time(since) if since else None,
        until=_time(until) if until else None,
        behind=asked_for(request, "behind"),
    )


def _time(text: str) -> datetime:
    try:
        told = datetime.fromisoformat(text)
        return told.astimezone(UTC) if told.tzinfo else told.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"“{text}” is not a time; write it like 2030-01-31T08:00") from None


def _file_address(request: Request, form: str) -> str:
    _, _, asked = here_with(request, behind=None).partition("?")
    return f"/audit.{form}?{asked}" if asked else f"/audit.{form}"
