"""The definition of a tool, and compact JSON Schemas for tool lists.

Schemas are small, because the tool list costs tokens in every conversation.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from waybook.app.request.arguments import ToolArguments
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.core.decision_context import Scope

#: JSON Schema keywords in published schemas, all of which the model APIs accept.
PUBLISHED_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "items", "enum", "description"),
        *("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"),
        *("minProperties", "maxProperties"),
    }
)
#: Highest published `maxLength`; programs that turn a schema into a grammar refuse a higher one.
MAX_PUBLISHED_LENGTH = 500


def input_schema(arguments: type[ToolArguments]) -> dict[str, object]:
    """Return the JSON Schema of a tool's arguments."""
    full = arguments.model_json_schema(schema_generator=GenerateJsonSchema)
    small = _small({**full, "description": None}, full.get("$defs", {}))
    return {"type": "object", "properties": {}, **small}


def output_schema(**always: str) -> dict[str, object]:
    """Return the JSON Schema of a reply: the fields that it always has, with their types."""
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
    small: dict[str, Any] = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in schema.items()
        if key in PUBLISHED_KEYWORDS and value is not None
    }
    if small.get("maxLength", 0) > MAX_PUBLISHED_LENGTH:
        del small["maxLength"]
    if "properties" in small:
        small["properties"] = {
            name: _small(inner, defs) for name, inner in small["properties"].items()
        }
        optional = small["properties"].keys() - {*small.get("required", ())}
        for name in () if "minProperties" in small else optional:
            # A blank text stands for an absent optional argument.
            small["properties"][name].pop("minLength", None)
    if small.get("type") == "array":
        small["items"] = _small(schema.get("items", {}), defs)
    return small


def _plain(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        definition = {**defs[schema["$ref"].rsplit("/", 1)[1]], "description": None}
        overrides = {k: v for k, v in schema.items() if k != "$ref"}
        return _plain({**definition, **overrides}, defs)
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    if options:
        overrides = {k: v for k, v in schema.items() if k != "anyOf"}
        return _plain({**_plain(options[0], defs), **overrides}, defs)
    return schema


PLAN = frozenset({"research"})
RUNS = frozenset({"runs"})
#: Administration tools are offered only in the profile with all tools.
ADMIN = frozenset[str]()
PLAN_READ = frozenset({Scope.PLAN_READ})
PLAN_WRITE = frozenset({Scope.PLAN_WRITE})
RUN_WRITE = frozenset({Scope.RUN_WRITE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    output_schema: dict[str, object]
    run: Callable[[RequestContext, Any], Awaitable[ToolReply]]
    reads_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    profiles: frozenset[str] = PLAN
    logged: bool = True
    #: The caller needs at least one of the listed scopes. If empty, the default scopes apply.
    scopes: frozenset[Scope] = frozenset()

    @property
    def required_scopes(self) -> frozenset[Scope]:
        if self.scopes:
            return self.scopes
        if self.reads_only:
            return PLAN_READ
        return RUN_WRITE if self.profiles == RUNS else PLAN_WRITE

    @property
    def input_schema(self) -> dict[str, object]:
        return input_schema(self.arguments)
