"""What a literal in the source stands for: numbers within CEL's ranges, strings without escapes."""

import re

from waybook.conditions.faults import ConditionError
from waybook.conditions.values import INT_MAX, INT_MIN

_ESCAPE = re.compile(
    r"""
    \\ (?: (?P<sign>[abfnrtv"'\\?`])
         | [xX](?P<byte>[0-9a-fA-F]{2})
         | u(?P<short>[0-9a-fA-F]{4})
         | U(?P<long>[0-9a-fA-F]{8})
         | (?P<octal>[0-3][0-7]{2}) )
    """,
    re.VERBOSE,
)

_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_LONGEST_INT = len("0x") + 20

_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


def read_int(text: str, at: int, *, negative: bool) -> int:
    """The integer, decimal or hexadecimal.

    >>> read_int("0xff", 0, negative=True)
    -255

    Raises:
        Fault: it does not fit in 64 bits.
    """
    digits = text.removeprefix("0x")
    base = 10 if digits == text else 16
    value = int(digits, base) if len(digits.lstrip("0")) <= _LONGEST_INT else INT_MAX + 2
    value = -value if negative else value
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ConditionError(
        "this integer does not fit in 64 bits", at, "write it as a double, like 1e20"
    )


def read_double(text: str, *, negative: bool) -> float:
    """The double; beyond the range it is infinite, as in CEL."""
    return -float(text) if negative else float(text)


def read_string(token: str, at: int) -> str:
    r"""The text of a string token: quotes taken off, escapes replaced, line ends made `\n`.

    >>> read_string(r"'caf\u00e9'", 0), read_string(r"r'\d'", 0)
    ('café', '\\d')

    Raises:
        Fault: an escape is unknown or names no character.
    """
    raw = token[0] in "rR"
    start = 1 if raw else 0
    width = 3 if token[start : start + 3] in {"'''", '"""'} else 1
    body = token[start + width : -width]
    return _read_raw(body, at) if raw else _replace_escapes(body, at + width)


def _read_raw(body: str, at: int) -> str:
    """A raw body, which CEL does not let end in an odd number of backslashes."""
    if (len(body) - len(body.rstrip("\\"))) % 2:
        raise ConditionError(
            "this raw string ends in a backslash", at, "write it without r and doubled"
        )
    return _with_plain_line_ends(body)


def _replace_escapes(body: str, at: int) -> str:
    pieces: list[str] = []
    done = 0
    while (slash := body.find("\\", done)) >= 0:
        found = _ESCAPE.match(body, slash)
        if found is None:
            escape = body[slash : slash + 2]
            raise ConditionError(
                f"unknown escape {escape}", at + slash, "write \\\\ for a backslash"
            )
        pieces += (_with_plain_line_ends(body[done:slash]), _character(found, at + slash))
        done = found.end()
    return "".join((*pieces, _with_plain_line_ends(body[done:])))


def _with_plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _character(escape: re.Match[str], at: int) -> str:
    if sign := escape["sign"]:
        return _SIGNS.get(sign, sign)
    if octal := escape["octal"]:
        return chr(int(octal, 8))
    code = int(escape["byte"] or escape["short"] or escape["long"], 16)
    if code in _SURROGATES or code > _LAST_CODE_POINT:
        raise ConditionError(f"{escape[0]} is no character", at)
    return chr(code)
