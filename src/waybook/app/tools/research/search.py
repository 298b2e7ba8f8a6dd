"""Search the stored research, and read an artifact whole or piece by piece."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, cast

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from waybook.app.queries.search import MAX_QUERY_LENGTH, read_research_item, search_research
from waybook.app.request import arguments as arg
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool
from waybook.app.tools.research.store_research import visible_line
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.packet import escaped_size, truncate
from waybook.store.driver.queries import Row
from waybook.store.research.artifacts import ArtifactRow
from waybook.store.research.search import Scope

_MAX_DAYS = 36_500


#: Kind or tag to filter by, normalized like the kinds and tags of stored research.
_Filter = Annotated[arg.Id, StringConstraints(strip_whitespace=True), BeforeValidator(visible_line)]


class SearchSources(arg.ReadArguments):
    query: Annotated[str, AfterValidator(lambda text: text[:MAX_QUERY_LENGTH])] = Field(
        min_length=1, description="words or a question"
    )
    plan_id: arg.PlanIdField | None = arg.optional("only of this plan")
    kinds: arg.LenientJson[list[_Filter]] | None = arg.optional(
        "only of these kinds", max_length=20
    )
    tags: arg.LenientJson[list[_Filter]] | None = arg.optional(
        "only with all these tags", max_length=20
    )
    within_days: Annotated[float, Field(ge=0), arg.clamped(0, _MAX_DAYS)] | None = arg.optional(
        "only stored in the last days"
    )
    limit: int = arg.optional("default 10", default=10, ge=1, le=50)
    cursor: arg.Offset = arg.optional("nextCursor of the last reply", default=0)


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
    since, database = None, ctx.services.database
    if args.within_days is not None:
        now = database.now() or await database.read_now(ctx.caller.org_id)
        since = now - timedelta(days=args.within_days)
    scope = Scope(
        plan_id=args.plan_id or None,
        kinds=tuple(args.kinds or ()),
        since=since,
        tags=tuple(args.tags or ()),
    )
    return await search_research(ctx, args.query, scope, limit=args.limit, cursor=args.cursor)


_MAX_CONTENT_BYTES = 30_000
_MAX_METADATA_BYTES = 12_000
_MAX_DETAIL_CONTENT_BYTES = 120_000
_MAX_DETAIL_METADATA_BYTES = 120_000


class _GetArtifact(arg.ReadArguments):
    artifact_id: arg.Id = Field(description="id of an artifact or source")
    offset: arg.Offset = arg.optional("continue at this character", default=0)
    detail: arg.DetailField = False


@Tool(
    title="Read an artifact",
    description=(
        "Read a stored artifact and its sources. left: how much follows; continue at offset."
    ),
    reply={"title": "string"},
    reads_only=True,
)
async def get_artifact(ctx: RequestContext, args: _GetArtifact) -> Body:
    row, sources = await read_research_item(ctx, args.artifact_id)
    if isinstance(row, ArtifactRow):
        return _artifact(row, sources, args)
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


def _artifact(row: ArtifactRow, sources: Sequence[Row], args: _GetArtifact) -> Body:
    text = (
        row.content if isinstance(row.content, str) else json.dumps(row.content, ensure_ascii=False)
    )
    most = _MAX_DETAIL_CONTENT_BYTES if args.detail else _MAX_CONTENT_BYTES
    piece: Body = {"content": row.content, "left": 0}
    if args.offset or escaped_size(text) > most:
        cut = truncate(text[args.offset :], most)
        piece = {"content": cut, "left": max(0, len(text) - args.offset - len(cut))}
    # Text stored by a user must not become an argument of a suggested call.
    following = next_call("list_active_plans", "List the open plans that could use it.")
    if piece["left"]:
        upto = args.offset + len(str(piece["content"]))
        why = "Read the next part."
        following = next_call("get_artifact", why, artifactId=row.id, offset=upto)
    elif row.plan_id is not None:
        why = "Read the plan it belongs to."
        following = next_call("get_research_context", why, planId=row.plan_id)
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
        next=following,
    )


def _fit_metadata(metadata: Json, sources: list[Body], args: _GetArtifact) -> Body:
    """Return metadata and sources up to a size limit, and the call that returns the rest."""
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
