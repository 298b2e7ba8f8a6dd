"""get_artifact: read a stored artifact, whole or piece by piece."""

import json
from typing import Any, cast

from pydantic import Field

from waybook.app.request.arguments import Id, ReadArguments
from waybook.app.request.lookups import id_or_nil
from waybook.app.request.reply import format_time, next_call, non_empty
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import RESEARCH, Tool, output_schema
from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.json_values import Body, Json
from waybook.research.cutting import escaped_size, truncate
from waybook.store.research import artifacts, search

#: Maximum bytes of a piece of the content, and of all other fields.
MAX_CONTENT_BYTES = 30_000
MAX_METADATA_BYTES = 12_000
#: The same where detail is requested.
MAX_DETAIL_CONTENT_BYTES = 120_000
MAX_DETAIL_BESIDE_BYTES = 120_000
MAX_CITATIONS = 20
#: Beyond the end of any content.
MAX_OFFSET = 1_000_000_000


class GetArtifact(ReadArguments):
    artifact_id: Id | None = None
    source_id: Id | None = Field(None, description="instead: one source")
    offset: int = Field(0, ge=0, le=MAX_OFFSET)
    detail: bool = False


async def get_artifact(ctx: RequestContext, args: GetArtifact) -> Body:
    """Return an artifact with its content, or a source with the artifacts that cite it."""
    if (args.artifact_id is None) == (args.source_id is None):
        raise InvalidInput("name one of artifactId and sourceId")
    if args.source_id is not None:
        return await _source(ctx, id_or_nil(args.source_id))
    artifact_id = id_or_nil(args.artifact_id or "")
    rows, sources = await ctx.read(
        artifacts.artifact_statement(artifact_id), search.sources_statement([artifact_id])
    )
    if not rows:
        raise _missing("artifact")
    return _artifact(rows[0], sources, args)


async def _source(ctx: RequestContext, source_id: str) -> Body:
    (rows,) = await ctx.read(artifacts.source_statement(source_id, MAX_CITATIONS))
    if not rows:
        raise _missing("source")
    row_id, url, title, quote, created_at, created_by, retrieved_at, citing = rows[0]
    first = citing[0] if citing else None
    return non_empty(
        sourceId=row_id,
        title=title,
        url=url,
        quote=quote,
        retrievedAt=format_time(retrieved_at),
        createdAt=format_time(created_at),
        createdBy=created_by,
        artifacts=[_citing(citation) for citation in citing or ()],
        next=next_call("get_artifact", "read what was made of it", artifactId=first[0])
        if first
        else next_call("list_active_plans", "see what it may be of use for"),
    )


def _citing(citation: list[Any]) -> Json:
    artifact_id, kind, title, plan_id = citation
    return non_empty(artifactId=artifact_id, kind=kind, title=title, planId=plan_id)


def _artifact(row: tuple[Any, ...], sources: list[tuple[Any, ...]], args: GetArtifact) -> Body:
    artifact_id, plan_id, step_id, kind, title, content, superseded, tags, metadata, *rest = row
    version, created_at, created_by, earlier, later = rest
    piece = _piece(content, args)
    return non_empty(
        artifactId=artifact_id,
        planId=plan_id,
        stepId=step_id,
        kind=kind,
        title=title,
        version=version,
        superseded=superseded or None,
        tags=tags or None,
        **_fit_metadata(metadata, [source_view(row[1:]) for row in sources], args),
        createdAt=format_time(created_at),
        createdBy=created_by,
        earlierVersion=earlier,
        laterVersion=later,
        **piece,
        next=_next(artifact_id, plan_id, args, piece),
    )


def source_view(row: tuple[Any, ...], *, quoted: bool = True) -> Body:
    """Return a source of an artifact."""
    source_id, url, title, quote, retrieved_at = row
    return non_empty(
        sourceId=source_id,
        url=url,
        title=title,
        quote=quote if quoted else None,
        retrievedAt=format_time(retrieved_at),
    )


def _fit_metadata(metadata: Json, sources: list[Body], args: GetArtifact) -> Body:
    """Return metadata and sources as far as they fit; only with the beginning of the content."""
    if args.offset and not args.detail:
        return {}
    included_sources, left = (
        list[Body](),
        MAX_DETAIL_BESIDE_BYTES if args.detail else MAX_METADATA_BYTES,
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
    """Return the arguments that fetch what was left out, or its first source."""
    if args.detail and left_out:
        return {"sourceId": left_out[0]["sourceId"]}
    return {"artifactId": args.artifact_id, "detail": True}


def _piece(content: Json, args: GetArtifact) -> Body:
    """Return the content, or a piece of its text, and the number of characters after it."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    most = MAX_DETAIL_CONTENT_BYTES if args.detail else MAX_CONTENT_BYTES
    if not args.offset and escaped_size(text) <= most:
        return {"content": content, "left": 0}
    piece = truncate(text[args.offset :], most)
    return {"content": piece, "left": max(0, len(text) - args.offset - len(piece))}


def _next(artifact_id: str, plan_id: str | None, args: GetArtifact, piece: Body) -> Json:
    if piece["left"]:
        upto = args.offset + len(str(piece["content"]))
        return next_call("get_artifact", "read on", artifactId=artifact_id, offset=upto)
    # Never with its title: stored user text must not become an argument of a suggested call.
    if plan_id is not None:
        return next_call("get_research_context", "see what it belongs to", planId=plan_id)
    return next_call("list_active_plans", "see what it may be of use for")


def _missing(what: str) -> NotFound:
    return NotFound(
        f"there is no {what} with this id here",
        next_call=NextCall("search_sources", {}, "search for it; what is found has its id"),
    )


TOOL = Tool(
    name="get_artifact",
    title="Read an artifact",
    description="What was stored, with its sources. left: how much follows; read on at offset.",
    arguments=GetArtifact,
    output_schema=output_schema(title="string"),
    run=get_artifact,
    reads_only=True,
    profiles=RESEARCH,
)
