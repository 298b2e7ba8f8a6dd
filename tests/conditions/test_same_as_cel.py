"""The condition language is a subset of CEL: its results equal the results of a CEL library.

Expressions are generated from templates. Most are well typed, and brackets are omitted at random,
so that precedence and refusals are compared as well.

These differences are excluded from the comparison:

- static types: the CEL library runs without type checks, because JSON types are known only at run
  time;
- JSON integers beyond 64 bits: the CEL library rejects them, and Waybook reads them as doubles;
- halves of surrogate pairs in JSON texts: the CEL library rejects them;
- the character NUL in JSON texts: the Python binding of the CEL library cuts a text at NUL;
- the order of a map's keys in `filter`, which CEL does not define (see `_order_matters`);
- the operators `===` and `!==`, which only Waybook has;
- unknown names and wrong numbers of arguments: Waybook refuses them when it compiles a condition,
  and the CEL library without type checks refuses them when it evaluates one.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from waybook.conditions.condition import compile_condition
from waybook.conditions.values import Json
from waybook.errors import BadExpression

Reading: TypeAlias = Callable[[str, Mapping[str, Json]], str]
Draw: TypeAlias = st.DrawFn

INTS = (0, 1, -1, 2, 3, 7, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
DOUBLES = (0.0, -0.0, 0.5, 1.0, 2.0, -1.5, 1e308, 5e-324, 2.0**53, 2.0**63)
STRINGS = ("", "a", "ab", "b", "é", "😀", "a😀b", "\n", "'", "\\", "k", "A")


def _forms(text: str) -> tuple[str, ...]:
    return tuple(form.strip() for form in text.split(" ; "))


# Templates of expressions, for each type. A placeholder such as {bool} stands for any expression of
# this type, and an expression for {bool:x} may use the variable x too.
LEAVES: Mapping[str, tuple[str, ...]] = {
    "bool": _forms("true ; false ; result.bool"),
    "int": _forms(
        "0 ; result.int ; -1 ; 1 ; 2 ; 7 ; 0x10 ; 9223372036854775807 ; -9223372036854775808 ; "
        "step.order ; result.ints[0] ; size(result.any)"
    ),
    "double": _forms(
        "0.5 ; result.double ; 1.0 ; -0.0 ; 1e308 ; 1e400 ; .5 ; 5e-324 ; 9007199254740992.0 ; "
        "confidence"
    ),
    "string": _forms(
        '\'\' ; result.string ; \'a\' ; "ab" ; \'\\u00e9\' ; r\'\\n\' ; """a"b""" ; '
        "'\\x41\\101' ; '😀' ; step.type ; result.strings[0] ; '''\n'''"
    ),
    "list": _forms(
        "[] ; result.ints ; [1, 2.0,] ; [,] ; ['a', null] ; [[1]] ; result.strings ; result.maps ; "
        "result.list"
    ),
    "map": _forms("{} ; result.map ; {'a': 1} ; {'k': [1]} ; result ; plan ; result.maps[0]"),
    "null": _forms("null ; result.null"),
    "any": _forms("result.any ; result.int ; report ; result.gone ; result.list[0]"),
}

FORMS: Mapping[str, tuple[str, ...]] = {
    "bool": _forms(
        "{bool} && {bool} ; {bool} || {bool} ; !{bool} ; !!{bool} ; {bool} ? {bool} : {bool} ; "
        "{any} == {any} ; {any} != {any} ; {int} == {double} ; {list} == {list} ; {map} == {map} ; "
        "{int} < {int} ; {int} <= {double} ; {double} > {int} ; {double} >= {double} ; "
        "{string} < {string} ; {string} >= {string} ; {bool} < {bool} ; "
        "{any} in {list} ; {string} in {map} ; {any} in {map} ; has({map}.a) ; has({any}.k) ; "
        "{list}.exists(x, {bool:x}) ; {list}.all(x, {bool:x}) ; {any}.exists(x, {any:x}) ; "
        "{map}.exists(y, {bool:y}) ; {map}.all(y, y == {string}) ; {string}.contains({string}) ; "
        "{string}.startsWith({string}) ; {string}.endsWith({string}) ; {any}.contains({any}) ; "
        "{list}[{int}] ; {map}.a"
    ),
    "int": _forms(
        "{int} + {int} ; {int} - {int} ; {int} * {int} ; {int} / {int} ; {int} % {int} ; -{int} ; "
        "--{int} ; size({string}) ; {list}.size() ; {map}.size() ; size({any}) ; {list}[{int}] ; "
        "{bool} ? {int} : {int} ; {map}['a']"
    ),
    "double": _forms(
        "{double} + {double} ; {double} - {double} ; {double} * {double} ; {double} / {double} ; "
        "-{double} ; {double} % {double} ; {int} + {double}"
    ),
    "string": _forms(
        "{string} + {string} ; {bool} ? {string} : {string} ; {list}[{int}] ; {map}.k"
    ),
    "list": _forms(
        "{list} + {list} ; [{any}, {any}] ; {list}.filter(x, {bool:x}) ; "
        "{any}.filter(y, {any:y}) ; {bool} ? {list} : {list} ; {list}[{int}] ; {map}.k"
    ),
    "map": _forms("{{'a': {any}}} ; {{'k': {any}}} ; {list}[{int}] ; {bool} ? {map} : {map}"),
    "null": _forms("{list}[{int}] ; {map}.a"),
    "any": _forms(
        "{int} ; {double} ; {string} ; {bool} ; {list} ; {map} ; {null} ; {list}[{any}] ; "
        "{map}[{string}] ; {any}[{any}] ; {any}.a ; {any} + {any} ; -{any} ; {any} < {any} ; "
        "{any} && {any} ; {any} || {any} ; {any} ? {any} : {any}"
    ),
}

