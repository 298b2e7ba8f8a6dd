"""Checks values against a JSON Schema, and reports each error with its position.

A fast check tests many values at once. If it fails, a slower check looks for the errors. Only the
keywords that the published schemas use are supported.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice
from types import NoneType
from typing import Any, cast

from waybook.dag.diagnostics import Diagnostic

Schema = Mapping[str, Any]
Check = Callable[[object], Sequence[Diagnostic]]

MAX_ERRORS = 100
_MAX_QUOTE_LENGTH = 60

_KINDS: Mapping[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    bool: "boolean",
    NoneType: "null",
}
_WORDS: Mapping[str, str] = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
    "number": "a number with a fraction",
    "something else": "something else",
}


def compile_check(schema: Schema, *, strict: bool = True) -> Check:
    """Return a checking function. Unknown properties are errors only if `strict` is set."""
    return partial(_Checker(schema.get("$defs", {}), strict=strict).check, schema)


class _Checker:
    def __init__(self, named: Mapping[str, Schema], *, strict: bool) -> None:
        self._named = named
        self._strict = strict

    def check(self, schema: Schema, value: object) -> Sequence[Diagnostic]:
        return () if self._are_valid(schema, [value]) else self._errors(schema, value, "")

    def _resolved(self, schema: Schema) -> tuple[Schema, Sequence[str]]:
        if "$ref" in schema:
            schema = self._named[schema["$ref"].removeprefix("#/$defs/")]
        kinds = schema["type"]
        return schema, [kinds] if isinstance(kinds, str) else kinds

    def _are_valid(self, schema: Schema, values: Sequence[object]) -> bool:
        """Return False if a value is invalid, or of a type that only the slower check accepts."""
        schema, kinds = self._resolved(schema)
        for kind in (present := set(map(type, values))):
            if _KINDS.get(kind) not in kinds:
                return False
            some = values if len(present) == 1 else [v for v in values if type(v) is kind]
            if kind is dict:
                valid = self._are_valid_objects(
                    schema, cast("Sequence[Mapping[str, object]]", some)
                )
            elif kind is list:
                valid = self._are_valid_lists(schema, cast("Sequence[Sequence[object]]", some))
            elif kind is str and "enum" not in schema:
                valid = _are_valid_texts(schema, set(cast("Sequence[str]", some)))
            else:
                valid = not any(_scalar_error(schema, value) for value in set(some))
            if not valid:
                return False
        return True

    def _are_valid_objects(self, schema: Schema, objects: Sequence[Mapping[str, object]]) -> bool:
        properties, required = schema["properties"], schema.get("required", ())
        if self._strict and not properties.keys() >= set(chain.from_iterable(objects)):
            return False
        for name, inner in properties.items():
            column = [fields[name] for fields in objects if name in fields]
            if len(column) < len(objects) and name in required:
                return False
            if not self._are_valid(inner, column):
                return False
        return True

    def _are_valid_lists(self, schema: Schema, lists: Sequence[Sequence[object]]) -> bool:
        sizes = range(schema.get("minItems", 0), schema["maxItems"] + 1)
        return all(size in sizes for size in set(map(len, lists))) and self._are_valid(
            schema["items"], list(chain.from_iterable(lists))
        )

    def _errors(self, schema: Schema, value: object, at: str) -> Sequence[Diagnostic]:
        schema, kinds = self._resolved(schema)
        kind = _kind_of(value)
        if kind not in kinds:
            wanted = " or ".join(_WORDS[name] for name in kinds)
            return [Diagnostic("bad_form", at, f"must be {wanted}, not {_WORDS[kind]}")]
        if isinstance(value, dict):
            return self._object_errors(schema, value, at)
        if isinstance(value, list):
            return self._list_errors(schema, value, at)
        message = _scalar_error(schema, value)
        name = schema.get("x-fault", "bad_form")
        return [Diagnostic(name, at, message)] if message else ()

    def _object_errors(
        self, schema: Schema, fields: Mapping[str, object], at: str
    ) -> Sequence[Diagnostic]:
        properties = schema["properties"]
        missing = [name for name in schema.get("required", ()) if name not in fields]
        errors = [Diagnostic("bad_form", at, f"{name!r} is missing") for name in missing]
        for name, inner in fields.items():
            if name in properties:
                errors += self._errors(properties[name], inner, f"{at}.{name}")
        unknown = (name for name in fields if self._strict and name not in properties)
        for name in islice(unknown, MAX_ERRORS):
            near = _did_you_mean(name, properties)
            message = f"there is no property {_quoted(name)} here{near}"
            errors.append(Diagnostic("bad_form", at, message))
        return errors

    def _list_errors(
        self, schema: Schema, items: Sequence[object], at: str
    ) -> Sequence[Diagnostic]:
        least, most = schema.get("minItems", 0), schema["maxItems"]
        if len(items) < least:
            message = f"must have at least {least:,} items, not {len(items):,}"
            return [Diagnostic(schema.get("x-fault", "bad_form"), at, message)]
        if len(items) > most:
            message = f"must have at most {most:,} items, not {len(items):,}"
            return [Diagnostic("bad_form", at, message)]
        errors: list[Diagnostic] = []
        for place, item in enumerate(items):
            errors += self._errors(schema["items"], item, f"{at}[{place}]")
            if len(errors) > MAX_ERRORS:
                break
        return errors


def _are_valid_texts(schema: Schema, texts: set[str]) -> bool:
    together, refused = "".join(texts), schema.get("not", {}).get("pattern")
    sizes = range(schema.get("minLength", 0), schema["maxLength"] + 1)
    return (
        all(size in sizes for size in set(map(len, texts)))
        and not (refused and re.search(refused, together))
        and not _is_broken(together)
    )


def _scalar_error(schema: Schema, value: object) -> str | None:
    if isinstance(value, str) and "enum" in schema:
        choices = schema["enum"]
        message = f"{_quoted(value)} is not one of {', '.join(choices)}"
        return None if value in choices else message + _did_you_mean(value, choices)
    if isinstance(value, str):
        return _text_error(schema, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most = schema["minimum"], schema["maximum"]
        return None if least <= value <= most else f"must be between {least:,} and {most:,}"
    return None


def _text_error(schema: Schema, text: str) -> str | None:
    if len(text) < schema.get("minLength", 0):
        return "must not be empty"
    if len(text) > schema["maxLength"]:
        return f"has {len(text):,} characters; at most {schema['maxLength']:,} are allowed"
    if "not" in schema and re.search(schema["not"]["pattern"], text):
        return "contains a control character, which is not allowed"
    if _is_broken(text):
        return "contains half a character (a lone surrogate); send well-formed Unicode"
    return None


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _kind_of(value: object) -> str:
    kind = _KINDS.get(type(value))
    if kind is None and isinstance(value, float):
        kind = "integer" if value.is_integer() else "number"
    return kind or "something else"


def _quoted(value: object) -> str:
    if not isinstance(value, str):
        return _WORDS[_kind_of(value)]
    return repr(value if len(value) <= _MAX_QUOTE_LENGTH else f"{value[:_MAX_QUOTE_LENGTH]}…")


def _did_you_mean(value: object, known: Iterable[str]) -> str:
    if not isinstance(value, str):
        return ""
    spelt = {_plain(name): name for name in known}
    near = get_close_matches(_plain(value[:_MAX_QUOTE_LENGTH]), spelt, n=1)
    return f"; did you mean {spelt[near[0]]!r}?" if near else ""


def _plain(name: str) -> str:
    return re.sub("[-_ ]", "", name.casefold())
