"""Tool arguments: their types and their validation.

Arguments are accepted in the forms that clients really send: arrays and objects that arrive as JSON
text are decoded, and null or a blank text for an optional argument means that it is absent. Any
other mismatch is rejected before the call has any effect, with an error that names the argument.
"""

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from math import isfinite
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
from pydantic_core import PydanticCustomError

from waybook.app.request.argument_errors import refusal
from waybook.errors import InvalidInput, TooLarge

MAX_RESULT = 256 * 1024
MAX_BODY = 1024 * 1024
MAX_DEPTH = 64
MAX_INT = 2**63 - 1


def is_blank(value: object) -> bool:
    """Return whether a value is a text without visible characters."""
    return isinstance(value, str) and (not value or value.isspace())


def refuse_blank(text: str) -> str:
    """Return the text; reject a text that consists of whitespace."""
    if is_blank(text):
        raise PydanticCustomError("blank", "must not be blank")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]
Line = Annotated[
    str, StringConstraints(min_length=1, max_length=2_000), AfterValidator(refuse_blank)
]
Text = Annotated[
    str, StringConstraints(min_length=1, max_length=20_000), AfterValidator(refuse_blank)
]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
PlanIdField = Annotated[Id, Field(description="the plan")]
StepIdField = Annotated[Id, Field(description="the step")]
RunIdField = Annotated[Id, Field(description="the run")]
StageSlugField = Annotated[Id, Field(description="slug of the stage")]
DetailField = Annotated[bool, Field(description="long form")]
#: Attempt number of a step or job, limited to the range of its database column.
Attempt = Annotated[int, Field(ge=0, lt=2**31)]
Minutes = Annotated[float, Field(gt=0, le=43_200)]


def decode(value: object) -> object:
    """Decode an array or object that arrived as JSON text; return other values unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return value
        check_json(decoded)
        return decoded
    return value


def refuse_boolean(value: object) -> object:
    """Return the value; reject a boolean, which Python would treat as 0 or 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "must be a number, not true or false")
    return value


#: Integer inside a list argument, where a boolean is refused. For numeric fields that are not in a
#: list, `ToolArguments` refuses booleans.
WholeNumber = Annotated[int, BeforeValidator(refuse_boolean)]

T = TypeVar("T")


def _check_text(text: str) -> int:
    if "\0" in text:
        raise InvalidInput(
            "a text holds a NUL character (\\u0000), which cannot be kept; remove it"
        )
    if text.isascii():
        return len(text) + 2
    try:
        return len(text.encode()) + 2
    except UnicodeEncodeError:
        raise InvalidInput(
            "a text holds half a character (a lone surrogate); send well-formed Unicode"
        ) from None


def _bounded(size: int) -> int:
    """Return the size of a call's arguments if it is within the limit.

    Raises:
        TooLarge: the size exceeds the limit of a call.
    """
    if size > MAX_BODY:
        raise TooLarge(
            f"the arguments are more than {MAX_BODY:,} bytes; at most {MAX_BODY:,} are taken",
            limit=MAX_BODY,
        )
    return size


def check_json(value: object, depth: int = 0) -> int:
    """Return the rough size of a JSON value in bytes; reject values that cannot be stored.

    Raises:
        InvalidInput: the value has NUL characters, lone surrogates, numbers beyond 64 bits, or too
            deep a nesting.
        TooLarge: the size exceeds the limit of a call.
    """
    if depth > MAX_DEPTH:
        raise InvalidInput(
            f"the arguments are nested more than {MAX_DEPTH} levels deep", limit=MAX_DEPTH
        )
    if isinstance(value, dict):
        # Names and texts are checked as one text. Names count with quotes, texts also with commas.
        texts = [inner for inner in value.values() if type(inner) is str]
        others = [inner for inner in value.values() if type(inner) is not str]
        size = _check_text("".join([*value, *texts])) + 2 * len(value) + 4 * len(texts)
        for inner in others:
            size += 2 + check_json(inner, depth + 1)
        return _bounded(size)
    if isinstance(value, list):
        size = 2
        for inner in value:
            # Long lists consist mostly of small integers, which need no further check.
            is_small = type(inner) is int and -MAX_INT <= inner <= MAX_INT
            size += 9 if is_small else check_json(inner, depth + 1) + 1
        return _bounded(size)
    return _check_text(value) if isinstance(value, str) else _check_scalar(value)


def _check_scalar(value: object) -> int:
    if type(value) is int and not -MAX_INT <= value <= MAX_INT:
        raise InvalidInput("a whole number goes beyond 64 bits; send it as a text")
    if type(value) is float and not isfinite(value):
        raise InvalidInput("a number is not finite (NaN, Infinity or beyond 1e308)")
    return 8


#: Argument with a structure (list or object) that a client may also send as a string of JSON text.
LenientJson = Annotated[T, BeforeValidator(decode)]
#: Argument that may be any JSON value, and that a client may also send as a string of JSON text.
#: The published schema declares it as a string, because some clients and model APIs refuse a schema
#: without a type, with a union of types, or with an object without properties.
AnyJson = Annotated[Any, BeforeValidator(decode), WithJsonSchema({"type": "string"})]


