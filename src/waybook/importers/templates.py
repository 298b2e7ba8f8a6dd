"""Plan templates: files in YAML or JSON with the arguments that create a plan.

A placeholder such as `{{ topic }}` is replaced with the value of its parameter.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple, cast

from waybook.dag.definitions.source_text import MAX_BYTES, decode_text, parse_definition
from waybook.errors import InvalidInput, NotFound
from waybook.json_values import Body, Json

MAX_VALUE_LENGTH: Final = 2_000
MAX_NAME_LENGTH: Final = 60
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_REQUIRED: Final = frozenset({"template", "name", "researchQuestion", "steps"})
_OWN_FIELDS: Final = frozenset({"template", "description", "parameters"})
_FIELDS: Final = frozenset(
    {"branchingConditions", "outputFormattingNotes", "stallMinutes", "budget"}
    | {*_REQUIRED, *_OWN_FIELDS}
)
#: Field that contains code, in which placeholders are not allowed.
_CODE_FIELD: Final = "conditionExpression"


class Parameter(NamedTuple):
    name: str
    description: str
    default: str | None = None


class PlanTemplate(NamedTuple):
    """A valid plan template: every placeholder has a parameter, and every parameter is used."""

    document: Body

    @property
    def name(self) -> str:
        return str(self.document["template"])

    @property
    def description(self) -> str:
        return str(self.document.get("description") or "")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        described = cast("Body", self.document.get("parameters") or {})
        parameters = []
        for name, about in described.items():
            fields = about if isinstance(about, dict) else {"description": about}
            default = fields.get("default")
            text = None if default is None else str(default)
            parameters.append(Parameter(name, str(fields.get("description") or ""), text))
        return tuple(parameters)

    @property
    def arguments(self) -> Body:
        return {name: self.document[name] for name in self.document.keys() - _OWN_FIELDS}


def read_template(text: str) -> PlanTemplate:
    """Parse a plan template from YAML or JSON."""
    document = cast("Json", parse_definition(text))
    if not isinstance(document, dict):
        raise InvalidInput("a template must be a mapping with template, parameters, name and steps")
    unknown = ", ".join(sorted(document.keys() - _FIELDS))
    missing = ", ".join(sorted(_REQUIRED - document.keys()))
    if unknown or missing:
        wrong = [f"unknown fields: {unknown}"] * bool(unknown)
        wrong += [f"missing fields: {missing}"] * bool(missing)
        raise InvalidInput(f"this template has {'; '.join(wrong)}")
    template = PlanTemplate(document)
    if not _NAME.fullmatch(template.name) or len(template.name) > MAX_NAME_LENGTH:
        raise InvalidInput(
            f"“{template.name}” cannot name a template; use lower-case letters, digits and hyphens"
        )
    if not isinstance(document.get("parameters") or {}, dict):
        raise InvalidInput("parameters must be a mapping from names to descriptions")
    _check_placeholders(template)
    return template


def _check_placeholders(template: PlanTemplate) -> None:
    used: set[str] = set()

    def note(text: str, field: str) -> str:
        names = _PLACEHOLDER.findall(text)
        if names and field == _CODE_FIELD:
            raise InvalidInput(f"{field} cannot contain placeholders: {text}")
        used.update(names)
        return text

    _with_texts(template.arguments, note)
    declared = {parameter.name for parameter in template.parameters}
    if used - declared:
        raise InvalidInput(
            f"declare the placeholders as parameters: {', '.join(sorted(used - declared))}"
        )
    if declared - used:
        raise InvalidInput(f"remove the unused parameters: {', '.join(sorted(declared - used))}")


def _with_texts(value: Json, change: Callable[[str, str], str], field: str = "") -> Json:
    """Return a copy of JSON in which each text is replaced by `change(text, field)`."""
    if isinstance(value, str):
        return change(value, field)
    if isinstance(value, dict):
        return {name: _with_texts(inner, change, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_texts(inner, change, field) for inner in value]
    return value


def fill_template(template: PlanTemplate, values: Mapping[str, str]) -> Body:
    """Return the arguments that create a plan from a template with these parameter values."""
    known = {parameter.name: parameter.default or "" for parameter in template.parameters}
    unknown = ", ".join(sorted(values.keys() - known.keys()))
    if unknown:
        there = ", ".join(known) or "none"
        raise InvalidInput(
            f"the template {template.name} has no parameter {unknown}; its parameters: {there}"
        )
    all_values = {**known, **values}
    missing = [name for name, value in all_values.items() if not value.strip()]
    if missing:
        options = " ".join(f"--set {name}=…" for name in missing)
        raise InvalidInput(f"the template {template.name} needs: {options}")
    for name, value in all_values.items():
        if len(value) > MAX_VALUE_LENGTH:
            raise InvalidInput(f"the value of {name} has more than {MAX_VALUE_LENGTH} characters")
    filled = _with_texts(
        template.arguments,
        lambda text, _: _PLACEHOLDER.sub(lambda match: all_values[match[1]], text),
    )
    return cast("Body", filled)


@cache
def builtin_templates() -> Mapping[str, PlanTemplate]:
    return templates_in(files("waybook.importers") / "builtin")


def templates_in(folder: Traversable) -> Mapping[str, PlanTemplate]:
    """Return the templates in a folder by name. The folder may be missing."""
    templates: dict[str, PlanTemplate] = {}
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name.endswith(".yaml"):
            try:
                with file.open("rb") as stream:
                    data = stream.read(MAX_BYTES + 1)
            except OSError as error:
                reason = f"the template {file.name} cannot be read: {error.strerror}"
                raise InvalidInput(reason) from error
            template = read_template(decode_text(data))
            templates[template.name] = template
    return dict(sorted(templates.items()))


def find_template(name: str, templates: Mapping[str, PlanTemplate]) -> PlanTemplate:
    if name not in templates:
        raise NotFound(f"there is no template {name}; there are: {', '.join(sorted(templates))}")
    return templates[name]
