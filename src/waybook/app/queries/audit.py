"""Queries about the audit: entries of a plan, run or org, exports, labels, and past states."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

import orjson

from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Change, Event, Row, Rows, replay
from waybook.core.decision_context import Channel, Scope
from waybook.core.ids import LAST_ID, id_or_nil, is_id
from waybook.errors import InvalidInput, NotFound
from waybook.json_values import Body, Json, fields_of, non_empty, rfc3339
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.driver.queries import Query, as_json_text, first_value, is_uuid

PAGE_SIZE = 500
#: Frequent events. To find any other event, the query `page_of_rare_event` uses an index.
_FREQUENT_EVENTS = frozenset({Event.STEP_STARTED, Event.STEP_COMPLETED})

AuditEntry: TypeAlias = SealedEntry


async def read_entries(
    ctx: RequestContext, subject_id: str, *, until: int
) -> AsyncIterator[list[SealedEntry]]:
    since = 0
    while since < until:
        statement = audit.SQL["chain"](
            subject_id=subject_id, since=since, until=until, most=PAGE_SIZE
        )
        (rows,) = await ctx.read(statement)
        if not rows:
            return
        yield rows
        since = rows[-1].seq


async def read_all_entries(
    ctx: RequestContext, subject_id: str, *, until: int
) -> list[SealedEntry]:
    return [entry async for page in read_entries(ctx, subject_id, until=until) for entry in page]


def changes_in(entries: Iterable[SealedEntry]) -> Iterator[Change]:
    return (change for entry in entries for change in audit.changes_of(_parse_details(entry)))


def entry_details(entry: SealedEntry) -> dict[str, Json]:
    """Return the details of an audit entry, such as its reason, without row changes."""
    details = _parse_details(entry)
    return {k: v for k, v in details.items() if k != "changes"} if isinstance(details, dict) else {}


def entry_text(entry: SealedEntry) -> str:
    """Return the details with one object for each change, as `Change.as_json` writes it.

    An export has up to 100,000 entries, so the text is parsed once and no `Change` is created.
    """
    details = orjson.loads(entry.details)
    groups = details.get("changes") or ()
    changes = [
        {
            "entity": entity,
            "id": row_id,
            "field": field,
            "from": values[0] if len(values) > 1 else None,
            "to": values[-1],
        }
        for entity, row_id, fields in groups
        for field, values in fields.items()
    ]
    return as_json_text({**details, "changes": changes})


def _parse_details(entry: SealedEntry) -> Json:
    details: Json = json.loads(entry.details)
    return details


_BROWSE_PAGE_SIZE = 50
_MAX_EXPORTED_ENTRIES = 100_000
#: An export holds one batch in memory. Its next batch has fewer entries if these are long.
_MIN_EXPORT_BATCH, _MAX_EXPORT_BATCH = 10, 500
_EXPORT_BATCH_BYTES = 1_000_000
_EVER, NEVER, LAST_SEQ = "-infinity", "infinity", 2**31 - 1


class AuditFilter(NamedTuple):
    subject_id: str | None = None
    event: str | None = None
    actor: str | None = None
    channel: str | None = None
    session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after_cursor: str | None = None


async def browse_audit(
    ctx: RequestContext, filter_: AuditFilter, limit: int = _BROWSE_PAGE_SIZE
) -> tuple[list[SealedEntry], str | None]:
    """Return a page of audit entries, newest first, and the cursor of the next page.

    Only administrators get entries about users and tokens.
    """
    at, subject_id, seq = place_behind(filter_.after_cursor, filter_.until)
    params = {
        "since": rfc3339(filter_.since) if filter_.since else _EVER,
        "event": filter_.event,
        "actor": filter_.actor,
        "channel": filter_.channel,
        "session": filter_.session,
        "members": Scope.ADMIN in ctx.caller.scopes,
        "most": limit + 1,
    }
    query = _page_query(filter_)
    if filter_.subject_id is not None:
        # In one plan or run, `seq` alone says where a page begins; `at` is only the filter `until`.
        query, subject_id = audit.SQL["page_of"], _subject_id(filter_.subject_id)
        at = rfc3339(filter_.until) if filter_.until else NEVER
    (entries,) = await ctx.read(query(at=at, subject_id=subject_id, seq=seq, **params))
    shown = entries[:limit]
    return shown, entry_cursor(shown[-1]) if len(entries) > limit else None


async def all_entries(
    ctx: RequestContext, filter_: AuditFilter, most: int = _MAX_EXPORTED_ENTRIES
) -> AsyncIterator[list[SealedEntry]]:
    size = _MIN_EXPORT_BATCH
    while most > 0:
        entries, cursor = await browse_audit(ctx, filter_, min(size, most))
        yield entries
        most -= len(entries)
        if cursor is None:
            return
        mean = sum(len(entry.details) for entry in entries) // len(entries) + 1
        fitting = min(_EXPORT_BATCH_BYTES // mean, 5 * size, _MAX_EXPORT_BATCH)
        size = max(_MIN_EXPORT_BATCH, fitting)
        filter_ = filter_._replace(after_cursor=cursor)


def entry_cursor(entry: SealedEntry) -> str:
    return f"{rfc3339(entry.at)}~{entry.subject_id}~{entry.seq}"


def _subject_id(text: str) -> str:
    return text.lower() if is_uuid(text) else id_or_nil(text)


def _page_query(filter_: AuditFilter) -> Query:
    """Return the query that reads the fewest entries, because its index fits the filter best."""
    if filter_.actor is not None and filter_.session is not None:
        return audit.SQL["page_of_agent"]
    if filter_.actor is not None:
        return audit.SQL["page_of_actor"]
    if filter_.event is not None and filter_.event not in _FREQUENT_EVENTS:
        return audit.SQL["page_of_rare_event"]
    if filter_.channel is not None and filter_.channel != Channel.MCP:
        return audit.SQL["page_of_other_channel"]
    return audit.SQL["page"]


def place_behind(cursor: str | None, until: datetime | None) -> tuple[str, str, int]:
    """Return the time, subject and number of the audit entry after which a page begins.

    Without a cursor, the page begins with the last entry before `until`, or with the newest entry.
    """
    if cursor is None:
        if until is None:
            return NEVER, LAST_ID, LAST_SEQ
        return rfc3339(until), "", 0
    try:
        at, subject_id, seq = cursor.split("~")
        place = rfc3339(datetime.fromisoformat(at)), subject_id, int(seq)
    except ValueError:
        place = "", "", 0
    if not (is_id(place[1]) or is_uuid(place[1])) or not 0 <= place[2] <= LAST_SEQ:
        raise InvalidInput("invalid cursor; start from the first page")
    return place


_MAX_LIMIT = 1_000


async def list_audit(
    ctx: RequestContext,
    plan_id: str | None = None,
    *,
    since: datetime | None = None,
    limit: int = 50,
) -> list[Body]:
    filter_ = AuditFilter(subject_id=plan_id or None, since=since)
    entries, _ = await browse_audit(ctx, filter_, min(limit, _MAX_LIMIT))
    return [entry_view(entry) for entry in entries]


def entry_view(entry: SealedEntry) -> Body:
    changes: list[Json] = [change.as_json() for change in changes_in([entry])]
    return non_empty(
        **fields_of(entry, "subject subject_id seq at event actor channel"),
        sessionId=entry.session,
        details=entry_details(entry),
        changes=changes,
        hash=bytes(entry.hash).hex(),
    )


_LABELS: dict[str, dict[str, str]] = orjson.loads(
    Path(__file__).with_name("event_labels.json").read_bytes()
)


def event_label(event: str, action: str | None, subject: str = "plan") -> str:
    """Return the human-readable label of an audit event.

    >>> event_label("plan_modified", "stall_detected"), event_label("step_started", None)
    ('detected a stall', 'started a step')
    >>> event_label("step_started", None, "run")
    'claimed a job'
    """
    own = _LABELS["events_of_runs"] if subject == RUN else {}
    label = _LABELS["actions"].get(action or "") or own.get(event) or _LABELS["events"].get(event)
    return label or event.replace("_", " ")


RUN = "run"


def entry_label(entry: SealedEntry) -> str:
    action = entry_details(entry).get("action")
    return event_label(entry.event, action if isinstance(action, str) else None)


class SubjectAsOf(NamedTuple):
    rows: Rows
    last: SealedEntry


def step_title(row: Row) -> str:
    """Return the title of a step or, without a title, the first line of its instructions."""
    return str(row["title"] or str(row["instructions"]).strip().split("\n", 1)[0])


def steps_in_order(rows: Rows) -> list[tuple[str, Row]]:
    return sorted(rows.get("step", {}).items(), key=lambda item: int(str(item[1]["order"])))


async def subject_as_of(
    ctx: RequestContext, subject_id: str, *, at: datetime | None = None, seq: int | None = None
) -> SubjectAsOf:
    subject_id = _subject_id(subject_id)
    if seq is None:
        (rows,) = await ctx.read(audit.SQL["until"](subject_id=subject_id, at=at))
        seq = int(first_value(rows))
    entries = await read_all_entries(ctx, subject_id, until=seq)
    if not entries:
        raise NotFound("there was no such plan or run yet at that time")
    return SubjectAsOf(replay(changes_in(entries)), entries[-1])
