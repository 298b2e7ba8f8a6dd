"""Replaces short ids in arguments by full ids, and full ids in replies by short ids."""

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import is_not
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)
from uuid import UUID

from pydantic import BaseModel

from waybook.app.request.request_context import RequestContext
from waybook.app.request.short_ids import id_not_found, look_up
from waybook.core.short_ids import FULL_LENGTH, LENGTH, IdKind, looks_like_short_id, usual_form
from waybook.json_values import Json
from waybook.store.driver.queries import is_id
from waybook.store.short_ids import ShortIdCache

#: Arguments that contain ids, which may be short.
_ARGUMENT_KINDS: Final = {
    "plan_id": IdKind.PLAN,
    "step_id": IdKind.STEP,
    "step_ids": IdKind.STEP,
    "run_id": IdKind.RUN,
    "job_id": IdKind.JOB,
    "review_id": IdKind.REVIEW,
}
#: Kinds of the ids in the argument `part`. For example, `result:ID` contains a step's id.
PART_KINDS: Final = {
    **dict.fromkeys(
        ("title", "failReason", "dependsOn", "instructions", "resultSchema", "result"), IdKind.STEP
    ),
    **dict.fromkeys(("summary", "questions", "feedback"), IdKind.REVIEW),
}
_JSON_TYPES: Final = frozenset({str, int, float, bool, NoneType})

#: Function that returns the new id for an id. It also gets the kind of id and the argument's name.
_Convert: TypeAlias = Callable[[IdKind, str, str], str]
_ModelT = TypeVar("_ModelT", bound=BaseModel)


class _IdField(NamedTuple):
    """A field that contains ids, or nested objects with ids."""

    name: str
    alias: str
    #: Kind of the ids in the field, if all have the same kind.
    kind: IdKind | None


@cache
def _id_fields(model: type[BaseModel]) -> tuple[_IdField, ...]:
    return tuple(
        _IdField(name, field.alias or name, _ARGUMENT_KINDS.get(name))
        for name, field in model.model_fields.items()
        if _is_id(name) or _has_ids(field.annotation, frozenset())
    )


def _is_id(name: str) -> bool:
    return name == "part" or name in _ARGUMENT_KINDS


def _has_ids(annotation: object, outer: frozenset[object]) -> bool:
    """Return whether a type is or contains a model with ids. `outer` are the models around it."""
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return any(_has_ids(inner, outer) for inner in get_args(annotation))
    return annotation not in outer and any(
        _is_id(name) or _has_ids(field.annotation, outer | {annotation})
        for name, field in annotation.model_fields.items()
    )


def map_ids(args: _ModelT, convert: _Convert, at: str = "") -> _ModelT:
    changed, set_names = {}, args.model_fields_set
    for field in _id_fields(type(args)):
        if field.name in set_names:
            value = getattr(args, field.name)
            mapped = _map(field, value, convert, at)
            if mapped != value:
                changed[field.name] = mapped
    return args.model_copy(update=changed) if changed else args


def _map(field: _IdField, value: object, convert: _Convert, at: str) -> object:
    kind, at = field.kind, f"{at}{field.alias}"
    match value:
        case str() if kind is not None:
            return convert(kind, at, value)
        case str():
            return convert_part(value, partial(_flip, convert, at))
        case [str(), *_] if kind is not None:
            return [convert(kind, at, str(item)) for item in value]
        case BaseModel():
            return map_ids(value, convert, f"{at}.")
        case [BaseModel(), *_]:
            items = cast("list[BaseModel]", value)
            return [map_ids(item, convert, f"{at}.{n}.") for n, item in enumerate(items)]
    return value


def _flip(convert: _Convert, at: str, kind: IdKind, text: str) -> str:
    return convert(kind, at, text)


def convert_part(part: str, convert: Callable[[IdKind, str], str]) -> str:
    """Replace the id in the name of a context's part.

    >>> convert_part("result:1", lambda kind, text: f"{kind}-{text}")
    'result:step-1'
    """
    name, _, text = part.partition(":")
    kind = PART_KINDS.get(name)
    return f"{name}:{convert(kind, text)}" if kind and text else part


def dump_with_short_ids(args: BaseModel, *, exclude: set[str]) -> dict[str, Json]:
    """Return the arguments as JSON with short ids. Both forms of an id give the same JSON."""
    dumped = _dump(args, exclude)
    for field in _id_fields(type(args)):
        value = dumped[field.name]
        if value is None:
            continue
        if field.kind is None or not isinstance(value, str):
            args = map_ids(args, lambda _, __, text: usual_form(text))
            return args.model_dump(mode="json", exclude=exclude)
        # Replacing an id in the JSON is faster than copying the arguments.
        dumped[field.name] = usual_form(value)
    return dumped


def _dump(args: BaseModel, exclude: set[str]) -> dict[str, Json]:
    """Return the arguments as JSON."""
    values = args.__dict__
    for name in _converted_fields(type(args)):
        if values[name] is not None:
            return args.model_dump(mode="json", exclude=exclude)
    return {name: value for name, value in values.items() if name not in exclude}


@cache
def _converted_fields(model: type[BaseModel]) -> tuple[str, ...]:
    fields = model.model_fields.items()
    return tuple(name for name, field in fields if not _is_json(field.annotation))


def _is_json(annotation: object) -> bool:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_json(inner[0])
    if origin is Literal:
        return all(type(choice) in _JSON_TYPES for choice in inner)
    if origin in {Union, UnionType, list}:
        return all(map(_is_json, inner))
    return annotation in {*_JSON_TYPES, Any}


