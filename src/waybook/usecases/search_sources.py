"""search_sources: find what was learnt before, by words and by meaning."""

from collections import defaultdict
from typing import Any, cast

from pydantic import Field

from waybook.errors import InvalidInput
from waybook.record.moment import Json
from waybook.research.fusion import Hit, Why
from waybook.research.question import Question
from waybook.research.snippet import Snippet, snippet
from waybook.store import search
from waybook.store.search import Scope
from waybook.usecases.arguments import Id, Loose, Reading
from waybook.usecases.call import Body, Call, known, not_found
from waybook.usecases.get_artifact import source_view
from waybook.usecases.job_packet import first_of
from waybook.usecases.schemas import output_schema
from waybook.usecases.searching import Found, find
from waybook.usecases.store_research import Moment, Query, Tag, Word
from waybook.usecases.tool import RESEARCH, Tool
from waybook.usecases.views import following, moment, told

#: What all hits of a page may take together, in bytes.
MOST = 42_000
#: How many sources of an artifact are named with it, and how many words that match.
MOST_SOURCES = 3
MOST_WORDS = 12
#: How far one can page on.
FARTHEST = 100


class SearchSources(Reading):
    query: Query
    plan_id: Id | None = None
    kinds: Loose[list[Word]] | None = Field(None, max_length=20)
    tags: Loose[list[Tag]] | None = Field(None, max_length=20, description="all of them")
    since: Moment | None = None
    limit: int = Field(default=10, ge=1, le=50)
    cursor: str | None = Field(None, max_length=20)


async def search_sources(call: Call, asked: SearchSources) -> Body:
    """A page of what matches, best first: each hit with why it matched and where it came from."""
    start = _read_cursor(asked.cursor)
    found = await _search(call, asked)
    page = found.hits[start : start + asked.limit]
    views = first_of(await _views(call, found.question, page), MOST)
    upto = start + len(views)
    more = upto < len(found.hits)
    return told(
        hits=views,
        searched=found.told,
        nextCursor=str(upto) if more else None,
        next=_next(asked, views),
    )


async def _search(call: Call, asked: SearchSources) -> Found:
    scope = Scope(
        plan_id=known(asked.plan_id) if asked.plan_id else None,
        kinds=tuple(asked.kinds or ()),
        since=asked.since,
        tags=tuple(asked.tags or ()),
    )
    found, (there,) = await find(
        call, asked.query, scope, search.plan_there_statement(scope.plan_id)
    )
    if not there[0][0]:
        raise not_found("plan")
    return found


async def _views(call: Call, question: Question, page: list[Hit]) -> list[Json]:
    if not page:
        return []
    rows, sources = await call.read(
        search.found_statement((hit.subject_id, hit.part) for hit in page),
        search.sources_statement(hit.subject_id for hit in page),
    )
    by_id = {row[1]: row for row in rows}
    came_from = defaultdict[str, list[tuple[Any, ...]]](list)
    for row in sources:
        came_from[row[0]].append(row[1:])
    # What was replaced by a later version between the two looks is not there any more.
    there = [hit for hit in page if hit.subject_id in by_id]
    return [_view(question, h, by_id[h.subject_id], came_from[h.subject_id]) for h in there]


def _view(
    question: Question, hit: Hit, row: tuple[Any, ...], sources: list[tuple[Any, ...]]
) -> Body:
    subject, row_id, _, plan_id, kind, _, body, created_at, step_id, author, url, *rest = row
    title, tags, version, superseded = rest
    shown = snippet(body, question)
    argument = "artifactId" if subject == "artifact" else "sourceId"
    return told(
        id=row_id,
        subject=subject,
        kind=kind,
        title=title,
        tags=tags or None,
        version=version,
        superseded=superseded or None,
        snippet=shown.marked(),
        why=[_why(reason, shown) for reason in hit.why],
        planId=plan_id,
        stepId=step_id,
        url=url,
        sources=[source_view(one, quoted=False) for one in sources[:MOST_SOURCES]] or None,
        moreSources=len(sources) - MOST_SOURCES if len(sources) > MOST_SOURCES else None,
        createdAt=moment(created_at),
        createdBy=author,
        read={"tool": "get_artifact", "args": {argument: row_id}},
    )


def _why(reason: Why, shown: Snippet) -> Json:
    """One reason: the place it had by words or by meaning, and what put it there."""
    if reason.by == "meaning":
        return {"by": reason.by, "rank": reason.place, "nearness": round(reason.measure, 3)}
    words = dict.fromkeys(shown.text[start:end].lower() for start, end in shown.marks)
    return {
        "by": reason.by,
        "rank": reason.place,
        "covers": round(reason.measure, 3),
        "words": cast("Json", [*words][:MOST_WORDS]),
    }


def _next(asked: SearchSources, views: list[Json]) -> Json:
    if views:
        best = cast("Body", views[0])
        argument = "artifactId" if best["subject"] == "artifact" else "sourceId"
        return following("get_artifact", "read the best of them whole", **{argument: best["id"]})
    narrowed = asked.plan_id or asked.kinds or asked.tags or asked.since
    if narrowed:
        return following("search_sources", "look everywhere, without filters", query=asked.query)
    return following("store_research", "nothing is known of it; store what you find out")


def _read_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if cursor.isascii() and cursor.isdecimal() and int(cursor) <= FARTHEST:
        return int(cursor)
    raise InvalidInput("cursor is not one this tool gave out; leave it away to start again")


TOOL = Tool(
    name="search_sources",
    title="Search what was stored",
    description=(
        "Find what was stored before, by words and meaning, in all plans. Each hit says why it "
        "matched and how to read the whole."
    ),
    arguments=SearchSources,
    output_schema=output_schema(hits="array", searched="string"),
    run=search_sources,
    reads_only=True,
    profiles=RESEARCH,
)
