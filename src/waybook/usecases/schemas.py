"""JSON Schemas for tools, made small: every byte of a tool list is paid for by every model."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from waybook.usecases.arguments import ToolArguments

#: What a schema keeps. Titles, defaults and limits are left to the error messages.
KEPT_KEYWORDS = frozenset({"type", "properties", "required", "items", "enum", "description"})


def input_schema(arguments: type[ToolArguments]) -> dict[str, object]:
    """The schema of a tool's arguments: no references, no unions, no titles."""
    full = arguments.model_json_schema(schema_generator=GenerateJsonSchema)
    small = _small({**full, "description": None}, full.get("$defs", {}))
    return {"type": "object", "properties": {}, **small}


def output_schema(**always: str) -> dict[str, object]:
    """The schema of a reply: the fields it always has, by their JSON type.

    What else a reply holds its own `next` and the tool's description tell.
    """
    return {
        "type": "object",
        "properties": {name: _typed(kind) for name, kind in always.items()},
        "required": list(always),
    }


def _typed(kind: str) -> dict[str, object]:
    if kind == "array":
        return {"type": "array", "items": {}}
    return {"type": kind}


def _small(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    schema = _plain(schema, defs)
    small = {
        key: value for key, value in schema.items() if key in KEPT_KEYWORDS and value is not None
    }
    if "properties" in small:
        small["properties"] = {
            name: _small(inner, defs) for name, inner in small["properties"].items()
        }
    if small.get("type") == "array":
        small["items"] = _small(schema.get("items", {}), defs)
    return small


def _plain(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """The schema without its references, and without the null of an optional value."""
    if "$ref" in schema:
        found = {**defs[schema["$ref"].rsplit("/", 1)[1]], "description": None}
        beside = {k: v for k, v in schema.items() if k != "$ref"}
        return _plain({**found, **beside}, defs)
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    if options:
        beside = {k: v for k, v in schema.items() if k != "anyOf"}
        return _plain({**_plain(options[0], defs), **beside}, defs)
    return schema
