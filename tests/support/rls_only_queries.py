"""SQL queries without their org filter, so that row-level security alone isolates orgs.

`make harness NAME=test-rls` sets `WAYBOOK_TEST_WITHOUT_ORG=1`, which removes the filters from all
queries for the whole test run. The fixture `without_org` removes them for a single test.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import walk_packages

from waybook import store
from waybook.store.driver.queries import Query

SWITCH = "WAYBOOK_TEST_WITHOUT_ORG"

OPERATORS = frozenset({"maintenance/migrate"})

#: Queries that the database owner runs for all orgs.
OF_ALL_ORGS = frozenset({"create_policy", "erased_orgs"})

_ORG = r"(?:\w+\.)?org_id"
_OTHER = rf"(?:app_org\(\)|{_ORG}|%\(\w+\)s(?:::uuid)?)"
#: Patterns that match every form of an org filter, each with a replacement.
WAYS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Comparisons of a column `org_id` with the caller's org or another column.
    (re.compile(rf"\b{_ORG}\s*=\s*{_OTHER}"), "true"),
    (re.compile(rf"{_OTHER}\s*=\s*{_ORG}\b"), "true"),
    # Joins on columns that have the same name in both tables.
    (re.compile(r"\busing \(org_id, "), "using ("),
    # In a full-text search, the term that all passages of one org contain.
    (re.compile(r"\('''@' \|\| %\(org\)s::uuid \|\| ''''\)::tsquery && "), ""),
)


def strip_org_conditions(text: str) -> tuple[str, int]:
    """Return an SQL query without its org filters, and the number of removed filters."""
    removed = 0
    for way, left in WAYS:
        text, count = way.subn(left, text)
        removed += count
    return text, removed


def rls_only(query: Query) -> tuple[str, int]:
    """Return a query and 0 if it is for all orgs; otherwise, strip and count its org filters."""
    return (query.text, 0) if query.name in OF_ALL_ORGS else strip_org_conditions(query.text)


def query_files() -> list[str]:
    """Return every file with SQL queries that tool calls run."""
    folder = Path(str(files("waybook.store")))
    names = {
        path.relative_to(folder).with_suffix("").as_posix()
        for path in folder.rglob("*.sql")
        if path.parent.name != "migrations"
    }
    return sorted(names - OPERATORS - {"parts"})


def queries() -> list[Query]:
    """Return every SQL query that tool calls run, and the queries derived from them."""
    queries_by_id: dict[int, Query] = {}
    for module in walk_packages(store.__path__, f"{store.__name__}."):
        held_there = vars(import_module(module.name))
        file = module.name.removeprefix(f"{store.__name__}.").replace(".", "/")
        for held in held_there.values() if file not in OPERATORS else ():
            several = held.values() if isinstance(held, Mapping) else (held,)
            queries_by_id |= {
                id(candidate): candidate for candidate in several if isinstance(candidate, Query)
            }
    return list(queries_by_id.values())


@contextmanager
def stripping() -> Iterator[int]:
    before = [(query, dict(vars(query))) for query in queries()]
    try:
        yield strip()
    finally:
        for query, attributes in before:
            _replace(query, attributes)


def strip() -> int:
    """Remove the org filters from every SQL query in place; return the number removed."""
    removed = 0
    for query in queries():
        bare, count = rls_only(query)
        if count:
            _replace(query, vars(Query(query.name, bare, query.row)))
        removed += count
    return removed


def _replace(query: Query, attributes: Mapping[str, object]) -> None:
    """Replace all attributes of a query, including the cached results of parsing its old text."""
    vars(query).clear()
    vars(query).update(attributes)
