"""The store's queries without a word of whose the rows are: row-level security stands alone.

With `WAYBOOK_TEST_WITHOUT_ORG=1` every query of the whole run is so (`make test-rls`); a test asks
for it with the fixture `without_org`.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules

from waybook import store
from waybook.store.driver.queries import Query

SWITCH = "WAYBOOK_TEST_WITHOUT_ORG"

#: What the owner runs to make the schema, its policies among it; no call runs any of it.
OPERATORS = frozenset({"migrate"})

#: What the owner runs where all orgs exist: they make a policy, or ask which orgs are gone.
OF_ALL_ORGS = frozenset({"make_partition", "orgs_gone"})

_ORG = r"(?:\w+\.)?org_id"
_OTHER = rf"(?:app_org\(\)|{_ORG}|%\(\w+\)s(?:::uuid)?)"
#: Each way in which a query can say whose rows it wants, and what is left of it.
WAYS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Comparisons, in both orders.
    (re.compile(rf"\b{_ORG}\s*=\s*{_OTHER}"), "true"),
    (re.compile(rf"{_OTHER}\s*=\s*{_ORG}\b"), "true"),
    # Joins whose columns have the same name on both sides.
    (re.compile(r"\busing \(org_id, "), "using ("),
    # The word of its org that every passage has, for the index of words.
    (re.compile(r"\('''@' \|\| app_org\(\) \|\| ''''\)::tsquery && "), ""),
)


def stripped(text: str) -> tuple[str, int]:
    """A query's text without its conditions on the org, and how many those were."""
    removed = 0
    for way, left in WAYS:
        text, found = way.subn(left, text)
        removed += found
    return text, removed


def bared(query: Query) -> tuple[str, int]:
    """The same of a query, unless it is one of all orgs."""
    return (query.text, 0) if query.name in OF_ALL_ORGS else stripped(query.text)


def query_files() -> list[str]:
    """Every file of queries that calls run."""
    named = (file.name for file in files("waybook.store").iterdir())
    found = {name.removesuffix(".sql") for name in named if name.endswith(".sql")}
    return sorted(found - OPERATORS - {"schema", "parts"})


def queries() -> list[Query]:
    """Every query that calls run, those the store made of others among them."""
    found: dict[int, Query] = {}
    for module in iter_modules(store.__path__):
        held_there = vars(import_module(f"waybook.store.{module.name}"))
        for held in held_there.values() if module.name not in OPERATORS else ():
            several = held.values() if isinstance(held, Mapping) else (held,)
            found |= {id(one): one for one in several if isinstance(one, Query)}
    return list(found.values())


@contextmanager
def stripping() -> Iterator[int]:
    """Every query without its conditions on the org; how many conditions are gone."""
    before = [(query, dict(vars(query))) for query in queries()]
    try:
        yield strip()
    finally:
        for query, kept in before:
            vars(query).update(kept)


def strip() -> int:
    """Take the conditions from every query, where it stands; returns how many are gone."""
    removed = 0
    for query in queries():
        bare, found = bared(query)
        if found:
            vars(query).update(vars(Query(query.name, bare)))
        removed += found
    return removed
