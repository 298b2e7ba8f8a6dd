"""Search for the tables that an SQL query uses, and for the conditions on their orgs.

This is not an SQL parser. It finds a table by its name after `from`, `join`, `update` or `using`.
The alias of the table is visible in the surrounding `select`, `update` or `delete`, but not in its
subqueries.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

_TOKEN = re.compile(r"'(?:[^']|'')*'|%\(\w+\)s|[\w.]+|\S")
_BEFORE_TABLE = frozenset({"from", "join", "update", "using", "only"})
#: Words before `update` that show it to be part of a row lock or an upsert.
_NO_UPDATE = frozenset({"for", "key", "do"})
_CLAUSES = frozenset(
    {"select", "from", "using", "set", "where", "on", "by", "returning", "values", "into"}
)
_SET_OPERATIONS = frozenset({"union", "except", "intersect"})
#: Words that may follow a table name and are not its alias.
_NO_ALIAS = frozenset(
    {"where", "on", "join", "left", "right", "inner", "cross", "full", "natural", "group", "order"}
    | {"limit", "offset", "for", "set", "using", "returning", "having", "window", "values"}
    | {"select", "fetch", "tablesample"}
    | _SET_OPERATIONS
)


class Token(NamedTuple):
    """Word, literal, parameter or symbol in a query, with its position."""

    text: str
    start: int
    end: int


class Reference(NamedTuple):
    """Table from which a query reads or deletes, or which it updates, with the table's alias."""

    table: str
    alias: str
    #: Tokens of that part of the query in which the alias is visible.
    scope: list[Token]
    start: int

    @property
    def has_org_condition(self) -> bool:
        """Return whether the query compares the table's `org_id` with another value."""
        return any(names & self._own_names for names in _compared_names(self.scope))

    @property
    def _own_names(self) -> set[str]:
        return {f"{self.alias}.org_id", "org_id"}


def references(query: str, tables: Collection[str]) -> Iterator[Reference]:
    """Yield each place where a query uses one of the tables, except as the target of an insert."""
    for scope in _scopes(query):
        for i, token in enumerate(scope):
            if token.text in tables and i and _names_table(scope, i):
                yield Reference(token.text, _alias(scope, i), scope, token.start)


def _names_table(scope: list[Token], i: int) -> bool:
    before = scope[i - 1].text
    if before == "update":
        return scope[max(i - 2, 0)].text not in _NO_UPDATE
    if before == ",":
        clauses = [token.text for token in scope[:i] if token.text in _CLAUSES]
        return clauses[-1:] in (["from"], ["using"])
    return before in _BEFORE_TABLE


def _alias(scope: list[Token], i: int) -> str:
    following = [token.text for token in scope[i + 1 : i + 3]]
    if following[:1] == ["as"]:
        del following[0]
    has_alias = following and following[0].isidentifier() and following[0] not in _NO_ALIAS
    return following[0] if has_alias else scope[i].text


def _scopes(query: str) -> list[list[Token]]:
    """Return the tokens of each select, update and delete, without their subqueries."""
    done: list[list[Token]] = []
    open_scopes: list[list[Token]] = [[]]
    nested: list[bool] = []
    tokens = [Token(m[0].lower(), m.start(), m.end()) for m in _TOKEN.finditer(query)]
    for token, following in zip(tokens, [*tokens[1:], Token("", 0, 0)], strict=True):
        if token.text == "(":
            nested.append(following.text in {"select", "with", "insert", "update", "delete"})
            if nested[-1]:
                open_scopes.append([])
                continue
        elif token.text == ")" and nested and nested.pop():
            done.append(open_scopes.pop())
            continue
        elif token.text in _SET_OPERATIONS and all(nested[-1:]):
            done.append(open_scopes[-1])
            open_scopes[-1] = []
        open_scopes[-1].append(token)
    return [*done, *open_scopes]


def _compared_names(scope: list[Token]) -> Iterator[set[str]]:
    """Yield the names on both sides of each `=`; for `using (org_id)`, yield `org_id`."""
    texts = [token.text for token in scope]
    for i, text in enumerate(texts):
        if text == "=" and 0 < i < len(texts) - 1:
            yield {texts[i - 1], texts[i + 1]}
        elif text == "using" and texts[i + 1 : i + 3] == ["(", "org_id"]:
            yield {"org_id"}
