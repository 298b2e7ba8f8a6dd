"""get_artifact: read a stored artifact, whole or piece by piece."""

import json
from typing import cast

from pydantic import Field

from waybook.app.request.arguments import DetailField, Id, Offset, ReadArguments
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.app.request.tool import Tool, output_schema
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.cutting import escaped_size, truncate
from waybook.store.research import artifacts, search
from waybook.store.research.artifacts import ArtifactRow, CitedSourceRow
from waybook.store.research.search import SourceRow

MAX_CONTENT_BYTES = 30_000
MAX_METADATA_BYTES = 12_000
MAX_DETAIL_CONTENT_BYTES = 120_000
MAX_DETAIL_METADATA_BYTES = 120_000
MAX_CITATIONS = 20


class GetArtifact(ReadArguments):
    artifact_id: Id = Field(description="id of an artifact or source")
    offset: Offset = Field(default=0, description="continue at this character")
    detail: DetailField = False


async def get_artifact(ctx: RequestContext, args: GetArtifact) -> Body:
    """Return an artifact with its content, or a source with the artifacts that cite it."""
    artifact_id = id_or_nil(args.artifact_id)
    rows, sources, as_source = await ctx.read(
        artifacts.artifact_statement(artifact_id),
        search.sources_statement([artifact_id]),
        artifacts.source_statement(artifact_id, MAX_CITATIONS),
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
        artifacts=[_citing(citation) for citation in citations],
        next=next_call("get_artifact", "Read what cites it.", artifactId=citations[0]["id"])
        if citations
        else next_call("list_active_plans", "List the open plans that could use it."),
    )


def _citing(citation: dict[str, Json]) -> Json:
    artifact_id, plan_id = citation["id"], citation["plan_id"]
    kind, title = citation["kind"], citation["title"]
    return non_empty(artifactId=artifact_id, kind=kind, title=title, planId=plan_id)


def _artifact(row: ArtifactRow, sources: list[SourceRow], args: GetArtifact) -> Body:
    piece = _piece(row.content, args)
    return non_empty(
        artifactId=row.id,
        planId=row.plan_id,
        stepId=row.step_id,
        kind=row.kind,
        title=row.title,
        version=row.version,
        superseded=row.superseded or None,
        tags=row.tags or None,
        **_fit_metadata(row.metadata, [_source_view(source) for source in sources], args),
        createdAt=format_time(row.created_at),
        createdBy=row.created_by,
        earlierVersion=row.earlier,
        laterVersion=row.later,
        **piece,
        next=_next(row.id, row.plan_id, args, piece),
    )


def _source_view(source: SourceRow) -> Body:
    return non_empty(
        sourceId=source.id,
        url=source.url,
        title=source.title,
        quote=source.quote,
        retrievedAt=format_time(source.retrieved_at),
    )


def _fit_metadata(metadata: Json, sources: list[Body], args: GetArtifact) -> Body:
    """Return metadata and sources up to a size limit, and a call for the rest."""
    if args.offset and not args.detail:
        return {}
    included_sources, left = (
        list[Body](),
        MAX_DETAIL_METADATA_BYTES if args.detail else MAX_METADATA_BYTES,
    )
    for source in sources:
        left -= len(json.dumps(source))
        if left < 0:
            break
        included_sources.append(source)
    fits = left > 0 and len(json.dumps(metadata)) <= left
    fields = non_empty(metadata=metadata if fits else None, sources=cast("Json", included_sources))
    if len(included_sources) < len(sources) or (metadata is not None and not fits):
        fields["cut"] = next_call(
            "get_artifact",
            f"{len(sources) - len(included_sources)} sources were left out"
            + ("" if fits or metadata is None else ", and the metadata"),
            **_build_fetch_args(sources[len(included_sources) :], args),
        )
    return fields


def _build_fetch_args(left_out: list[Body], args: GetArtifact) -> Body:
    if args.detail and left_out:
        return {"artifactId": left_out[0]["sourceId"]}
    return {"artifactId": args.artifact_id, "detail": True}


def _piece(content: Json, args: GetArtifact) -> Body:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    most = MAX_DETAIL_CONTENT_BYTES if args.detail else MAX_CONTENT_BYTES
    if not args.offset and escaped_size(text) <= most:
        return {"content": content, "left": 0}
    piece = truncate(text[args.offset :], most)
    return {"content": piece, "left": max(0, len(text) - args.offset - len(piece))}


def _next(artifact_id: str, plan_id: str | None, args: GetArtifact, piece: Body) -> Json:
    if piece["left"]:
        upto = args.offset + len(str(piece["content"]))
        return next_call("get_artifact", "Read the next part.", artifactId=artifact_id, offset=upto)
    # Text stored by a user must not become an argument of a suggested call.
    if plan_id is not None:
        return next_call("get_research_context", "Read the plan it belongs to.", planId=plan_id)
    return next_call("list_active_plans", "List the open plans that could use it.")


TOOL = Tool(
    name="get_artifact",
    title="Read an artifact",
    description=(
        "Read a stored artifact and its sources. left: how much follows; continue at offset."
    ),
    arguments=GetArtifact,
    output_schema=output_schema(title="string"),
    run=get_artifact,
    reads_only=True,
)
