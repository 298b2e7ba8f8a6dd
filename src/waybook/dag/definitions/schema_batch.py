"""Compiles a JSON Schema to a fast check of many values, without error messages.

If the check fails, `schema_check` finds the errors and their positions.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import NoneType
from typing import cast

Schema = Mapping[str, object]
#: Function that returns False if a value is invalid, and perhaps for an unusual valid value.
_BatchCheck = Callable[[Sequence[object]], bool]

_TYPES: Mapping[str, type] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": NoneType,
}


def compile_batch_check(schema: Schema, *, strict: bool = True) -> _BatchCheck:
    named = cast("Mapping[str, Schema]", schema.get("$defs", {}))
    return _Batches(named, {}, strict).check_of(schema)


@dataclass(frozen=True, slots=True)
class _Batches:
    named: Mapping[str, Schema]
    known: dict[str, _BatchCheck]
    strict: bool

    def check_of(self, schema: Schema) -> _BatchCheck:
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix("#/$defs/")
            if name not in self.known:
                self.known[name] = self.check_of(self.named[name])
            return self.known[name]
        makers: Mapping[str, Callable[[Schema], _BatchCheck]] = {
            "object": self._object_check,
            "array": self._list_check,
            "string": _text_check,
            "integer": _number_check,
        }
        declared = schema["type"]
        kinds = [declared] if isinstance(declared, str) else cast("Sequence[str]", declared)
        checks = {
            _TYPES[kind]: makers[kind](schema) if kind in makers else lambda _: True
            for kind in kinds
        }
        return partial(_check_types, checks)

    def _object_check(self, schema: Schema) -> _BatchCheck:
        properties = cast("Mapping[str, Schema]", schema["properties"])
        checks = {name: self.check_of(inner) for name, inner in properties.items()}
        required = frozenset(cast("Sequence[str]", schema.get("required", ())))
        return partial(_check_objects, checks, required, strict=self.strict)

    def _list_check(self, schema: Schema) -> _BatchCheck:
        sizes = range(cast("int", schema.get("minItems", 0)), cast("int", schema["maxItems"]) + 1)
        return partial(_check_lists, self.check_of(cast("Schema", schema["items"])), sizes)


def _check_types(checks: Mapping[type, _BatchCheck], values: Sequence[object]) -> bool:
    present = set(map(type, values))
    if not checks.keys() >= present:
        return False
    if len(present) == 1:
        return checks[present.pop()](values)
    return all(checks[kind]([v for v in values if type(v) is kind]) for kind in present)


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


def _check_lists(inner: _BatchCheck, sizes: range, values: Sequence[object]) -> bool:
    lists = cast("Sequence[Sequence[object]]", values)
    return all(map(sizes.__contains__, set(map(len, lists)))) and inner(
        list(chain.from_iterable(lists))
    )


def _text_check(schema: Schema) -> _BatchCheck:
    if "enum" in schema:
        choices = frozenset(cast("Sequence[object]", schema["enum"]))
        return choices.issuperset
    sizes = range(cast("int", schema.get("minLength", 0)), cast("int", schema["maxLength"]) + 1)
    refused = cast("Mapping[str, str]", schema.get("not", {})).get("pattern")
    return partial(_check_texts, sizes, re.compile(refused) if refused else None)


def _check_texts(sizes: range, refused: re.Pattern[str] | None, values: Sequence[object]) -> bool:
    # Many edges name the same step, so each name is checked once.
    texts = set(cast("Sequence[str]", values))
    if not all(map(sizes.__contains__, set(map(len, texts)))):
        return False
    if refused and any(map(refused.search, texts)):
        return False
    return all(map(str.isascii, texts)) or not any(map(is_broken, texts))


def is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _number_check(schema: Schema) -> _BatchCheck:
    least, most = cast("int", schema["minimum"]), cast("int", schema["maximum"])

    def check(values: Sequence[object]) -> bool:
        numbers = cast("Sequence[int]", values)
        return least <= min(numbers) and max(numbers) <= most

    return check
