"""Compiles a JSON Schema to checks that report each error with its position.

A fast check tests many values at once. If it fails, a slower check looks for the errors. Only the
keywords that the published schemas use are supported.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import chain
from types import NoneType
from typing import Any, cast

from waybook.dag.diagnostics import Diagnostic

Schema = Mapping[str, object]
Check = Callable[[object], Sequence[Diagnostic]]
#: Fast check of many values. It returns False if a value is invalid. It may also return False for
#: unusual values that are valid, so the slower check decides.
_BatchCheck = Callable[[Sequence[object]], bool]

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
    batch: _BatchCheck = _Compiler(schema, _BATCH_MAKERS, _check_types, strict=strict).check
    slow: Check = _Compiler(schema, _MAKERS, _check_kind, strict=strict).check
    return lambda value: _NO_DIAGNOSTICS if batch([value]) else slow(value)


_AnyCheck = Callable[[Any], Any]
_Maker = Callable[["_Compiler", Schema], _AnyCheck]


class _Compiler:
    """Compiler from a schema to checks of one value, or to fast checks of many values."""

    def __init__(
        self,
        schema: Schema,
        makers: Mapping[str, _Maker],
        check_kinds: Callable[..., Any],
        *,
        strict: bool,
    ) -> None:
        self._named = cast("Mapping[str, Schema]", schema.get("$defs", {}))
        self._known: dict[str, _AnyCheck] = {}
        self._makers = makers
        self._check_kinds = check_kinds
        self.strict = strict
        self.check = self.check_of(schema)

    def check_of(self, schema: Schema) -> _AnyCheck:
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix("#/$defs/")
            if name not in self._known:
                self._known[name] = self.check_of(self._named[name])
            return self._known[name]
        declared = schema["type"]
        kinds = [declared] if isinstance(declared, str) else cast("Sequence[str]", declared)
        checks = {kind: self._makers.get(kind, self._makers[""])(self, schema) for kind in kinds}
        return partial(self._check_kinds, checks)

    def property_checks(self, schema: Schema) -> dict[str, _AnyCheck]:
        properties = cast("Mapping[str, Schema]", schema["properties"])
        return {name: self.check_of(inner) for name, inner in properties.items()}


def _object_check(compiler: _Compiler, schema: Schema) -> Check:
    required = cast("Sequence[str]", schema.get("required", ()))
    checks = compiler.property_checks(schema)
    return partial(_check_object, checks, required, strict=compiler.strict)


def _list_check(compiler: _Compiler, schema: Schema) -> Check:
    error = str(schema.get("x-fault", "bad_form"))
    inner = compiler.check_of(cast("Schema", schema["items"]))
    return partial(_check_list, inner, _sizes(schema, "Items"), error)


def _sizes(schema: Schema, unit: str) -> range:
    least, most = schema.get(f"min{unit}", 0), schema[f"max{unit}"]
    return range(cast("int", least), cast("int", most) + 1)


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


def _text_check(_: _Compiler, schema: Schema) -> Check:
    if "enum" in schema:
        choices = cast("Sequence[str]", schema["enum"])
        return partial(_check_choice, choices, str(schema.get("x-fault", "bad_form")))
    return partial(_check_text, _sizes(schema, "Length"), _refused(schema))


def _refused(schema: Schema) -> re.Pattern[str] | None:
    refused = cast("Mapping[str, str]", schema.get("not", {})).get("pattern")
    return re.compile(refused) if refused else None


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
    if not text.isascii() and _is_broken(text):
        return [_fault("contains half a character (a lone surrogate); send well-formed Unicode")]
    return _NO_DIAGNOSTICS


def _check_choice(choices: Sequence[str], error: str, value: object) -> Sequence[Diagnostic]:
    if value in choices:
        return _NO_DIAGNOSTICS
    message = f"{_quoted(value)} is not one of {', '.join(choices)}{_did_you_mean(value, choices)}"
    return [_fault(message, error)]


def _number_check(_: _Compiler, schema: Schema) -> Check:
    least, most = cast("int", schema["minimum"]), cast("int", schema["maximum"])
    wrong = [_fault(f"must be between {least:,} and {most:,}")]
    return lambda value: _NO_DIAGNOSTICS if least <= cast("int", value) <= most else wrong


_MAKERS: Mapping[str, _Maker] = {
    "object": _object_check,
    "array": _list_check,
    "string": _text_check,
    "integer": _number_check,
    "": lambda *_: lambda _: _NO_DIAGNOSTICS,
}


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


def _check_types(checks: Mapping[str, _BatchCheck], values: Sequence[object]) -> bool:
    present = set(map(type, values))
    if not all(_KINDS.get(kind) in checks for kind in present):
        return False
    if len(present) == 1:
        return checks[_KINDS[present.pop()]](values)
    return all(checks[_KINDS[kind]]([v for v in values if type(v) is kind]) for kind in present)


def _objects_check(compiler: _Compiler, schema: Schema) -> _BatchCheck:
    required = frozenset(cast("Sequence[str]", schema.get("required", ())))
    checks = compiler.property_checks(schema)
    return partial(_check_objects, checks, required, strict=compiler.strict)


def _check_objects(
    checks: Mapping[str, _BatchCheck],
    required: frozenset[str],
    values: Sequence[object],
    *,
    strict: bool,
) -> bool:
    objects = cast("Sequence[Mapping[str, object]]", values)
    if strict and not checks.keys() >= set(chain.from_iterable(objects)):
        return False
    for name, check in checks.items():
        column = [fields[name] for fields in objects if name in fields]
        if len(column) < len(objects) and name in required:
            return False
        if not check(column):
            return False
    return True


def _lists_check(compiler: _Compiler, schema: Schema) -> _BatchCheck:
    inner = compiler.check_of(cast("Schema", schema["items"]))
    return partial(_check_lists, inner, _sizes(schema, "Items"))


def _check_lists(inner: _BatchCheck, sizes: range, values: Sequence[object]) -> bool:
    lists = cast("Sequence[Sequence[object]]", values)
    return all(map(sizes.__contains__, set(map(len, lists)))) and inner(
        list(chain.from_iterable(lists))
    )


def _texts_check(_: _Compiler, schema: Schema) -> _BatchCheck:
    if "enum" in schema:
        return frozenset(cast("Sequence[object]", schema["enum"])).issuperset
    return partial(_check_texts, _sizes(schema, "Length"), _refused(schema))


def _check_texts(sizes: range, refused: re.Pattern[str] | None, values: Sequence[object]) -> bool:
    # Many values are equal, such as the step names in edges, so check each distinct value once.
    texts = set(cast("Sequence[str]", values))
    if not all(map(sizes.__contains__, set(map(len, texts)))):
        return False
    if refused and any(map(refused.search, texts)):
        return False
    return all(map(str.isascii, texts)) or not any(map(_is_broken, texts))


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _numbers_check(_: _Compiler, schema: Schema) -> _BatchCheck:
    least, most = cast("int", schema["minimum"]), cast("int", schema["maximum"])

    def check(values: Sequence[object]) -> bool:
        numbers = cast("Sequence[int]", values)
        return least <= min(numbers) and max(numbers) <= most

    return check


_BATCH_MAKERS: Mapping[str, _Maker] = {
    "object": _objects_check,
    "array": _lists_check,
    "string": _texts_check,
    "integer": _numbers_check,
    "": lambda *_: lambda _: True,
}