def with_cached_ids(
    org_id: UUID, cache: ShortIdCache, model: type[BaseModel], arguments: Mapping[str, object]
) -> Mapping[str, object]:
    """Replace cached short ids by full ids, before the arguments are validated."""
    full_ids: dict[str, object] = {}
    for _, alias, kind in _id_fields(model):
        text = arguments.get(alias)
        if kind is not None and type(text) is str and LENGTH <= len(text) < FULL_LENGTH:
            full_id = cache.find(org_id, kind, text)
            if full_id is not None:
                full_ids[alias] = full_id
    return {**arguments, **full_ids} if full_ids else arguments


def _has_only_full_ids(args: BaseModel) -> bool:
    """Return whether the arguments contain only full ids."""
    values = args.__dict__
    for name, _, kind in _id_fields(type(args)):
        value = values[name]
        if value is not None and not (
            kind is not None and type(value) is str and len(value) == FULL_LENGTH
        ):
            return False
    return True


async def with_full_ids(ctx: RequestContext, args: _ModelT) -> _ModelT:
    """Return the arguments with full ids. One query finds the ids that are not cached.

    Raises:
        NotFound: an id is mistyped, no object of this org has it, or the object is of another kind.
    """
    if _has_only_full_ids(args):
        return args
    org_id, cache = ctx.caller.org_id, ctx.services.short_ids
    missing: set[tuple[IdKind, str]] = set()

    def resolve_cached(kind: IdKind, _: str, text: str) -> str:
        is_full = len(text) == FULL_LENGTH
        full_id = None if is_full else cache.find(org_id, kind, text)
        if full_id is None and looks_like_short_id(text):
            missing.add((kind, usual_form(text)))
        return full_id or text

    resolved = map_ids(args, resolve_cached)
    if not missing:
        return resolved
    full_ids = await look_up(ctx, missing)
    others = await _kinds_of(ctx, missing - full_ids.keys())

    def resolve(kind: IdKind, at: str, text: str) -> str:
        if not looks_like_short_id(text):
            return text
        full_id = full_ids.get((kind, usual_form(text)))
        if full_id is None:
            raise id_not_found(kind, at, text, others.get(usual_form(text)))
        return full_id

    return map_ids(resolved, resolve)


async def _kinds_of(ctx: RequestContext, unknown: set[tuple[IdKind, str]]) -> dict[str, IdKind]:
    """Return the actual kinds of short ids that do not have the expected kind."""
    if not unknown:
        return {}
    wanted = {(kind, short) for wrong, short in unknown for kind in IdKind if kind is not wrong}
    return {short: kind for kind, short in await look_up(ctx, wanted)}


_REPLY_KINDS: Final = {
    "planId": IdKind.PLAN,
    "stepId": IdKind.STEP,
    "copiedFromStep": IdKind.STEP,
    "stepIds": IdKind.STEP,
    "addedStepIds": IdKind.STEP,
    "skippedStepIds": IdKind.STEP,
    "targetStepId": IdKind.STEP,
    "dependsOn": IdKind.STEP,
    "steps": IdKind.STEP,
    "missing": IdKind.STEP,
    "unknown": IdKind.STEP,
    "repeated": IdKind.STEP,
    "runId": IdKind.RUN,
    "jobId": IdKind.JOB,
    "newJobId": IdKind.JOB,
    "reviewId": IdKind.REVIEW,
}
_URL_FIELDS: Final = frozenset({"reviewUrl", "runUrl"})
_OPAQUE_FIELDS: Final = frozenset(
    {
        "content",
        "data",
        "definition",
        "diff",
        "input",
        "metadata",
        "resultSchema",
        "resultSummary",
        "schema",
        "stepExecutionReport",
    }
)
_CONTAINERS: Final = frozenset({dict, list})
_TEXT_FIELDS: Final = _URL_FIELDS | {"part"}
_PAGE_ID = re.compile(r"/(plans|steps|runs)/([0-9a-f-]{36})\b")

_Shorten: TypeAlias = Callable[[IdKind, str], str]


def shorten_ids(body: dict[str, object], shorten: _Shorten) -> dict[str, object]:
    """Return a reply with short ids. Parts without ids are not copied."""
    changed: dict[str, object] = {}
    for name, inner in body.items():
        # Most texts contain no ids, so they are skipped early.
        if type(inner) is str:
            new: object = inner
            if name in _REPLY_KINDS:
                new = _id(inner, _REPLY_KINDS[name], shorten)
            elif name in _TEXT_FIELDS:
                new = _text(name, inner, shorten)
        elif type(inner) in _CONTAINERS and inner and name not in _OPAQUE_FIELDS:
            new = _container(inner, _REPLY_KINDS.get(name), shorten)
        else:
            continue
        if new is not inner:
            changed[name] = new
    return {**body, **changed} if changed else body


def _container(value: object, kind: IdKind | None, shorten: _Shorten) -> object:
    """Return a dictionary or list with short ids."""
    if isinstance(value, dict):
        return shorten_ids(value, shorten)
    if not isinstance(value, list):
        return value
    if kind is not None and value and isinstance(value[0], str):
        return [_id(item, kind, shorten) if isinstance(item, str) else item for item in value]
    items = [
        _container(item, None, shorten) if type(item) in _CONTAINERS else item for item in value
    ]
    return items if any(map(is_not, items, value)) else value


def _text(name: str, text: str, shorten: _Shorten) -> str:
    if name in _URL_FIELDS:
        return _PAGE_ID.sub(lambda found: _path(found, shorten), text)
    return convert_part(text, lambda k, t: _id(t, k, shorten))


def _id(text: str, kind: IdKind, shorten: _Shorten) -> str:
    return shorten(kind, text) if is_id(text) else text


def _path(found: re.Match[str], shorten: _Shorten) -> str:
    folder, text = found.groups()
    return f"/{folder}/{_id(text, IdKind(folder.removesuffix('s')), shorten)}"
