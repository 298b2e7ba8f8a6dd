"""Queries that the database owner runs: each filters by org (decision 0045).

Row-level security does not apply to every owner.
"""

import re
from collections.abc import Iterator

import pytest

from project.repository import Module, modules
from waybook.store.driver.queries import Query, load
from waybook.store.maintenance.migrate import bundled_migrations

#: Statements that list the orgs without reading their data, so they need no org condition.
OF_ALL_ORGS = {"find_org", "orgs", "erased_orgs"}

#: Statements that are executed for one row at a time, with its primary key. `Owner.do_each` checks
#: how many rows they change.
BY_KEY = {"reseal_entry"}

IMPORTS_OWNERS = "from waybook.store.maintenance.owner import "
LOADED = re.compile(r'\bload\(\s*"([\w/]+)"')
RUN_UNCHECKED = re.compile(r'\bowner\.(?:execute|fetch)\(\s*SQL\["(\w+)"\]')
TABLE = re.compile(r"^create table (\w+) \((.*?)^\)", re.MULTILINE | re.DOTALL)
NAMED_TABLE = re.compile(r"\b(?:from|join|update|into)\s+(\{table\}|\w+)")
#: Org condition of one table in a query: compares `org_id` with the parameter, or with the `org_id`
#: of another table.
CONDITION = re.compile(r"\b(?:\w+\.)?org_id = (?:%\(org_id\)s|\w+\.org_id)|\(org_id, ")
EXPLICIT = "%(org_id)s"
RETURNING = re.compile(r"\breturning (?:\w+\.)?org_id$")


def owner_modules() -> list[Module]:
    return [
        module
        for module in modules()
        if IMPORTS_OWNERS in module.text and LOADED.search(module.text)
    ]


def owner_queries() -> Iterator[tuple[str, Query]]:
    for module in owner_modules():
        for file in LOADED.findall(module.text):
            yield from ((file, query) for query in load(file).values())


def org_tables() -> set[str]:
    schema = "".join(migration.text for migration in bundled_migrations())
    return {name for name, columns in TABLE.findall(schema) if re.search(r"\borg_id\b", columns)}


def missing_clause(query: Query) -> str | None:
    """Return what a query lacks to be safe without row-level security, or None."""
    ours = {"{table}", *org_tables(), "mcp_tool_call_log_default"}
    named = [table for table in NAMED_TABLE.findall(query.text) if table in ours]
    changes = re.match(r"(?:delete|update)\b", query.text)
    if changes and query.name not in BY_KEY and not RETURNING.search(query.text):
        return "whose rows it touched"
    if not named or query.name in OF_ALL_ORGS or query.text.startswith(("create", "drop")):
        return None
    if EXPLICIT not in query.text or len(CONDITION.findall(query.text)) < len(named):
        return f"the org of each of {named}"
    return None


def test_every_query_of_the_database_owner_filters_by_org() -> None:
    files = {file for file, _ in owner_queries()}
    names = ("erasure", "user_erasure", "retention", "archived_plans", "archived_runs")
    assert files >= {f"maintenance/{name}" for name in names}
    errors = {
        f"{file}.{query.name}": lack
        for file, query in owner_queries()
        if (lack := missing_clause(query))
    }
    assert errors == {}


def test_unchecked_methods_of_the_database_owner_run_no_changes() -> None:
    for module in owner_modules():
        queries = dict(pair for file in LOADED.findall(module.text) for pair in load(file).items())
        run = {name for name in RUN_UNCHECKED.findall(module.text) if name in queries}
        assert run
        changing = {name for name in run if queries[name].text.startswith(("delete", "update"))}
        assert changing == set(), module.name


@pytest.mark.parametrize(
    ("text", "lack"),
    [
        ("delete from {table}", "whose"),
        ("delete from {table} returning org_id", "the org"),
        ("delete from plan where org_id = app_org() returning org_id", "the org"),
        ("update plan set name = 'x' where org_id = %(org_id)s", "whose"),
        ("select 1 from plan p join run r on r.id = p.id where p.org_id = %(org_id)s", "the org"),
        ("insert into erasure (number) values (%(org_id)s)", "the org"),
        ("insert into erasure (org_id, number) values (%(org_id)s, 1)", None),
        ("delete from plan where org_id = %(org_id)s returning org_id", None),
        ("select 1 from pg_class", None),
    ],
)
def test_owner_query_check_reports_a_missing_org_filter(text: str, lack: str | None) -> None:
    error = missing_clause(Query("some", text))
    assert (error or "").startswith(lack or "")
    assert (error is None) == (lack is None)
