"""JSON Schemas for tools, made small: every byte of a tool list is paid for by every model."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from waybook.usecases.arguments import Arguments

#: What a schema keeps. Titles, defaults and lengths are left to the error messages.
KEPT = frozenset(
    {"type", "properties", "required", "items", "enum", "description", "minimum", "maximum"}
)


def input_schema(arguments: type[Arguments]) -> dict[str, object]:
    """The schema of a tool's arguments: no references, no unions, no titles."""
    full = arguments.model_json_schema(schema_generator=GenerateJsonSchema)
    small = _small(full, full.get("$defs", {}))
    return {"type": "object", "properties": {}, **small}


def output_schema(*required: str, **properties: str) -> dict[str, object]:
    """The schema of a reply: its fields by their JSON type; `any` for what varies."""
    return {
        "type": "object",
        "properties": {name: _typed(kind) for name, kind in properties.items()},
        "required": list(required),
    }


def _typed(kind: str) -> dict[str, object]:
    if kind == "any":
        return {}
    if kind == "array":
        return {"type": "array", "items": {}}
    return {"type": kind}


def _small(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    schema = _plain(schema, defs)
    small = {key: value for key, value in schema.items() if key in KEPT}
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
        found = defs[schema["$ref"].rsplit("/", 1)[1]]
        return _plain({**found, **{k: v for k, v in schema.items() if k != "$ref"}}, defs)
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    if options:
        beside = {k: v for k, v in schema.items() if k != "anyOf"}
        return _plain({**_plain(options[0], defs), **beside}, defs)
    return schema
