"""extract_data: extract structured data from a text according to a JSON Schema."""

import json
from collections.abc import Iterable
from typing import Annotated, Any, cast

import orjson
from pydantic import Field, WithJsonSchema

from waybook.app.request import arguments as arg
from waybook.app.request.reply import MAX_COMPACT_REPLY_BYTES, fit_views, next_call
from waybook.app.request.request_context import RequestContext, not_found, uuid_or_nil
from waybook.app.request.tool import Tool
from waybook.errors import SAME_CALL, InvalidInput, NextCall, TooLarge
from waybook.json_values import Body, Json, format_time
from waybook.plan.schema import Mismatch, check_schema, mismatches
from waybook.research.extraction import (
    label_text,
    prompt,
)
from waybook.research.packet import truncate
from waybook.store.research import artifacts
from waybook.store.research.artifacts import ArtifactRow

#: Maximum bytes, in this order: the schema, the errors in a reply, the other fields of a reply.
MAX_SCHEMA_BYTES = 20_000
_MAX_ERROR_BYTES = 8_000
_REPLY_OVERHEAD = 4_000
_MAX_TITLE_LENGTH = 200


class ExtractData(arg.ReadArguments):
    text: str | None = arg.optional("text to read")
    artifact_id: arg.Id | None = arg.optional("artifact to read, if there is no text")
    wanted: arg.SchemaJson = Field(alias="schema", description="JSON Schema, or the data in words")
    candidate: Annotated[Any, WithJsonSchema({"type": "string"})] = arg.optional(
        "your JSON data, to validate it"
    )
    offset: arg.Offset = arg.optional("continue at this character", default=0)
    detail: arg.DetailField = False


@Tool(
    title="Extract data",
    description=(
        "Extract data by a schema from a text or artifact. status do_it_yourself: follow the "
        "prompt and call again with candidate."
    ),
    reply={"status": "string"},
    reads_only=True,
)
async def extract_data(ctx: RequestContext, args: ExtractData) -> Body:
    """Validate the `candidate` or, without one, return a prompt for the caller's model."""
    check_schema(args.wanted, "schema")
    schema = args.wanted
    if not isinstance(schema, dict):
        raise InvalidInput("schema must not be null", argument="schema")
    size = len(orjson.dumps(schema))
    if size > MAX_SCHEMA_BYTES:
        raise TooLarge(
            f"schema has {size:,} bytes, and the limit is {MAX_SCHEMA_BYTES:,}; ask for less at a "
            "time",
            argument="schema",
            limit=MAX_SCHEMA_BYTES,
        )
    source, provenance = await _read_source(ctx, args)
    if args.candidate is not None:
        faults: list[Mismatch] = []
        # A candidate that is a text may be the data itself, or contain the data as JSON.
        for candidate in (args.candidate, cast("Json", arg.decode(args.candidate))):
            faults = mismatches(candidate, schema, value="candidate", shape="schema")
            if not faults:
                return _extracted(candidate, args)
        why = "Fix the listed errors and call again with the corrected candidate."
        following_call = next_call("extract_data", why, **_which(args))
        return {"status": "invalid", "errors": _errors(faults), "next": following_call}
    return _by_yourself(source, provenance, schema, args)


async def _read_source(ctx: RequestContext, args: ExtractData) -> tuple[str, Body | None]:
    """Return the text from the offset on. For an artifact, also return where it comes from."""
    if args.artifact_id is not None and not args.text:
        statement = artifacts.SQL["artifact"](artifact_id=uuid_or_nil(args.artifact_id))
        (rows,) = await ctx.read(statement)
        if not rows:
            raise not_found("artifact")
        row: ArtifactRow = rows[0]
        about: Body = {
            "artifactId": row.id,
            "kind": row.kind,
            "title": row.title[:_MAX_TITLE_LENGTH],
            "storedBy": row.created_by,
            "storedAt": format_time(row.created_at),
        }
        text = row.content
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False)
        return text[args.offset :], about
    return (args.text or "")[args.offset :], None


def _extracted(data: Json, args: ExtractData) -> Body:
    size = len(orjson.dumps(data))
    limit = MAX_COMPACT_REPLY_BYTES - _REPLY_OVERHEAD
    if size > limit and not args.detail:
        raise TooLarge(
            f"the data has {size:,} bytes, and a reply at most {limit:,}; ask for less in the "
            "schema, or set detail",
            limit=limit,
            next_call=NextCall("extract_data", {"detail": True}, f"{SAME_CALL}, with detail."),
        )
    why = "Submit the data in your step's result."
    return {"status": "extracted", "data": data, "next": next_call("submit_step_result", why)}


def _by_yourself(
    source: str, provenance: Body | None, schema: dict[str, Json], args: ExtractData
) -> Body:
    """Return a prompt with which the caller's own model can extract the data."""
    room = MAX_COMPACT_REPLY_BYTES - _REPLY_OVERHEAD - _MAX_ERROR_BYTES - len(orjson.dumps(schema))
    piece = truncate(source, room)
    left, which = len(source) - len(piece), _which(args)
    why = "Give the prompt to your own model, then send its JSON as candidate."
    if left:
        why = f"{left:,} characters are left: extract from the next part."
        which |= {"offset": args.offset + len(piece)}
    return {
        "status": "do_it_yourself",
        "prompt": prompt(label_text(piece, provenance)),
        "schema": schema,
        "left": left,
        "next": next_call("extract_data", why, **which),
    }


def _which(args: ExtractData) -> Body:
    return {"artifactId": args.artifact_id} if args.artifact_id else {}


def _errors(faults: Iterable[Mismatch]) -> Json:
    views: list[Json] = [{"path": fault.path, "message": fault.message} for fault in faults]
    return fit_views(views, _MAX_ERROR_BYTES)
