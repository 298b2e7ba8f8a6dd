"""Types and validation of tool arguments.

Clients may send an array or object as JSON text. A blank text counts as an absent argument if the
argument is optional.
"""

import asyncio
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import orjson
from pydantic import (
    AfterValidator,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from waybook.app.request.request_context import CLAIM_JOB, LIST_PLANS, LIST_WORKFLOWS
from waybook.core.ids import IdKind, is_mistyped, normalize_id
from waybook.core.json_check import check_json, is_plain_if_small, is_plain_json, is_small
from waybook.errors import InvalidInput, NotFound, TooLarge
from waybook.run.model import MAX_MODELS

MAX_RESULT = 256 * 1024
#: Maximum number of arguments that are validated. Every tool has fewer.
_MAX_ARGUMENTS = 100
_UNKNOWN_ID = "unknown_id"


def is_blank(value: object) -> bool:
    return isinstance(value, str) and (not value or value.isspace())


#: A required text that consists of spaces is replaced with this text. To refuse it, the
#: schema would need a `pattern`, and some clients do not accept a `pattern`.
BLANK = "(blank)"


def fill_blank(value: object) -> object:
    return BLANK if isinstance(value, str) and value.isspace() else value


_MAX_TEXT_LENGTH = 20_000
#: Longer than every id and slug, so a text that was cut to this length cannot be a valid id.
_MAX_ID_LENGTH = 201


Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True),
    BeforeValidator(fill_blank),
]
Text = Annotated[
    str, StringConstraints(min_length=1, max_length=_MAX_TEXT_LENGTH), BeforeValidator(fill_blank)
]
#: Id or slug. Every text is accepted here. The later lookup reports an id that does not exist.
Id = Annotated[str, AfterValidator(lambda text: text[:_MAX_ID_LENGTH])]
#: Session id or idempotency key. The caller chooses the text.
Key = Annotated[str, StringConstraints(min_length=1)]


def _refuse_mistyped(kind: IdKind, text: str) -> str:
    usual = normalize_id(text)
    if is_mistyped(usual):
        raise PydanticCustomError(_UNKNOWN_ID, "{id}", {"kind": kind, "id": text})
    return usual


def _check_id(kind: IdKind) -> AfterValidator:
    return AfterValidator(partial(_refuse_mistyped, kind))


def _normalize_part(part: str) -> str:
    name, colon, text = part.partition(":")
    return f"{name}{colon}{normalize_id(text)}"


PlanIdField = Annotated[Id, _check_id(IdKind.PLAN), Field(description="the plan")]
StepIdField = Annotated[Id, _check_id(IdKind.STEP), Field(description="the step")]
RunIdField = Annotated[Id, _check_id(IdKind.RUN), Field(description="the run")]
JobIdField = Annotated[Id, _check_id(IdKind.JOB), Field(description="id of the job")]
ReviewIdField = Annotated[Id, _check_id(IdKind.REVIEW)]
#: Name of a part of a context, such as `result:ID`.
PartField = Annotated[Id, AfterValidator(_normalize_part)]
StageSlugField = Annotated[Id, Field(description="slug of the stage")]
DetailField = Annotated[bool, Field(description="return everything")]


def optional(description: str, default: Any = None, **limits: Any) -> Any:  # noqa: ANN401 - as Field
    """Describe an argument that need not be given."""
    return Field(default=default, description=description, **limits)


def clamped(low: int, high: int) -> AfterValidator:
    """Return a validator that replaces a number outside of the limits by the nearer limit."""
    return AfterValidator(lambda number: min(max(number, low), high))


#: Position in a text, list or audit. A negative number is the beginning; a number that is too large
#: for the database is lowered, but still lies after the last position.
Offset = Annotated[int, clamped(0, 2**30)]
#: Attempt of a step or job. A number that is too large for the database is lowered to a number that
#: no attempt has.
Attempt = Annotated[int, clamped(0, 2**31 - 1)]
Minutes = Annotated[float, Field(ge=0.01, allow_inf_nan=False), clamped(0, 43_200)]


def decode(value: object) -> object:
    """Decode an array or object that arrived as JSON text. Other values stay unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if not is_plain_json(decoded):
            check_json(decoded)
        return decoded
    return value


def refuse_boolean(value: object) -> object:
    """Reject a boolean where a number is expected. Python would treat it as 0 or 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "must be a number, not true or false")
    return value


T = TypeVar("T")


LenientJson = Annotated[T, BeforeValidator(decode)]
ListOf = Annotated[list[T], BeforeValidator(decode)]
#: Names of the models of a stage.
Models = LenientJson[Annotated[list[Name], Field(min_length=1, max_length=MAX_MODELS)]]
#: Any JSON value. The published schema says string, because some clients refuse a schema without a
#: type.
AnyJson = Annotated[Any, BeforeValidator(decode), WithJsonSchema({"type": "string"})]


