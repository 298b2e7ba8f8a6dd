"""extract_data: extract structured data from a text according to a JSON Schema."""

import asyncio
import json
import logging
from collections.abc import Iterable
from typing import Annotated, Any, cast

import orjson
from pydantic import Field, WithJsonSchema

from waybook.app.request import arguments as arg
from waybook.app.request.locks.locking import OpenTransaction, Written
from waybook.app.request.reply import MAX_COMPACT_REPLY_BYTES, fit_views, next_call
from waybook.app.request.request_context import RequestContext, not_found, uuid_or_nil
from waybook.app.request.tool import Tool
from waybook.core.decision_context import Scope
from waybook.core.json_check import check_json
from waybook.core.usage import Usage
from waybook.errors import SAME_CALL, EndpointFailed, InvalidInput, NextCall, TooLarge, WaybookError
from waybook.integrations.llm_messages import Model, ModelReply, ModelRequest, extract_json
from waybook.json_values import Body, Json, format_time
from waybook.plan.schema import Mismatch, check_schema, mismatches
from waybook.research.extraction import (
    fence_text,
    label_text,
    model_instructions,
    prompt,
    retry_prompt,
)
from waybook.research.packet import truncate
from waybook.store import calls
from waybook.store.driver.queries import new_uuid
from waybook.store.research import artifacts
from waybook.store.research.artifacts import ArtifactRow


async def _extract_with_model(
    ctx: RequestContext, model: Model, source_text: str, schema: dict[str, Json]
) -> tuple[Json, list[Mismatch], Usage]:
    """Extract data from a text with at most two requests to a model, and record their usage.

    Return the data, the errors in the data, and the usage.

    Raises:
        EndpointFailed: the model gave no usable reply. If the first request succeeded, the details
            of the error contain its usage.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + ctx.services.model_seconds
    instructions = model_instructions(source_text, schema)
    question = ModelRequest(instructions=instructions, text=fence_text(source_text), schema=schema)
    answer = await model.complete(question, seconds=ctx.services.model_seconds)
    data, faults = _validate_reply(answer, schema)
    usage = answer.usage
    try:
        if faults:
            mending = retry_prompt(source_text, answer.text, faults)
            question = ModelRequest(instructions=instructions, text=mending, schema=schema)
            answer = await model.complete(question, seconds=deadline - clock())
            data, faults = _validate_reply(answer, schema)
            usage = usage.plus(answer.usage)
    except EndpointFailed as failed:
        failed.details["usage"] = _usage_view(usage)
        raise
    finally:
        await _record_model_usage(ctx, usage)
    return data, faults, usage


def _validate_reply(reply: ModelReply, schema: dict[str, Json]) -> tuple[Json, list[Mismatch]]:
    data: Json = None
    try:
        data = extract_json(reply.text)
        check_json(data)
        return data, mismatches(data, schema, value="the answer", shape="schema")
    except InvalidInput as refused:
        return data, [Mismatch("$", refused.message)]
    except ValueError:
        cut = "the answer was cut off before its end"
        return data, [Mismatch("$", cut if reply.truncated else "the answer contains no JSON")]


def _usage_view(usage: Usage) -> dict[str, Json]:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "model": usage.model,
    }


log = logging.getLogger(__name__)


async def _record_model_usage(ctx: RequestContext, usage: Usage) -> None:
    """Record the usage of the model. If this fails, only log the failure."""
    try:
        async with OpenTransaction(ctx) as opened:
            statement = calls.SQL["insert_own_usage"](
                **usage._asdict(), id=new_uuid(), at=opened.now, by=ctx.caller.user
            )
            await opened.write(Written([statement]))
    except WaybookError as error:
        log.warning("the usage of the server's model was not recorded: %s", error)


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
    prompt_only: bool = arg.optional("do not use the server's model", default=False)
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
    # The text is sent to the language model that the operator configured.
    open_world=True,
    # A write scope is required although nothing changes, because the operator pays for the model.
    scopes=frozenset({Scope.PLAN_WRITE}),
)
async def extract_data(ctx: RequestContext, args: ExtractData) -> Body:
    """Validate the `candidate` or, without a `candidate`, extract data with the server's model.

    If this is impossible or not wanted, return a prompt for the caller's model.
    """
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
    model = ctx.services.model
    if model is None or args.prompt_only or not source:
        return _by_yourself(source, provenance, schema, args)
    labeled_text = label_text(source, provenance)
    try:
        data, faults, used = await _extract_with_model(ctx, model, labeled_text, schema)
    except EndpointFailed as failed:
        why = "Get the prompt for your own model."
        arguments: Body = {**_which(args), "promptOnly": True}
        raise EndpointFailed(
            f"the endpoint of the server's model gave no usable answer: {failed.message}. Nothing "
            "was written; extract with your own model",
            next_call=NextCall("extract_data", arguments, why),
            **failed.details,
        ) from failed
    usage: Body = {"usage": _usage_view(used)}
    if faults:
        wrong: Body = {"status": "invalid", "errors": _errors(faults)}
        return {**_by_yourself(source, provenance, schema, args), **wrong, **usage}
    return {**_extracted(data, args), **usage}


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
        which |= {"promptOnly": True, "offset": args.offset + len(piece)}
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
