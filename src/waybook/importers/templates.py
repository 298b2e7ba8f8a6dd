"""Plan templates in YAML or JSON.

A placeholder such as `{{ topic }}` is replaced by its parameter's value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, cast

import yaml

from waybook.dag.definitions.source_text import parse_definition
from waybook.errors import InvalidInput, NotFound
from waybook.json_values import Body, Json

MAX_VALUE_LENGTH: Final = 2_000
MAX_NAME_LENGTH: Final = 60
SUFFIX: Final = ".yaml"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PARAMETER: Final = re.compile(r"[a-z][a-z0-9_]*")
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_OWN_FIELDS: Final = frozenset({"template", "description", "parameters"})
_PLAN_FIELDS: Final = frozenset(
    {"name", "researchQuestion", "steps", "branchingConditions", "outputFormattingNotes"}
    | {"stallMinutes", "budget"}
)
#: This field contains code, in which placeholders are not allowed.
_CODE_FIELD: Final = "conditionExpression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    description: str
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTemplate:
    """A plan template. Every placeholder has a parameter, and every parameter is used."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    arguments: Body


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise InvalidInput(
            f"“{name}” cannot name a template; use lower-case letters, digits and hyphens"
        )
    return name


def read_template(text: str) -> PlanTemplate:
    """Parse a plan template from YAML or JSON.

    Raises:
        BadRecipe: the text is neither YAML nor JSON; the error names the line.
        InvalidInput: a field is missing or unknown, or a placeholder has no parameter.
    """
    data = parse_definition(text)
    if not isinstance(data, dict):
        raise InvalidInput("a template must be a mapping with template, parameters, name and steps")
    unknown = data.keys() - _OWN_FIELDS - _PLAN_FIELDS
    missing = {"template", "name", "researchQuestion", "steps"} - data.keys()
    if unknown or missing:
        wrong = f"unknown fields: {', '.join(sorted(unknown))}" if unknown else ""
        absent = f"missing fields: {', '.join(sorted(missing))}" if missing else ""
        raise InvalidInput(f"this template has {'; '.join(filter(None, (wrong, absent)))}")
    parameters = tuple(_parameters(data.get("parameters")))
    arguments = cast("Body", {name: data[name] for name in data.keys() & _PLAN_FIELDS})
    _check_placeholders(arguments, {parameter.name for parameter in parameters})
    return PlanTemplate(
        name=check_name(str(data["template"])),
        description=str(data.get("description") or ""),
        parameters=parameters,
        arguments=arguments,
    )


def _parameters(data: object) -> Iterator[Parameter]:
    if data is None:
        return
    if not isinstance(data, dict):
        raise InvalidInput("parameters must be a mapping from names to descriptions")
    for name, about in data.items():
        if not _PARAMETER.fullmatch(name):
            raise InvalidInput(f"“{name}” cannot name a parameter; use a name such as topic")
        fields = about if isinstance(about, dict) else {"description": about}
        default = fields.get("default")
        yield Parameter(
            name=name,
            description=str(fields.get("description") or ""),
            default=None if default is None else str(default),
        )


def _check_placeholders(arguments: Body, declared: set[str]) -> None:
    used: set[str] = set()
    for field, text in _texts(arguments):
        names = _PLACEHOLDER.findall(text)
        if names and field == _CODE_FIELD:
            raise InvalidInput(f"{field} cannot contain placeholders: {text}")
        used.update(names)
    if used - declared:
        raise InvalidInput(
            f"declare the placeholders as parameters: {', '.join(sorted(used - declared))}"
        )
    if declared - used:
        raise InvalidInput(f"remove the unused parameters: {', '.join(sorted(declared - used))}")


def _texts(value: Json, field: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, field)


def fill_template(template: PlanTemplate, values: Mapping[str, str]) -> Body:
    """Return the arguments that create a plan from a template with these parameter values.

    Raises:
        InvalidInput: a value is missing or too long, or a name is not a parameter.
    """
    known = {parameter.name: parameter for parameter in template.parameters}
    unknown = values.keys() - known.keys()
    if unknown:
        there = ", ".join(known) or "none"
        raise InvalidInput(
            f"the template {template.name} has no parameter {', '.join(sorted(unknown))}; "
            f"its parameters: {there}"
        )
    defaults = {name: p.default for name, p in known.items() if p.default is not None}
    all_values = {**defaults, **values}
    missing = [name for name in known if not all_values.get(name, "").strip()]
    if missing:
        options = " ".join(f"--set {name}=…" for name in missing)
        raise InvalidInput(f"the template {template.name} needs: {options}")
    for name, value in all_values.items():
        if len(value) > MAX_VALUE_LENGTH:
            raise InvalidInput(f"the value of {name} has more than {MAX_VALUE_LENGTH} characters")
    return cast("Body", _filled(template.arguments, all_values))


def _filled(value: Json, values: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: values[match[1]], value)
    if isinstance(value, dict):
        return {name: _filled(inner, values) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    return value


def write_template(name: str, description: str, arguments: Body, values: Mapping[str, str]) -> str:
    """Make a template from a plan. Each given value becomes a placeholder.

    Raises:
        InvalidInput: a value does not occur in the plan, or the plan already contains placeholders.
    """
    if any(_PLACEHOLDER.search(text) for _, text in _texts(arguments)):
        raise InvalidInput("this plan contains {{ … }}, which a template would replace")
    # Replace the longest value first, because a shorter value may be a part of it.
    ordered = sorted(values.items(), key=lambda item: -len(item[1]))
    for parameter, value in ordered:
        if not _PARAMETER.fullmatch(parameter) or not value.strip():
            raise InvalidInput(f"write a parameter like topic=rivers, not {parameter}={value}")
        if not any(value in text for field, text in _texts(arguments) if field != _CODE_FIELD):
            raise InvalidInput(f"“{value}”, the value of {parameter}, does not occur in the plan")
    parameters = tuple(Parameter(name=p, description=f"such as {v}") for p, v in values.items())
    filled = cast("Body", _parameterized(arguments, ordered))
    return template_source(
        PlanTemplate(
            name=check_name(name),
            description=description,
            parameters=parameters,
            arguments=filled,
        )
    )


def template_source(template: PlanTemplate) -> str:
    document = {
        "template": template.name,
        "description": template.description,
        "parameters": {
            p.name: {"description": p.description, **({"default": p.default} if p.default else {})}
            for p in template.parameters
        },
        **template.arguments,
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=96)


def _parameterized(value: Json, ordered: list[tuple[str, str]], field: str = "") -> Json:
    if isinstance(value, str) and field != _CODE_FIELD:
        return _replaced(value, ordered)
    if isinstance(value, dict):
        return {name: _parameterized(inner, ordered, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_parameterized(inner, ordered, field) for inner in value]
    return value


def _replaced(text: str, ordered: list[tuple[str, str]]) -> str:
    if not ordered:
        return text
    names = {value: parameter for parameter, value in ordered}
    pattern = re.compile("|".join(re.escape(value) for _, value in ordered))
    return pattern.sub(lambda match: "{{ " + names[match[0]] + " }}", text)


@cache
def builtin_templates() -> Mapping[str, PlanTemplate]:
    folder = files("waybook.importers") / "builtin"
    texts = [file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(SUFFIX)]
    templates = [read_template(text) for text in texts]
    return {template.name: template for template in sorted(templates, key=lambda t: t.name)}


def find_template(name: str, saved: Mapping[str, PlanTemplate]) -> PlanTemplate:
    there = {**builtin_templates(), **saved}
    if name not in there:
        raise NotFound(f"there is no template {name}; there are: {', '.join(sorted(there))}")
    return there[name]