def _describe_in_words(value: object) -> object:
    """Return a JSON Schema unchanged. Turn a description in words into a schema for any value."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        raise PydanticCustomError("json", "must be valid JSON, or a description in words")
    return {"description": value}


#: JSON Schema, or a description of the value in words. A text that begins like JSON must be JSON.
SchemaJson = Annotated[
    Any,
    BeforeValidator(decode),
    AfterValidator(_describe_in_words),
    WithJsonSchema({"type": "string"}),
]


def _refuse_nothing(value: object) -> object:
    if value is None or value == "":
        raise PydanticCustomError("blank", "must not be empty")
    return value


#: Like `AnyJson`, but neither null nor an empty text.
SomeJson = Annotated[
    Any,
    BeforeValidator(decode),
    AfterValidator(_refuse_nothing),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


class ToolArguments(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=AliasGenerator(alias=to_camel),
        arbitrary_types_allowed=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans_for_numbers(cls, value: object, info: ValidationInfo) -> object:
        # The field's type is looked up only for booleans, because the lookup takes time.
        if type(value) is bool and _takes_number(cls, str(info.field_name)):
            return refuse_boolean(value)
        return value


class Nested(ToolArguments):
    @model_validator(mode="before")
    @classmethod
    def _omit_absent(cls, value: object) -> object:
        return without_absent(cls, value) if isinstance(value, dict) else value


class ReadArguments(ToolArguments):
    """Arguments of a read-only tool. A session id is accepted, but is not in the schema."""

    session_id: SkipJsonSchema[Key | None] = None


class SessionArguments(ToolArguments):
    session_id: Key | None = Field(default=None, description="one per conversation")


class MutatingArguments(SessionArguments):
    idempotency_key: Key | None = Field(default=None, description="retries count once")


class WorkerArguments(MutatingArguments):
    """Arguments of tools that programs call, not models: the schema omits session and key."""

    session_id: SkipJsonSchema[Key | None] = None
    idempotency_key: SkipJsonSchema[Key | None] = None


@cache
def _optional_arguments(kind: type[BaseModel]) -> Mapping[str, bool]:
    """Return, by name and alias, whether each optional argument takes a text."""
    return {
        spelling: _takes_text(field.annotation, field.metadata)
        for name, field in kind.model_fields.items()
        if not field.is_required()
        for spelling in (name, str(field.alias))
    }


def _takes_text(annotation: object, metadata: Iterable[object] = ()) -> bool:
    """Return whether clients send values of this type as strings."""
    if any(isinstance(each, WithJsonSchema) for each in metadata):
        return WithJsonSchema({"type": "string"}) in metadata
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _takes_text(inner[0], inner[1:])
    if origin in {Union, UnionType}:
        return any(map(_takes_text, inner))
    if origin is Literal:
        return all(isinstance(choice, str) for choice in inner)
    return isinstance(annotation, type) and issubclass(annotation, (str, datetime))


@cache
def _takes_number(kind: type[BaseModel], field: str) -> bool:
    taken = {*_types(kind.model_fields[field].annotation)}
    return not taken.isdisjoint({int, float}) and taken.isdisjoint({bool, Any})


def _types(annotation: object) -> Iterator[object]:
    inner = get_args(annotation)
    if not inner and isinstance(annotation, Hashable):
        yield annotation
    for part in inner:
        yield from _types(part)


Arguments: TypeAlias = Mapping[str, object]
_ArgumentsT = TypeVar("_ArgumentsT", bound=ToolArguments)


def without_absent(kind: type[ToolArguments], arguments: Arguments) -> Arguments:
    """Remove optional arguments that are null or blank, because some clients send them."""
    # This repeats the code of `is_blank`, because a function call per argument takes time.
    unset = [
        name
        for name, inner in arguments.items()
        if inner is None or (type(inner) is str and (not inner or inner.isspace()))
    ]
    if not unset:
        return arguments
    takes_text = _optional_arguments(kind)
    absent = {
        name
        for name in unset
        if name in takes_text and (arguments[name] is None or takes_text[name])
    }
    return {name: inner for name, inner in arguments.items() if name not in absent}


def parse_arguments(
    kind: type[_ArgumentsT], arguments: Mapping[str, object], *, small: bool = False
) -> _ArgumentsT:
    # Parse no more than the limit: among so many arguments, one is unknown, which is an error.
    limited = dict(islice(arguments.items(), _MAX_ARGUMENTS))
    try:
        parsed = kind.model_validate(without_absent(kind, limited))
    except ValidationError as error:
        refused = refusal(_names(kind), error)
        # If a text or list is too long, do not check its content, because that would take long.
        if not isinstance(refused, TooLarge):
            _check(kind, arguments)
        raise refused from None
    except RecursionError:
        # The values are nested too deeply. `_check` raises an error that says so.
        _check(kind, arguments)
        raise
    if not (small and is_plain_if_small(arguments)):
        _check(kind, arguments)
    return parsed


async def parse_large_arguments(
    kind: type[_ArgumentsT], arguments: Mapping[str, object]
) -> _ArgumentsT:
    """Parse arguments like `parse_arguments`, but in another thread if they are large.

    Parsing a megabyte would block all other calls for a tenth of a second.
    """
    if is_small(arguments):
        return parse_arguments(kind, arguments, small=True)
    return await asyncio.to_thread(parse_arguments, kind, arguments)


def _check(kind: type[ToolArguments], arguments: Mapping[str, object]) -> None:
    try:
        check_json(dict(arguments))
    except TooLarge:
        raise
    except InvalidInput as error:
        for name in _names(kind):
            with suppress(InvalidInput):
                check_json(arguments.get(name), 1)
                continue
            error.details["argument"] = name
            break
        raise


def check_result_size(**values: object) -> None:
    for name, value in values.items():
        size = len(value.encode() if isinstance(value, str) else orjson.dumps(value))
        if size > MAX_RESULT:
            raise TooLarge(
                f"{name} has {size:,} bytes, and the limit for a step is {MAX_RESULT:,}; "
                "submit a summary",
                argument=name,
                limit=MAX_RESULT,
            )


def _names(kind: type[ToolArguments]) -> list[str]:
    return sorted(str(field.alias) for field in kind.model_fields.values())


_MAX_FAULTS = 10
MAX_NAME_LENGTH = 100


def refusal(names: Sequence[str], fault: ValidationError) -> InvalidInput | NotFound:
    """Return the error for invalid arguments. `names` are the arguments that the tool accepts."""
    # Report an unknown argument first, because it may be the misspelled name of a missing one.
    # Report unknown ids last.
    errors = fault.errors(include_url=False)
    errors.sort(key=lambda e: (e["type"] == _UNKNOWN_ID, e["type"] != "extra_forbidden"))
    faults = [_fault(names, error) for error in errors[:_MAX_FAULTS]]
    limits = [
        e["ctx"]["max_length"] for e in errors if e["type"] in {"string_too_long", "too_long"}
    ]
    first = faults[0]
    if all(error["type"] == _UNKNOWN_ID for error in errors):
        context = errors[0]["ctx"]
        return id_not_found(context["kind"], first["at"].rstrip(".0123456789"), context["id"])
    more = f" (and {fault.error_count() - 1} more)" if fault.error_count() > 1 else ""
    message = f"{first['at']}: {first['fault']}{more}"
    if limits:
        return TooLarge(message, faults=faults, limit=limits[0])
    return InvalidInput(message, faults=faults)


_NEXT_CALLS = {IdKind.RUN: LIST_WORKFLOWS, IdKind.JOB: CLAIM_JOB}


def id_not_found(kind: IdKind, at: str, text: str, other: str | None = None) -> NotFound:
    """Return the error for an id that no object of this kind has.

    If an object of another kind has the id, `other` is that kind.
    """
    problem = f"there is no {kind} '{text.strip()}' here; check it for typos"
    if other is not None:
        problem = f"'{text.strip()}' is the id of a {other}, not of a {kind}"
    return NotFound(
        f"{at}: {problem}; copy the id from a reply",
        next_call=_NEXT_CALLS.get(kind, LIST_PLANS),
        argument=at,
    )


_ERROR_TEXT = {
    "missing": "is missing",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
_LIMIT_ERRORS = {
    "too_short": ("must have at least {} items", "min_length"),
    "too_long": ("must have at most {} items", "max_length"),
    "string_too_long": ("must have at most {} characters", "max_length"),
    "greater_than": ("must be more than {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be less than {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
}


def _fault(names: Sequence[str], error: ErrorDetails) -> dict[str, str]:
    at = ".".join(str(part)[:MAX_NAME_LENGTH] for part in error["loc"]) or "arguments"
    kind, text = error["type"], error["msg"].removeprefix("Value error, ")
    message = _ERROR_TEXT.get(kind, text.replace("Input should be", "must be", 1))
    if kind in _LIMIT_ERRORS:
        template, limit = _LIMIT_ERRORS[kind]
        message = template.format(error.get("ctx", {}).get(limit))
    if kind == "extra_forbidden":
        known = f"; this tool accepts {', '.join(names)}" if len(error["loc"]) == 1 else ""
        message = f"unknown argument{known}"
    return {"at": at, "fault": message}
