"""Check for migrations with a change that Citus 13 refuses on a distributed table.

The first migration may contain such changes, because it runs before a database is distributed.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from waybook.store.maintenance.migrate import (
    Migration,
    bundled_migrations,
    mask_quoted,
    split_statements,
)

_COMMENT: Final = re.compile(r"--[^\n]*")
_ALTER_TABLE: Final = re.compile(
    r"\s*alter\s+table\s+(?:if\s+exists\s+)?(?:only\s+)?\w+\s(.*)", re.DOTALL
)
_ADD_CONSTRAINT: Final = re.compile(r"add\s+(?:constraint|check|foreign|unique|primary|exclude)\b")
#: Rules for a whole statement, in which comments and string literals are masked.
_STATEMENTS: Final = {
    "drops several indexes at once": re.compile(r"\s*drop\s+index\b[^;]*,"),
    "creates a trigger": re.compile(r"\s*create\s+(?:or\s+replace\s+)?(?:constraint\s+)?trigger\b"),
}
#: Rules for one change in an `alter table` statement.
_CHANGES: Final = {
    "adds a column with a constraint without a name": re.compile(
        r"add\s+column\b(?!.*\bconstraint\b).*\b(?:check|unique|primary)\b", re.DOTALL
    ),
    "adds a column with a sequence": re.compile(
        r"add\s+column\b.*\b(?:(?:big|small)?serial|as\s+identity)\b", re.DOTALL
    ),
    "sets the statistics or the storage of a column": re.compile(
        r"alter\s+(?:column\s+)?\w+\s+set\s+(?:statistics|storage)\b"
    ),
    "renames a constraint": re.compile(r"rename\s+constraint\b"),
    "sets the index by which a table is clustered": re.compile(r"cluster\s+on\b"),
}
#: Pattern for a function call that changes a setting of the transaction, such as its org.
_SET_BY_FUNCTION: Final = re.compile(r"\bset_config\(\s*'app\.")


def check_migrations(migrations: Iterable[Migration]) -> Iterator[tuple[str, str]]:
    """Yield the title of each migration that a cluster refuses, with the rule that it violates."""
    for migration in migrations:
        if migration.number > bundled_migrations()[0].number:
            for statement in split_statements(migration.text):
                yield from ((migration.title, rule) for rule in broken_rules(statement))


def broken_rules(statement: str) -> Iterator[str]:
    if _SET_BY_FUNCTION.search(_COMMENT.sub("", statement)):
        yield "set_config does not reach the nodes; use set local"
    masked = mask_quoted(statement).lower()
    yield from (rule for rule, form in _STATEMENTS.items() if form.match(masked))
    if not (altered := _ALTER_TABLE.match(masked)):
        return
    changes = list(_separate(altered[1]))
    if len(changes) > 1 and any(map(_ADD_CONSTRAINT.match, changes)):
        yield "adds a constraint together with other changes"
    for change in changes:
        yield from (rule for rule, form in _CHANGES.items() if form.match(change))


def _separate(changes: str) -> Iterator[str]:
    """Split the changes of an `alter table` statement at the commas outside of parentheses."""
    depth, commas = 0, [-1]
    for place, character in enumerate(changes):
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            commas.append(place)
    for before, end in pairwise([*commas, len(changes)]):
        yield changes[before + 1 : end].strip()
