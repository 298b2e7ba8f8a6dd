"""Converts validated arguments to JSON."""

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from waybook.json_values import Json

_JSON_TYPES: Final = frozenset({str, int, float, bool, NoneType})


def dump_arguments(args: BaseModel, *, exclude: set[str]) -> dict[str, Json]:
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