KINDS = tuple(FORMS)
_HOLE = re.compile(r"\{\{|\}\}|\{(\w+)(?::(\w))?\}")

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=3)
scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from(INTS)
    | st.integers(-5, 5)
    | st.sampled_from(DOUBLES)
    | st.floats()
    | st.sampled_from(STRINGS)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("a", "k", "😀")), inner, max_size=2)
    ),
    max_leaves=5,
)


def _mostly(usual: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.integers(0, 9).flatmap(lambda dice: anything if dice == 0 else usual)


some_maps = st.fixed_dictionaries({}, optional={"a": scalars, "k": anything})
values_of_plans = st.fixed_dictionaries(
    {
        "result": st.fixed_dictionaries(
            {
                "bool": _mostly(st.booleans()),
                "int": _mostly(st.sampled_from(INTS) | st.integers(-9, 9)),
                "double": _mostly(st.sampled_from(DOUBLES) | st.floats()),
                "string": _mostly(st.sampled_from(STRINGS) | texts),
                "null": st.none(),
                "ints": _mostly(st.lists(st.sampled_from(INTS) | st.integers(-3, 3), max_size=4)),
                "strings": _mostly(st.lists(st.sampled_from(STRINGS), max_size=4)),
                "maps": _mostly(st.lists(some_maps, max_size=3)),
                "list": _mostly(st.lists(anything, max_size=3)),
                "map": _mostly(some_maps),
                "any": anything,
            }
        ),
        "confidence": _mostly(st.floats(0, 1)),
        "report": anything,
        "step": st.fixed_dictionaries({"order": st.integers(0, 9), "type": st.just("agent")}),
        "plan": st.fixed_dictionaries({"done": st.integers(0, 9)}),
    }
)


def _written(draw: Draw, kind: str, depth: int, bound: tuple[str, ...]) -> str:
    if draw(st.integers(0, 29)) == 0:
        kind = draw(st.sampled_from(KINDS))
    forms = LEAVES[kind] + bound if depth == 0 else LEAVES[kind][:3] + FORMS[kind] + bound
    form = draw(st.sampled_from(forms))

    def fill(hole: re.Match[str]) -> str:
        if hole[1] is None:
            return hole[0][0]
        inner = bound if hole[2] is None else (*bound, hole[2])
        return _written(draw, hole[1], depth - 1, inner)

    text = _HOLE.sub(fill, form)
    return f"({text})" if text != form and draw(st.integers(0, 3)) else text


@st.composite
def expressions(draw: Draw) -> str:
    kind = draw(st.sampled_from(("bool", "bool", "bool", *KINDS)))
    return _written(draw, kind, draw(st.integers(1, 4)), ())


def _turned(value: Json) -> Json:
    """Return the same value, with the keys of all objects in reverse order."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def _order_matters(ours: Reading, source: str, values: Mapping[str, Json]) -> bool:
    turned = {name: _turned(value) for name, value in values.items()}
    return ours(source, values) != ours(source, turned)


@settings(
    max_examples=700,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(expressions(), min_size=6, max_size=6), values_of_plans)
def test_generated_conditions_evaluate_as_in_cel(
    ours: Reading, real: Reading, sources: list[str], values: dict[str, Json]
) -> None:
    for source in sources:
        assume(len(source) <= 1_000)
        same = ours(source, values) == real(source, values)
        assert same or _order_matters(ours, source, values), source


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(expressions(), st.dictionaries(st.sampled_from(("result", "plan")), anything))
def test_compiled_condition_evaluation_never_raises(source: str, values: dict[str, Json]) -> None:
    try:
        condition = compile_condition(source)
    except BadExpression:
        return
    outcome = condition.evaluate(values)
    assert not (outcome.fired and outcome.error)
