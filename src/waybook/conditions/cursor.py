"""A place in the row of tokens, and how deeply nested it is."""

from waybook.conditions.faults import ConditionError
from waybook.conditions.lexer import Kind, Token, tokenize

#: How many brackets, branches and arguments may stand within each other.
MAX_NESTING_DEPTH = 32

_ADVICE = {
    "and": "write && for and",
    "or": "write || for or",
    "not": "write ! for not",
    "is": "write == to compare",
    "?": "put a condition within a condition in brackets",
    "-": "write -(…) or !(…) around the operand",
    "!": "write -(…) or !(…) around the operand",
}


class Cursor:
    """The tokens of one source, read from left to right."""

    __slots__ = ("_nesting", "_next", "_tokens", "token")

    def __init__(self, source: str) -> None:
        """Stand before the first token."""
        self._tokens = tokenize(source)
        self._next = 1
        self._nesting = 0
        self.token = self._tokens[0]

    def at_end(self) -> bool:
        """Say whether everything is read."""
        return self.token.kind is Kind.END

    def peek_is(self, symbol: str) -> bool:
        """Say whether this symbol or word is next."""
        return self.token.text == symbol

    def peek_is_signed_number(self) -> bool:
        """Say whether a minus and a number are next: together they are one literal."""
        return self.peek_is("-") and self._tokens[self._next].kind in {Kind.INT, Kind.DOUBLE}

    def take(self) -> Token:
        """Step over the next token, which is not the end."""
        token = self.token
        self.token = self._tokens[self._next]
        self._next += 1
        return token

    def skip(self, symbol: str) -> bool:
        """Step over this symbol if it is next, and say whether it was."""
        if not self.peek_is(symbol):
            return False
        self.take()
        return True

    def expect(self, symbol: str, opened: Token | None = None) -> None:
        """Step over this symbol.

        Raises:
            Fault: something else is next.
        """
        if not self.skip(symbol):
            closing = f" to close the {opened} at {opened.at}" if opened else ""
            raise self.unexpected(f"expected '{symbol}'{closing}")

    def unexpected(self, expected: str = "") -> ConditionError:
        """The complaint about the next token."""
        advice = _ADVICE.get(self.token.text, "")
        both = "; ".join(part for part in (expected, advice) if part)
        return ConditionError(f"unexpected {self.token}", self.token.at, both)

    def enter(self) -> None:
        """Go one level deeper.

        Raises:
            Fault: that is too deep.
        """
        self._nesting += 1
        if self._nesting > MAX_NESTING_DEPTH:
            text = f"nested more than {MAX_NESTING_DEPTH} levels deep"
            raise ConditionError(text, self.token.at, "take brackets away or split the condition")

    def leave(self) -> None:
        """Come back up."""
        self._nesting -= 1
