"""Corner cases of conditions, compared with a CEL library."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest

from waybook.conditions.values import Json

Reading: TypeAlias = Callable[[str, Mapping[str, Json]], str]

VALUES: Mapping[str, Json] = {
    "result": {
        "int": 1,
        "ints": [1, 2],
        "text": "abc",
        "map": {"k": None},
        "two": {"a": 1, "b": [2.0]},
        "odd": 2**53 + 1,
        "even": 2.0**53,
        "nan": float("nan"),
        "yes": True,
        "min": -(2**63),
        "package": 3,
        "size": 4,
    }
}

STRINGS = (
    *(r"'\a\b\f\n\r\t\v\\\?\"\'\`'", r"'\x41\X41\u0041\U00000041\101'", r"'\x80\377'", r"'\x4'"),
    *(r"'\400'", r"'\8'", r"'\0'", r"'\ud800'", r"'\U00110000'", r"'\U0001F600'", r"'\q'"),
    *("'a\nb'", "'a\rb'", "'''a\rb\r\nc\nd'''", '"""a\r\\n\r\nb"""', "r'''a\r\nb'''"),
    *('"""a"b""c"""', r'"""a\"""b"""', '""""a"""', '""', '""""""', "'''a''''", r"r'\n'", r'R"\n"'),
    *(r"""r"a\'b" """, r'r"a\"', r'r"a\\"', r"r'a\'b'", r'r"""a\"""', "'a\x00b'", "'é😀'", "'\\"),
)

NUMBERS = (
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("- 9223372036854775808", "--9223372036854775808", "-(9223372036854775808)"),
    *("-9223372036854775808.size()", "-0x8000000000000000", "0x8000000000000000", "0xfF", "0XFF"),
    *("00012", "1.", "1.e5", "1.5.5", ".5", "1e5", "1E-5", "1e", "1in[1]", "1e400", "-1e400"),
    *("1e-400", "5e-324", "0" * 30 + "7", "9" * 500, "0x" + "f" * 500, "9" * 500 + ".0"),
)

SIGNS = (
    *("!!1", "!!!1", "--'a'", "---'a'", "--1", "1--1", "1 - - -1", "!-1", "!-result.int", "!--1"),
    *("-!true", "-result.min", "--result.min", "-true", "-[1][0]", "!result.yes == false"),
)

PRECEDENCE = (
    *("1 + 2 * 3", "(1 + 2) * 3", "7 - 2 - 1", "8 / 4 / 2", "7 % 4 * 2", "2 * 7 % 4", "1 + 1 == 2"),
    *("1 < 2 == true", "1 == 1 == true", "1 in [1] == true", "1 + 2 in [3]"),
    *("true || false && false", "false && false || true", "!false && false", "1 == 1 ? 2 : 3"),
    *("true || false ? 1 : 2", "true ? 1 : 2 == 2", "true ? false : true ? 1 : 2"),
    *("true ? true ? 1 : 2 : 3", "true ? (true ? 1 : 2) : 3", "true ==!false", "result . ints [0]"),
    *("1 // a comment\n+ 2", "1\t\f\r\n+2 // the end", "[1,,]", "[,]", "[,1]", "{,}", "{'a': 1,}"),
    *("size([1],)", "result.", "result.5", "result.in", "result.true", "result.package", "package"),
    *("1 = 1", "#"),
)

ABSORBED = (
    *("1/0 == 1 || true", "true || 1/0 == 1", "1/0 == 1 || false", "false && 1/0 == 1"),
    *("1/0 == 1 && false", "1/0 == 1 && true", "1 && false", "1 && true", "true || 1", "1 || true"),
    *("1 || false", "true ? 1 : 1/0", "false ? 1/0 : 2", "1 ? 2 : 3", "[1, true].exists(x, x)"),
    *("[1, false].exists(x, x)", "[1, false].all(x, x)", "[1, true].all(x, x)"),
    *("[0, 1].exists(x, 1/x == 1)", "[0, 1].exists(x, 1/x == 2)", "[0, 1].all(x, 1/x == 2)"),
    *("[0, 1].all(x, 1/x == 1)", "[0, 1].filter(x, 1/x == 1)", "[1, 2].filter(x, x)"),
    *("[].exists(x, 1/0 == 1)", "(1/0).exists(x, true)", "result.text.exists(x, true)"),
    *("result.map.filter(k, true)", "[1].exists(x, [2].exists(x, x == 2) && x == 1)"),
    *("[1].exists(result, result == 1)", "[1].exists((x), x == 1)", "[1].exists(x.y, true)"),
    *("[1].exists(1, true)", "[1].exists(__result__, true)", "[1].exists(as, true)"),
)

COMPARISONS = (
    *("result.odd == result.even", "result.odd > result.even"),
    "9223372036854775807 == 9223372036854775808.0",
    *("9223372036854775807 < 9223372036854775808.0", "result.nan == result.nan"),
    *("result.nan != result.nan", "result.nan < 1", "[result.nan] == [result.nan]"),
    *("result.nan in [result.nan]", "-0.0 == 0", "1 == true", "[1] == [true]"),
    *("[1, 'a'] == [1.0, 'a']", "[] == {}", "null == false", "null < null", "'\uffff' < '😀'"),
    *("true > false", "result.two == {'b': [2], 'a': 1.0}", "result.two == {'b': [2]}"),
    *("result.two == {'a': 1, 'c': 2}", "result.two == {'a': 1, 'b': [3]}", "1 in {'a': 1}"),
    *("null in {'a': 1}", "[1] in {'a': 1}", "'a' in 'abc'", "[1] in [[1.0]]", "result.ints[-0.0]"),
    *("result.ints[0.5]", "result.ints[1e400]", "result.ints[true]"),
    *("result.ints[9223372036854775807]", "{'a': 1}[1]", "{'a': 1}['b']", "{'a': 1/0}"),
    *("result.text[0]", "has(result.map.k)", "has(result.map.k.z)", "has(result.gone.z)"),
    *("has((result.int))", "has(result['int'])", "has(result)", "result.size", "result.size()"),
    *("'aé😀'.size()", "size(1)"),
)

ARITHMETIC = (
    *("-5 / 3", "5 / -3", "-5 % 3", "5 % -3", "5 % 0", "5 / 0", "-9223372036854775808 / -1"),
    *("-9223372036854775808 % -1", "9223372036854775807 + 1", "-9223372036854775808 - 1"),
    *("4611686018427387904 * 2", "-4611686018427387904 * 2", "1.0 / 0.0", "-1.0 / 0.0"),
    *("1.0 / -0.0", "result.nan / 0.0", "1e308 * 10.0", "5.0 % 2.0", "1 + 1.0", "[1] + ['a']"),
)


@pytest.mark.parametrize(
    "source", [*STRINGS, *NUMBERS, *SIGNS, *PRECEDENCE, *ABSORBED, *COMPARISONS, *ARITHMETIC]
)
def test_condition_corner_cases_evaluate_as_in_cel(
    ours: Reading, real: Reading, source: str
) -> None:
    assert ours(source, VALUES) == real(source, VALUES)


@pytest.mark.parametrize(
    ("ours_only", "in_cel"),
    [
        ("1 === 1.0", "1 == 1.0"),
        ("'a' !== 'b' && true", "'a' != 'b' && true"),
        ("1 ===-1", "1 ==-1"),
        ("true ===!false", "true ==!false"),
    ],
)
def test_triple_equals_evaluates_like_double_equals_in_cel(
    ours: Reading, real: Reading, ours_only: str, in_cel: str
) -> None:
    assert ours(ours_only, VALUES) == real(in_cel, VALUES)


def test_condition_integer_beyond_64_bits_is_read_as_nearest_double(
    ours: Reading, real: Reading
) -> None:
    huge, negative = 2**64 + 1, -(10**400)
    source = "[result.a, result.b, result.l[0]] == result.l && result.a > 9223372036854775807"
    result = ours(source, {"result": {"a": huge, "b": negative, "l": [huge, negative, huge]}})
    doubles: dict[str, Json] = {"a": 2.0**64, "b": float("-inf")}
    doubles["l"] = [2.0**64, float("-inf"), 2.0**64]
    assert result == real(source, {"result": doubles}) == "true"
