"""Row-level security alone isolates orgs, even if no query has an org condition.

`make harness NAME=test-rls` removes the org conditions from all queries and runs many tests;
`app/test_foreign_ids.py` does the same for its tests. The tests in this file check that all
conditions are removed.
"""

import os
import re

import pytest

from rls_only_queries import (
    OF_ALL_ORGS,
    SWITCH,
    queries,
    query_files,
    rls_only,
    strip_org_conditions,
    stripping,
)
from waybook.store import deliveries
from waybook.store.driver.queries import load

if SWITCH in os.environ:
    pytest.skip("the org conditions are removed from the queries already", allow_module_level=True)

#: Pattern for an org condition, with the org on either side.
CONDITION = re.compile(
    r"(?:\borg_id|app_org\(\))\s*(?:=|<>|in\b|is\b)|(?:=|<>)\s*(?:\w+\.)?(?:org_id\b|app_org\(\))"
)
#: Pattern for comparisons that contain the org but are no org conditions: they compare the subject
#: of an audit entry, or rows of an archive that have no org yet.
ABOUT_ORGS = re.compile(
    r"\bsubject_id\s*(?:=|<>)\s*(?:(?:\w+\.)?org_id\b|app_org\(\))|\borg_id = e\.subject_id"
    r"|\borg_id is distinct from app_org\(\)"
)
#: Two queries with an org condition, which `strip_org_conditions` must change.
CONDITIONS = {"claim", "full_text"}


def test_org_conditions_are_removed_from_every_sql_query_file() -> None:
    looked_at = {query.name for query in queries()}
    for file in query_files():
        assert set(load(file)) <= looked_at, file


def test_every_org_condition_is_removed_from_the_queries() -> None:
    left = {}
    for file in query_files():
        for name, query in load(file).items():
            text, _ = strip_org_conditions(query.text)
            if name not in OF_ALL_ORGS and CONDITION.search(ABOUT_ORGS.sub("", text)):
                left[f"{file}.{name}"] = text
    assert left == {}


def test_removed_org_conditions_are_put_back_afterwards() -> None:
    claim = deliveries.SQL["claim"]
    before = {query: query.text for query in queries()}
    taken = sum(rls_only(query)[1] for query in before)
    form = claim(most=1, lease=1).form
    with stripping() as removed:
        assert removed == taken > 0
        assert "org_id =" not in claim.text
        assert claim(most=1, lease=1).form != form
        assert {query.name for query, text in before.items() if query.text != text} >= CONDITIONS
    assert {query: query.text for query in queries()} == before
    assert claim(most=1, lease=1).form == form


@pytest.mark.parametrize(
    "condition",
    [
        "where org_id <> %(a)s",
        "where p.org_id in (select 1)",
        "and app_org() = any (x)",
        "x = org_id",
    ],
)
def test_pattern_finds_an_org_condition_that_was_not_removed(condition: str) -> None:
    assert CONDITION.search(strip_org_conditions(condition)[0])


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("where org_id = app_org() and id = %(id)s", "where true and id = %(id)s"),
        ("where p.org_id = %(org_id)s::uuid", "where true"),
        ("on a.org_id = b.org_id and a.id = b.id", "on true and a.id = b.id"),
        ("where app_org() = p.org_id", "where true"),
        ("join plan using (org_id, id)", "join plan using (id)"),
        ("insert into org (org_id) values (%(org_id)s)", None),
        ("on conflict (org_id, id) do nothing", None),
    ],
)
def test_removing_an_org_condition_keeps_the_rest_of_the_query(
    condition: str, left: str | None
) -> None:
    assert strip_org_conditions(condition) == ((left, 1) if left else (condition, 0))


@pytest.mark.parametrize("name", sorted(OF_ALL_ORGS))
def test_only_retention_has_queries_for_several_orgs(name: str) -> None:
    assert [file for file in query_files() if name in load(file)] == ["maintenance/retention"]
