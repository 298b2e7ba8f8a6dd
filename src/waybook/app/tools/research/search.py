"""Search the stored research, and read an artifact whole or piece by piece."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, cast

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from waybook.app.accounts.authentication import database_time
from waybook.app.queries.search import run_search
from waybook.app.request.arguments import (
    DetailField,
    Id,
    LenientJson,
    Offset,
    PlanIdField,
    ReadArguments,
    clamped,
)
from waybook.app.request.reply import fit_views, next_call
from waybook.app.request.request_context import RequestContext, not_found, uuid_or_nil
from waybook.app.request.tool import Tool
from waybook.app.tools.research.store_research import visible_line
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.fusion import WEIGHTS, Hit, MatchReason
from waybook.research.packet import escaped_size, truncate
from waybook.research.query import SearchQuery, Snippet, build_snippet
from waybook.store.driver.queries import first_value
from waybook.store.research import artifacts, search
from waybook.store.research.artifacts import ArtifactRow, CitedSourceRow
from waybook.store.research.search import HitRow, Scope, SourceRow

_MAX_HITS_BYTES = 42_000
_MAX_MATCHED_WORDS = 12
_MAX_DAYS = 36_500
_MAX_QUERY_LENGTH = 1_000
_NOTHING_FITS = "No stored research fits this query."


#: Kind or tag to filter by, in the form in which it was stored.
_Filter = Annotated[Id, StringConstraints(strip_whitespace=True), BeforeValidator(visible_line)]


class SearchSources(ReadArguments):
    query: Annotated[str, AfterValidator(lambda text: text[:_MAX_QUERY_LENGTH])] = Field(
        min_length=1, description="words or a question"
    )
    plan_id: PlanIdField | None = Field(default=None, description="only of this plan")
    kinds: LenientJson[list[_Filter]] | None = Field(
        default=None, max_length=20, description="only of these kinds"
    )
    tags: LenientJson[list[_Filter]] | None = Field(
        default=None, max_length=20, description="only with all these tags"
    )
    within_days: Annotated[float, Field(ge=0), clamped(0, _MAX_DAYS)] | None = Field(
        default=None, description="only stored in the last days"
    )
    limit: int = Field(default=10, ge=1, le=50, description="default 10")
    cursor: Offset = Field(default=0, description="nextCursor of the last reply")


@Tool(
    title="Search stored research",
    description=(
        "Search the stored research of all plans by words and meaning. Each hit names the call "
        "that reads it in full."
    ),
    reply={"hits": "array", "searched": "string"},
    reads_only=True,
)
async def search_sources(ctx: RequestContext, args: SearchSources) -> Body:
    days = args.within_days
    scope = Scope(
        plan_id=args.plan_id or None,
        kinds=tuple(args.kinds or ()),
        since=None if days is None else await database_time(ctx.services) - timedelta(days=days),
        tags=tuple(args.tags or ()),
    )
    results, (there,) = await run_search(
        ctx, args.query, scope, search.SQL["plan_exists"](plan_id=scope.plan_id)
    )
    if not first_value(there):
        raise not_found("plan")
    hits = results.fitting_hits
    rows: Sequence[HitRow] = ()
    if hits:
        (rows,) = await ctx.read(search.hits_statement(hits, args.cursor, args.limit))
    by_id = {hit.subject_id: hit for hit in hits}
    found = [
        _view(
            results.question,
            [by_id[item] for item in (row.id, *(row.matching_sources or ()))],
            row,
        )
        for row in rows
    ]
    views = fit_views(found, _MAX_HITS_BYTES)
    upto = args.cursor + len(views)
    return non_empty(
        hits=views,
        searched=results.method,
        message=None if hits else _NOTHING_FITS,
        nextCursor=upto if rows and upto < rows[0].hits else None,
        next=_next_of_hits(args, views),
    )


def _view(question: SearchQuery, hits: list[Hit], row: HitRow) -> Body:
    shown = build_snippet(row.body, question)
    # The best reason of each kind why the artifact or one of its sources was found.
    reasons = sorted((reason for hit in hits for reason in hit.why), key=lambda r: -r.rank)
    best = {reason.by: reason for reason in reasons}
    return non_empty(
        id=row.id,
        subject=row.subject,
        kind=row.kind,
        title=row.title,
        tags=row.tags or None,
        version=row.version,
        superseded=row.superseded or None,
        snippet=shown.highlight(),
        why=[_why(best[by], shown) for by in WEIGHTS if by in best],
        planId=row.plan_id,
        stepId=row.step_id,
        url=row.url,
        sources=[_source_of_hit(source) for source in row.sources or ()] or None,
        moreSources=row.source_count - len(row.sources or ()) or None,
        createdAt=format_time(row.created_at),
        createdBy=row.created_by,
        read={"tool": "get_artifact", "args": {"artifactId": row.id}},
    )


def _source_of_hit(source: Json) -> Body:
    """Return a source with its time in UTC, not in the time zone of the database."""
    body = cast("Body", source)
    at = body.get("retrievedAt")
    if at is None:
        return body
    return {**body, "retrievedAt": format_time(datetime.fromisoformat(str(at)).astimezone(UTC))}


def _why(reason: MatchReason, shown: Snippet) -> Json:
    if reason.by == "meaning":
        return {"by": reason.by, "rank": reason.rank, "nearness": round(reason.score, 3)}
    words = dict.fromkeys(shown.text[start:end].lower() for start, end in shown.marks)
    return {
        "by": reason.by,
        "rank": reason.rank,
        "covers": round(min(reason.score, 1), 3),
        "words": cast("Json", [*words][:_MAX_MATCHED_WORDS]),
    }


def _next_of_hits(args: SearchSources, views: list[Json]) -> Json:
    if views:
        best = cast("Body", views[0])
        return next_call("get_artifact", "Read the best hit in full.", artifactId=best["id"])
    narrowed = args.plan_id or args.kinds or args.tags or args.within_days is not None
    if narrowed:
        return next_call("search_sources", "Search again without filters.", query=args.query)
    return next_call("store_research", "Store what you find out about this.")


_MAX_CONTENT_BYTES = 30_000
_MAX_METADATA_BYTES = 12_000
_MAX_DETAIL_CONTENT_BYTES = 120_000
_MAX_DETAIL_METADATA_BYTES = 120_000
_MAX_CITATIONS = 20


class _GetArtifact(ReadArguments):
    artifact_id: Id = Field(description="id of an artifact or source")
    offset: Offset = Field(default=0, description="continue at this character")
    detail: DetailField = False


@Tool(
    title="Read an artifact",
    description=(
        "Read a stored artifact and its sources. left: how much follows; continue at offset."
    ),
    reply={"title": "string"},
    reads_only=True,
)
async def get_artifact(ctx: RequestContext, args: _GetArtifact) -> Body:
    artifact_id = uuid_or_nil(args.artifact_id)
    rows, sources, as_source = await ctx.read(
        artifacts.SQL["artifact"](artifact_id=artifact_id),
        search.sources_statement([artifact_id]),
        artifacts.SQL["source"](source_id=artifact_id, most=_MAX_CITATIONS),
    )
    if rows:
        return _artifact(rows[0], sources, args)
    if as_source:
        return _source(as_source[0])
    raise NotFound(
        "there is no artifact or source with this id here",
        next_call=NextCall("search_sources", {}, "Search for it; every hit has its id."),
    )


def _source(row: CitedSourceRow) -> Body:
    citations = row.citations or []
    return non_empty(
        sourceId=row.id,
        title=row.title,
        url=row.url,
        quote=row.quote,
        retrievedAt=format_time(row.retrieved_at),
        createdAt=format_time(row.created_at),
        createdBy=row.created_by,
        artifacts=[
            non_empty(
                artifactId=citation["id"],
                kind=citation["kind"],
                title=citation["title"],
                planId=citation["plan_id"],
            )
            for citation in citations
        ],
        next=next_call("get_artifact", "Read what cites it.", artifactId=citations[0]["id"])
        if citations
        else next_call("list_active_plans", "List the open plans that could use it."),
    )


def _artifact(row: ArtifactRow, sources: list[SourceRow], args: _GetArtifact) -> Body:
    text = (
        row.content if isinstance(row.content, str) else json.dumps(row.content, ensure_ascii=False)
    )
    most = _MAX_DETAIL_CONTENT_BYTES if args.detail else _MAX_CONTENT_BYTES
    piece: Body = {"content": row.content, "left": 0}
    if args.offset or escaped_size(text) > most:
        cut = truncate(text[args.offset :], most)
        piece = {"content": cut, "left": max(0, len(text) - args.offset - len(cut))}
    views = [
        non_empty(
            sourceId=source.id,
            url=source.url,
            title=source.title,
            quote=source.quote,
            retrievedAt=format_time(source.retrieved_at),
        )
        for source in sources
    ]
    return non_empty(
        artifactId=row.id,
        planId=row.plan_id,
        stepId=row.step_id,
        kind=row.kind,
        title=row.title,
        version=row.version,
        superseded=row.superseded or None,
        tags=row.tags or None,
        **_fit_metadata(row.metadata, views, args),
        createdAt=format_time(row.created_at),
        createdBy=row.created_by,
        earlierVersion=row.earlier,
        laterVersion=row.later,
        **piece,
        next=_next(row.id, row.plan_id, args, piece),
    )


def _fit_metadata(metadata: Json, sources: list[Body], args: _GetArtifact) -> Body:
    """Return metadata and sources up to a size limit, and a call for the rest."""
    if args.offset and not args.detail:
        return {}
    included_sources: list[Body] = []
    left = _MAX_DETAIL_METADATA_BYTES if args.detail else _MAX_METADATA_BYTES
    for source in sources:
        left -= len(json.dumps(source))
        if left < 0:
            break
        included_sources.append(source)
    fits = left > 0 and len(json.dumps(metadata)) <= left
    fields = non_empty(metadata=metadata if fits else None, sources=cast("Json", included_sources))
    if len(included_sources) < len(sources) or (metadata is not None and not fits):
        left_out = sources[len(included_sources) :]
        rest: Body = {"artifactId": args.artifact_id, "detail": True}
        if args.detail and left_out:
            rest = {"artifactId": left_out[0]["sourceId"]}
        why = f"{len(left_out)} sources were left out"
        if not fits and metadata is not None:
            why += ", and the metadata"
        fields["cut"] = next_call("get_artifact", why, **rest)
    return fields


def _next(artifact_id: str, plan_id: str | None, args: _GetArtifact, piece: Body) -> Json:
    if piece["left"]:
        upto = args.offset + len(str(piece["content"]))
        return next_call("get_artifact", "Read the next part.", artifactId=artifact_id, offset=upto)
    # Text stored by a user must not become an argument of a suggested call.
    if plan_id is not None:
        return next_call("get_research_context", "Read the plan it belongs to.", planId=plan_id)
    return next_call("list_active_plans", "List the open plans that could use it.")