class ToolArguments(BaseModel):
    """Arguments of a tool."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=AliasGenerator(alias=to_camel),
        arbitrary_types_allowed=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans_for_numbers(cls, value: object, info: ValidationInfo) -> object:
        # The type of the field is looked up only for booleans, because the lookup takes time.
        if type(value) is bool and _takes_number(cls, str(info.field_name)):
            return refuse_boolean(value)
        return value


class Nested(ToolArguments):
    """Object nested inside the arguments of a tool."""

    @model_validator(mode="before")
    @classmethod
    def _omit_absent(cls, value: object) -> object:
        return _without_absent(cls, value) if isinstance(value, dict) else value


class ReadArguments(ToolArguments):
    """Arguments of a read-only tool; a session id is accepted, but the tool's schema omits it."""

    session_id: SkipJsonSchema[Id | None] = None


class SessionArguments(ToolArguments):
    """Arguments of a tool whose behavior depends on the caller's session."""

    session_id: Id | None = Field(default=None, description="one per conversation")


class MutatingArguments(SessionArguments):
    idempotency_key: Id | None = Field(
        default=None,
        description="retries count once",
    )


def _spellings(kind: type[BaseModel], names: Iterable[str]) -> frozenset[str]:
    """Return all names that clients may use for these arguments, such as camelCase spellings."""
    aliases = (str(kind.model_fields[name].alias) for name in names)
    return frozenset((*names, *aliases))


@cache
def _optional_names(kind: type[BaseModel]) -> frozenset[str]:
    """Return all names that clients may use for the optional arguments of a tool."""
    fields = kind.model_fields.items()
    return _spellings(kind, [name for name, field in fields if not field.is_required()])


@cache
def _optional_texts(kind: type[BaseModel]) -> frozenset[str]:
    """Return all names that clients may use for a tool's optional arguments with text values."""
    texts = [
        name
        for name, field in kind.model_fields.items()
        if not field.is_required() and _takes_text(field.annotation, field.metadata)
    ]
    return _spellings(kind, texts)


def _takes_text(annotation: object, metadata: Iterable[object] = ()) -> bool:
    """Return whether clients send values of this type as strings, as they do choices and times."""
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


def _takes_number(kind: type[BaseModel], field: str) -> bool:
    """Return whether this field of a tool's arguments accepts numbers but not booleans."""
    taken = {*_types(kind.model_fields[field].annotation)}
    return not taken.isdisjoint({int, float}) and taken.isdisjoint({bool, Any})


def _types(annotation: object) -> Iterator[object]:
    inner = get_args(annotation)
    if not inner and isinstance(annotation, Hashable):
        yield annotation
    for part in inner:
        yield from _types(part)


Arguments: TypeAlias = Mapping[str, object]
ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


def _without_absent(kind: type[ToolArguments], arguments: Arguments) -> Arguments:
    """Return the arguments without optional ones that are null or blank, as some clients send."""
    # As `is_blank`, without a call for each argument.
    unset = [
        name
        for name, inner in arguments.items()
        if inner is None or (type(inner) is str and (not inner or inner.isspace()))
    ]
    if not unset:
        return arguments
    optional, texts = _optional_names(kind), _optional_texts(kind)
    absent = {name for name in unset if name in (optional if arguments[name] is None else texts)}
    return {name: inner for name, inner in arguments.items() if name not in absent}


def parse_arguments(kind: type[ArgumentsT], arguments: Mapping[str, object]) -> ArgumentsT:
    """Return the validated arguments of a tool call.

    Raises:
        InvalidInput: the arguments do not match the tool's schema. TooLarge: the arguments exceed a
            limit.
    """
    _checked(kind, arguments)
    try:
        return kind.model_validate(_without_absent(kind, arguments))
    except ValidationError as error:
        raise refusal(_names(kind), error) from None


def _checked(kind: type[ToolArguments], arguments: Mapping[str, object]) -> int:
    """Return the rough size of all arguments; reject an argument that cannot be stored.

    Raises:
        InvalidInput: an argument cannot be stored.
    """
    try:
        return check_json(dict(arguments))
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
    """Raise an error if one of the given results of a step is too large.

    Raises:
        TooLarge: a result exceeds the limit of a step.
    """
    for name, value in values.items():
        # The value was checked before; its size is at most 4.5 times that of its JSON.
        if len(orjson.dumps(value)) <= MAX_RESULT // 5:
            continue
        size = check_json(value)
        if size > MAX_RESULT:
            raise TooLarge(
                f"{name} is about {size:,} bytes, at most {MAX_RESULT:,} are kept with a step; "
                "submit a summary",
                argument=name,
                limit=MAX_RESULT,
            )


def _names(kind: type[ToolArguments]) -> list[str]:
    """Return the names of a tool's arguments."""
    return sorted(str(field.alias) for field in kind.model_fields.values())
