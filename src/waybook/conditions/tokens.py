"""Splits a condition into tokens, and reads literals."""

import re
from typing import NamedTuple

from waybook.conditions.values import INT_MAX, INT_MIN, ConditionError


class Token(NamedTuple):
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "end"
        return self.text if self.kind == "string" else f"'{self.text}'"


_TOKEN = re.compile(
    r"""
      (?P<skip>    [ \t\r\n\f]+ | //[^\n]* )
    | (?P<uint>    (?: 0x[0-9a-fA-F]+ | [0-9]+ ) [uU] )
    | (?P<bytes>   [bB][rR]?["'] )
    | (?P<string>  [rR](?: \"\"\".*?\"\"\" | '''.*?''' )
                 | (?: \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''(?:[^\\]|\\.)*?''' )
                 | [rR](?: "[^"\r\n]*" | '[^'\r\n]*' )
                 | "(?:[^"\\\r\n]|\\[^\r\n])*" | '(?:[^'\\\r\n]|\\[^\r\n])*' )
    | (?P<double>  [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?
                 | [0-9]+[eE][+-]?[0-9]+
                 | \.[0-9]+(?:[eE][+-]?[0-9]+)? )
    | (?P<int>     0x[0-9a-fA-F]+ | [0-9]+ )
    | (?P<name>    [_a-zA-Z][_a-zA-Z0-9]* )
    | (?P<symbol>  ===|!==|==|!=|<=|>=|&&|\|\||[-+*/%!<>?:.,()\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL,
)

_FOREIGN = {
    "uint": "write a plain integer, without u",
    "bytes": "write a string, without b",
}

_ADVICE = {
    "=": "write == to compare",
    "&": "write && for and",
    "|": "write || for or",
    "'": "this string is not closed on its line",
    '"': "this string is not closed on its line",
    "`": 'write ["name"] for a field with an unusual name',
}


def _tokenize(source: str) -> list[Token]:
    """Return all tokens of the source, followed by an END token.

    >>> [str(token) for token in _tokenize("size(x) >= 1")]
    ["'size'", "'('", "'x'", "')'", "'>='", "'1'", 'end']

    Raises:
        ConditionError: a character cannot start a token.
    """
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            text = source[at]
            raise ConditionError(f"unexpected character {text!r}", at, _ADVICE.get(text, ""))
        kind = str(match.lastgroup)
        if kind in _FOREIGN:
            raise ConditionError(f"{kind} literals are not supported", at, _FOREIGN[kind])
        if kind != "skip":
            tokens.append(Token(kind, match[0], at))
        at = match.end()
    tokens.append(Token("end", "", at))
    return tokens


MAX_NESTING_DEPTH = 32

_WORD_ADVICE = {
    "and": "write && for and",
    "or": "write || for or",
    "not": "write ! for not",
    "is": "write == to compare",
    "?": "put brackets around the inner condition with ? and :",
    "-": "write -(…) or !(…) around the operand",
    "!": "write -(…) or !(…) around the operand",
}


class Cursor:
    __slots__ = ("_nesting", "_next", "_tokens", "token")

    def __init__(self, source: str) -> None:
        self._tokens = _tokenize(source)
        self._next = 1
        self._nesting = 0
        self.token = self._tokens[0]

    def at_end(self) -> bool:
        return self.token.kind == "end"

    def peek_is(self, symbol: str) -> bool:
        return self.token.text == symbol

    def peek_is_signed_number(self) -> bool:
        return self.peek_is("-") and self._tokens[self._next].kind in {"int", "double"}

    def take(self) -> Token:
        token = self.token
        self.token = self._tokens[self._next]
        self._next += 1
        return token

    def skip(self, symbol: str) -> bool:
        if not self.peek_is(symbol):
            return False
        self.take()
        return True

    def expect(self, symbol: str, opened: Token | None = None) -> None:
        if not self.skip(symbol):
            closing = f" to close the {opened} at {opened.at}" if opened else ""
            raise self.unexpected(f"expected '{symbol}'{closing}")

    def unexpected(self, expected: str = "") -> ConditionError:
        advice = _WORD_ADVICE.get(self.token.text, "")
        both = "; ".join(part for part in (expected, advice) if part)
        return ConditionError(f"unexpected {self.token}", self.token.at, both)

    def enter(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING_DEPTH:
            text = f"nested more than {MAX_NESTING_DEPTH} levels deep"
            raise ConditionError(text, self.token.at, "take brackets away or split the condition")

    def leave(self) -> None:
        self._nesting -= 1


_SPECIAL = re.compile(
    r"""
      \\ (?: (?P<sign>[abfnrtv"'\\?`])
           | [xX](?P<byte>[0-9a-fA-F]{2})
           | u(?P<short>[0-9a-fA-F]{4})
           | U(?P<long>[0-9a-fA-F]{8})
           | (?P<octal>[0-3][0-7]{2})
           | (?P<unknown>.?) )
    | (?P<line_end>\r\n?)
    """,
    re.VERBOSE | re.DOTALL,
)

_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

#: Number of digits above which a number, decimal or hexadecimal, does not fit in 64 bits.
_MAX_INT_DIGITS = 20

_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


def read_number(token: Token, at: int, *, negative: bool) -> int | float:
    """Return the value of a number literal. As in CEL, a double out of range is infinite.

    >>> read_number(Token("int", "0xff", 0), 0, negative=True)
    -255

    Raises:
        ConditionError: an integer does not fit in 64 bits.
    """
    if token.kind == "double":
        return -float(token.text) if negative else float(token.text)
    digits = token.text.removeprefix("0x").lstrip("0")[: _MAX_INT_DIGITS + 1]
    value = int(digits or "0", 16 if token.text.startswith("0x") else 10)
    value = -value if negative else value
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ConditionError(
        "this integer does not fit in 64 bits", at, "write it as a double, like 1e20"
    )


def read_string(token: str, at: int) -> str:
    r"""Return the text of a string token, with escapes replaced and line ends as `\n`.

    >>> read_string(r"'caf\u00e9'", 0), read_string(r"r'\d'", 0)
    ('café', '\\d')

    Raises:
        ConditionError: an escape is unknown or does not encode a character.
    """
    raw = token[0] in "rR"
    start = 1 if raw else 0
    width = 3 if token[start : start + 3] in {"'''", '"""'} else 1
    body = token[start + width : -width]
    if not raw:
        return _SPECIAL.sub(lambda match: _character(match, at + width + match.start()), body)
    if (len(body) - len(body.rstrip("\\"))) % 2:
        raise ConditionError(
            "this raw string ends in a backslash", at, "omit r, and double backslashes"
        )
    return body.replace("\r\n", "\n").replace("\r", "\n")


def _character(special: re.Match[str], at: int) -> str:
    if special["line_end"]:
        return "\n"
    if special["unknown"] is not None:
        raise ConditionError(f"unknown escape {special[0]}", at, "write \\\\ for a backslash")
    if sign := special["sign"]:
        return _SIGNS.get(sign, sign)
    if octal := special["octal"]:
        return chr(int(octal, 8))
    code = int(special["byte"] or special["short"] or special["long"], 16)
    if code in _SURROGATES or code > _LAST_CODE_POINT:
        raise ConditionError(f"{special[0]} is no character", at)
    return chr(code)
