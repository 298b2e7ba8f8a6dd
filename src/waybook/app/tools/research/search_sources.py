"""search_sources: full-text and semantic search in earlier research."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, cast

from pydantic import Field

from waybook.app.accounts.authentication import database_time
from waybook.app.context.job import fit_views
from waybook.app.queries.research_search import SearchResults, run_search
from waybook.app.request.arguments import LenientJson, PlanIdField, ReadArguments
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, id_or_nil, not_found
from waybook.app.request.tool import Tool, output_schema
from waybook.app.tools.research.store_research import Query, Tag, Word
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.fusion import WEIGHTS, Hit, MatchReason
from waybook.research.query import SearchQuery, Snippet, build_snippet
from waybook.store.driver.queries import first_value
from waybook.store.research import search
from waybook.store.research.search import HitRow, Scope

MAX_HITS_BYTES = 42_000
MAX_MATCHED_WORDS = 12
MAX_OFFSET = 100
MAX_DAYS = 36_500
NOTHING_FITS = "No stored research fits this query."


class SearchSources(ReadArguments):
    query: Query = Field(description="words or a question")
    plan_id: PlanIdField | None = Field(default=None, description="only of this plan")
    kinds: LenientJson[list[Word]] | None = Field(
        default=None, max_length=20, description="only of these kinds"
    )
    tags: LenientJson[list[Tag]] | None = Field(
        default=None, max_length=20, description="only with all these tags"
    )
    within_days: Annotated[float, Field(ge=0, le=MAX_DAYS)] | None = Field(
        default=None, description="only stored in the last days"
    )
    limit: int = Field(default=10, ge=1, le=50, description="default 10")
    cursor: int = Field(default=0, ge=0, le=MAX_OFFSET, description="nextCursor of the last reply")


async def search_sources(ctx: RequestContext, args: SearchSources) -> Body:
    """Return a page of hits, best first, each with its origin and its match reasons."""
    results = await _search(ctx, args)
    hits = results.fitting_hits
    rows = await _rows(ctx, hits, args.cursor, args.limit)
    views = fit_views(_views(results.question, hits, rows), MAX_HITS_BYTES)
    upto = args.cursor + len(views)
    return non_empty(
        hits=views,
        searched=results.method,
        message=None if hits else NOTHING_FITS,
        nextCursor=upto if rows and upto < rows[0].hits else None,
        next=_next(args, views),
    )


async def _search(ctx: RequestContext, args: SearchSources) -> SearchResults:
    days = args.within_days
    scope = Scope(
        plan_id=id_or_nil(args.plan_id) if args.plan_id else None,
        kinds=tuple(args.kinds or ()),
        since=None if days is None else await database_time(ctx.services) - timedelta(days=days),
        tags=tuple(args.tags or ()),
    )
    results, (there,) = await run_search(
        ctx, args.query, scope, search.plan_exists_statement(scope.plan_id)
    )
    if not first_value(there):
        raise not_found("plan")
    return results


async def _rows(ctx: RequestContext, hits: list[Hit], start: int, most: int) -> list[HitRow]:
    if not hits:
        return []
    (rows,) = await ctx.read(search.hits_statement(hits, start, most))
    return list(rows)


def _views(question: SearchQuery, hits: list[Hit], rows: list[HitRow]) -> list[Json]:
    by_id = {hit.subject_id: hit for hit in hits}
    return [
        _view(question, [by_id[item] for item in (row.id, *(row.matching_sources or ()))], row)
        for row in rows
    ]


def _view(question: SearchQuery, hits: list[Hit], row: HitRow) -> Body:
    shown = build_snippet(row.body, question)
    return non_empty(
        id=row.id,
        subject=row.subject,
        kind=row.kind,
        title=row.title,
        tags=row.tags or None,
        version=row.version,
        superseded=row.superseded or None,
        snippet=shown.highlight(),
        why=[_why(reason, shown) for reason in _best_reasons(hits)],
        planId=row.plan_id,
        stepId=row.step_id,
        url=row.url,
        sources=[_source(source) for source in row.sources or ()] or None,
        moreSources=row.source_count - len(row.sources or ()) or None,
        createdAt=format_time(row.created_at),
        createdBy=row.created_by,
        read={"tool": "get_artifact", "args": {"artifactId": row.id}},
    )


def _source(source: Json) -> Body:
    """Return a source with its time in UTC, not in the time zone of the database."""
    body = cast("Body", source)
    at = body.get("retrievedAt")
    if at is None:
        return body
    return {**body, "retrievedAt": format_time(datetime.fromisoformat(str(at)).astimezone(UTC))}


def _best_reasons(hits: list[Hit]) -> list[MatchReason]:
    """Return the best reason of each kind why an artifact or one of its sources was found."""
    reasons = sorted((reason for hit in hits for reason in hit.why), key=lambda r: -r.rank)
    best = {reason.by: reason for reason in reasons}
    return [best[by] for by in WEIGHTS if by in best]


def _why(reason: MatchReason, shown: Snippet) -> Json:
    if reason.by == "meaning":
        return {"by": reason.by, "rank": reason.rank, "nearness": round(reason.score, 3)}
    words = dict.fromkeys(shown.text[start:end].lower() for start, end in shown.marks)
    return {
        "by": reason.by,
        "rank": reason.rank,
        "covers": round(min(reason.score, 1), 3),
        "words": cast("Json", [*words][:MAX_MATCHED_WORDS]),
    }


def _next(args: SearchSources, views: list[Json]) -> Json:
    if views:
        best = cast("Body", views[0])
        return next_call("get_artifact", "Read the best hit in full.", artifactId=best["id"])
    narrowed = args.plan_id or args.kinds or args.tags or args.within_days is not None
    if narrowed:
        return next_call("search_sources", "Search again without filters.", query=args.query)
    return next_call("store_research", "Store what you find out about this.")


TOOL = Tool(
    name="search_sources",
    title="Search stored research",
    description=(
        "Search the stored research of all plans by words and meaning. Each hit names the call "
        "that reads it in full."
    ),
    arguments=SearchSources,
    output_schema=output_schema(hits="array", searched="string"),
    run=search_sources,
    reads_only=True,
)
