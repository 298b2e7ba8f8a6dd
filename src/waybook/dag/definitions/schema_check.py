"""Compiles a JSON Schema to checks that report each error with its position.

It supports only the keywords that the published schemas use.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from types import NoneType
from typing import cast

from waybook.dag.definitions.schema_batch import compile_batch_check, is_broken
from waybook.dag.diagnostics import Diagnostic

Schema = Mapping[str, object]
Check = Callable[[object], Sequence[Diagnostic]]

MAX_ERRORS = 100
_MAX_QUOTE_LENGTH = 60

_NO_DIAGNOSTICS: Sequence[Diagnostic] = ()

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
    named = cast("Mapping[str, Schema]", schema.get("$defs", {}))
    batch = compile_batch_check(schema, strict=strict)
    slow = _Forms(named, {}, strict).check_of(schema)
    # The slow check, which finds the errors, runs only if the fast check fails.
    return lambda value: _NO_DIAGNOSTICS if batch([value]) else slow(value)


@dataclass(frozen=True, slots=True)
class _Forms:
    named: Mapping[str, Schema]
    known: dict[str, Check]
    strict: bool

    def check_of(self, schema: Schema) -> Check:
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix("#/$defs/")
            if name not in self.known:
                self.known[name] = self.check_of(self.named[name])
            return self.known[name]
        makers: Mapping[str, Callable[[Schema], Check]] = {
            "object": self._object_check,
            "array": self._list_check,
            "string": _text_check,
            "integer": _number_check,
        }
        declared = schema["type"]
        kinds = [declared] if isinstance(declared, str) else cast("Sequence[str]", declared)
        checks = {
            kind: makers[kind](schema) if kind in makers else lambda _: _NO_DIAGNOSTICS
            for kind in kinds
        }
        return partial(_check_kind, checks)

    def _object_check(self, schema: Schema) -> Check:
        properties = cast("Mapping[str, Schema]", schema["properties"])
        checks = {name: self.check_of(inner) for name, inner in properties.items()}
        required = cast("Sequence[str]", schema.get("required", ()))
        return partial(_check_object, checks, required, strict=self.strict)

    def _list_check(self, schema: Schema) -> Check:
        least = cast("int", schema.get("minItems", 0))
        most = cast("int", schema["maxItems"])
        error = str(schema.get("x-fault", "bad_form"))
        inner = self.check_of(cast("Schema", schema["items"]))
        return partial(_check_list, inner, range(least, most + 1), error)


def _kind_of(value: object) -> str:
    kind = _KINDS.get(type(value))
    if kind is None and isinstance(value, float):
        kind = "integer" if value.is_integer() else "number"
    return kind or "something else"


def _check_kind(checks: Mapping[str, Check], value: object) -> Sequence[Diagnostic]:
    kind = _KINDS.get(type(value)) or _kind_of(value)
    if kind in checks:
        return checks[kind](value)
    wanted = " or ".join(_WORDS[name] for name in checks)
    return [_fault(f"must be {wanted}, not {_WORDS[kind]}")]


def _check_object(
    checks: Mapping[str, Check], required: Sequence[str], value: object, *, strict: bool
) -> Sequence[Diagnostic]:
    fields = cast("Mapping[str, object]", value)
    faults = [_fault(f"{name!r} is missing") for name in required if name not in fields]
    unknown = []
    for name, inner in fields.items():
        if name not in checks:
            unknown.append(name)
        elif diagnostics := checks[name](inner):
            faults += _inside(f".{name}", diagnostics)
    if strict:
        faults += [
            _fault(f"there is no property {_quoted(name)} here{_did_you_mean(name, checks)}")
            for name in unknown[:MAX_ERRORS]
        ]
    return faults


def _check_list(inner: Check, sizes: range, empty: str, value: object) -> Sequence[Diagnostic]:
    items = cast("Sequence[object]", value)
    if len(items) < sizes.start:
        return [_fault(f"must have at least {sizes.start:,}, not {len(items):,}", empty)]
    if len(items) not in sizes:
        return [_fault(f"must have at most {sizes.stop - 1:,}, not {len(items):,}")]
    faults: list[Diagnostic] = []
    for place, item in enumerate(items):
        if diagnostics := inner(item):
            faults += _inside(f"[{place}]", diagnostics)
            if len(faults) > MAX_ERRORS:
                break
    return faults


def _text_check(schema: Schema) -> Check:
    if "enum" in schema:
        choices = cast("Sequence[str]", schema["enum"])
        return partial(_check_choice, choices, str(schema.get("x-fault", "bad_form")))
    least, most = cast("int", schema.get("minLength", 0)), cast("int", schema["maxLength"])
    refused = cast("Mapping[str, str]", schema.get("not", {})).get("pattern")
    return partial(_check_text, range(least, most + 1), re.compile(refused) if refused else None)


def _check_text(
    sizes: range, refused: re.Pattern[str] | None, value: object
) -> Sequence[Diagnostic]:
    text = cast("str", value)
    if len(text) not in sizes:
        if not text:
            return [_fault("must not be empty")]
        return [_fault(f"has {len(text):,} characters; at most {sizes.stop - 1:,} are allowed")]
    if refused and refused.search(text):
        return [_fault("contains a control character, which is not allowed")]
    if not text.isascii() and is_broken(text):
        return [_fault("contains half a character (a lone surrogate); send well-formed Unicode")]
    return _NO_DIAGNOSTICS


def _check_choice(choices: Sequence[str], error: str, value: object) -> Sequence[Diagnostic]:
    if value in choices:
        return _NO_DIAGNOSTICS
    message = f"{_quoted(value)} is not one of {', '.join(choices)}{_did_you_mean(value, choices)}"
    return [_fault(message, error)]


def _number_check(schema: Schema) -> Check:
    least, most = cast("int", schema["minimum"]), cast("int", schema["maximum"])
    wrong = [_fault(f"must be between {least:,} and {most:,}")]
    return lambda value: _NO_DIAGNOSTICS if least <= cast("int", value) <= most else wrong


def _fault(message: str, name: str = "bad_form") -> Diagnostic:
    return Diagnostic(name, "", message)


def _inside(place: str, faults: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [replace(fault, at=place + fault.at) for fault in faults]


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
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")
