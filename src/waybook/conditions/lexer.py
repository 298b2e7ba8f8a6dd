"""From text to tokens, by CEL's lexical grammar."""

import re
from dataclasses import dataclass
from enum import StrEnum

from waybook.conditions.faults import ConditionError


class Kind(StrEnum):
    INT = "int"
    DOUBLE = "double"
    STRING = "string"
    NAME = "name"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    at: int

    def __str__(self) -> str:
        """Name the token in a message."""
        if self.kind is Kind.END:
            return "end"
        return self.text if self.kind is Kind.STRING else f"'{self.text}'"


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


def tokenize(source: str) -> list[Token]:
    """All tokens of the source, closed by an END.

    >>> [str(token) for token in tokenize("size(x) >= 1")]
    ["'size'", "'('", "'x'", "')'", "'>='", "'1'", 'end']

    Raises:
        Fault: there is a character that begins no token.
    """
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            text = source[at]
            raise ConditionError(f"unexpected character {text!r}", at, _ADVICE.get(text, ""))
        kind = str(found.lastgroup)
        if kind in _FOREIGN:
            raise ConditionError(f"{kind} literals are not in this language", at, _FOREIGN[kind])
        if kind != "skip":
            tokens.append(Token(Kind(kind), found[0], at))
        at = found.end()
    tokens.append(Token(Kind.END, "", at))
    return tokens
