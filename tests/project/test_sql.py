"""SQL is kept in `.sql` files, so that `psql` can run it and diffs show it."""

import ast
import re

from project.repository import SOURCE, modules

QUERY = re.compile(
    r"\s*(select\s+\S|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|with\s+\w+\s+as\s*\()"
)

#: Queries that are too small for a file of their own: the current time, and the list of orgs for a
#: sweep.
ALLOWED = {"select app_now()", "select org_id from org"}

NAMED = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def test_python_modules_contain_no_sql_query() -> None:
    queries = {
        f"{module.name}:{node.lineno}": node.value
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if QUERY.match(node.value) and node.value not in ALLOWED
    }
    assert queries == {}


def test_sql_file_query_names_are_unique() -> None:
    files = sorted(SOURCE.glob("store/*.sql"))
    names = {file.name: NAMED.findall(file.read_text(encoding="utf-8")) for file in files}
    assert any(names.values())
    assert {file for file, queries in names.items() if len(queries) > len(set(queries))} == set()
