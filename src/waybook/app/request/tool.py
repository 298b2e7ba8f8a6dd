"""The definition of a tool, and compact JSON Schemas for tool lists.

Schemas are small, because the tool list costs tokens in every conversation.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from waybook.app.request.arguments import ToolArguments
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.core.decision_context import Scope

#: JSON Schema keywords in published schemas, all of which the model APIs accept.
_PUBLISHED_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "items", "enum", "description"),
        *("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"),
        *("minProperties", "maxProperties"),
    }
)
#: Highest published `maxLength`; programs that turn a schema into a grammar refuse a higher one.
_MAX_PUBLISHED_LENGTH = 500


def input_schema(arguments: type[ToolArguments]) -> dict[str, object]:
    full = arguments.model_json_schema(schema_generator=GenerateJsonSchema)
    small = _small({**full, "description": None}, full.get("$defs", {}))
    return {"type": "object", "properties": {}, **small}


def _small(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    schema = _plain(schema, defs)
    small: dict[str, Any] = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in schema.items()
        if key in _PUBLISHED_KEYWORDS and value is not None
    }
    if small.get("maxLength", 0) > _MAX_PUBLISHED_LENGTH:
        del small["maxLength"]
    if "properties" in small:
        small["properties"] = {
            name: _small(inner, defs) for name, inner in small["properties"].items()
        }
        optional = small["properties"].keys() - {*small.get("required", ())}
        for name in () if "minProperties" in small else optional:
            # Allow a blank text, because some clients send one for an absent optional argument.
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
WORK = frozenset({"work"})
#: Administration tools belong to no profile, so only the complete tool list contains them.
ADMIN = frozenset[str]()


@dataclass(slots=True, kw_only=True, eq=False)
class Tool:
    """MCP tool. As a decorator, it takes its name and arguments from the decorated function."""

    title: str
    #: Text from which a model learns when and how to call the tool.
    description: str
    #: Fields that every reply has, with their JSON types.
    reply: Mapping[str, str]
    reads_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    profiles: frozenset[str] = PLAN
    logged: bool = True
    #: The caller needs one of these scopes. The default follows from `profiles` and `reads_only`.
    scopes: frozenset[Scope] = frozenset()
    name: str = field(init=False)
    arguments: type[ToolArguments] = field(init=False)
    run: Callable[[RequestContext, Any], Awaitable[ToolReply]] = field(init=False)

    def __post_init__(self) -> None:
        if not self.scopes:
            writes = Scope.RUN_WRITE if self.profiles == RUNS else Scope.PLAN_WRITE
            self.scopes = frozenset({Scope.PLAN_READ if self.reads_only else writes})

    def __call__(self, run: Callable[[RequestContext, Any], Awaitable[ToolReply]]) -> "Tool":
        self.name = run.__name__
        _, self.arguments, _ = run.__annotations__.values()
        self.run = run
        return self

    @property
    def input_schema(self) -> dict[str, object]:
        return input_schema(self.arguments)

    @property
    def output_schema(self) -> dict[str, object]:
        properties = {
            name: {"type": kind, **({"items": {}} if kind == "array" else {})}
            for name, kind in self.reply.items()
        }
        return {"type": "object", "properties": properties, "required": list(self.reply)}
