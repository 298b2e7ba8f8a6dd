"""Names of tool arguments: all arguments, those that take an id, and those that take any text."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from waybook.app.registry import TOOLS


def arguments_of(tool: str) -> dict[str, str]:
    """Return the names of a tool's arguments, each with its name in the source code."""
    return {str(f.alias): name for name, f in TOOLS[tool].arguments.model_fields.items()}


def ids_within(
    arguments: type[BaseModel], outer: frozenset[type[BaseModel]] = frozenset()
) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all arguments that take an id, nested arguments included.

    Names of sessions and models are not ids, because callers choose them. `outer` contains the
    types that enclose the arguments, to end the recursion: steps may contain conditions, which may
    contain steps.
    """
    for name, field in arguments.model_fields.items():
        if name.endswith(("_id", "_ids")) and name not in {"session_id", "model_id"}:
            yield (str(field.alias),)
        for inner in _models(field.annotation):
            if inner not in outer:
                within = ids_within(inner, outer | {inner})
                yield from ((str(field.alias), *path) for path in within)


def names_within(
    arguments: type[BaseModel], outer: frozenset[type[BaseModel]] = frozenset()
) -> Iterator[str]:
    """Yield the names of all arguments that take any text, nested arguments included."""
    for field in arguments.model_fields.values():
        inner = list(_models(field.annotation))
        for model in inner:
            if model not in outer:
                yield from names_within(model, outer | {model})
        if not inner and any(part in {str, Any} for part in _parts(field.annotation)):
            yield str(field.alias)


def _parts(annotation: object) -> Iterator[object]:
    if not get_args(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
