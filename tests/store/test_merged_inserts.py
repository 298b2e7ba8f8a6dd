"""Inserts of several calls, merged into one statement that gives each call its own result."""

import asyncio
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from grouped_calls import busy_org, no_effect
from org_env import OrgEnv
from waybook.store.calls import Key, lookup_statement, read_answer, store_answer
from waybook.store.driver.group_commit import MERGED, Call, merge_inserts
from waybook.store.driver.queries import Query, Rows, Statement

FIRST = Query("first", "insert into first (number, text) values %(merged_rows)s")
SECOND = Query("second", "insert into second (number) values %(merged_rows)s")
SEPARATE = Query("separate", "insert into separate (number) values %(rows)s")
CHANGE = Query("change", "update first set text = %(text)s")


def inserts(query: Query, width: int) -> st.SearchStrategy[Statement]:
    rows = st.lists(st.tuples(*[st.integers(0, 9)] * width), min_size=1, max_size=10)
    place = query.places[0]
    return rows.map(lambda listed: query(**{place: Rows(listed)}))


MESSAGES = st.lists(
    st.one_of(
        inserts(FIRST, 2),
        inserts(SECOND, 1),
        inserts(SEPARATE, 1),
        st.builds(CHANGE, text=st.text("ab")),
        st.just("set local lock_timeout = '50ms'"),
    )
)


def is_merged(statement: Statement | str) -> bool:
    return not isinstance(statement, str) and statement.form.merges is not None


def parameters_of(query: Query, message: list[Statement | str]) -> list[bytes | None]:
    """Return, in order, the parameters of those statements that can be merged into `query`."""
    listed = [s for s in message if isinstance(s, Statement) and s.form.merges is query]
    return [parameter for statement in listed for parameter in statement.parameters]


@given(MESSAGES)
def test_merging_inserts_keeps_all_rows_and_order_of_other_statements(
    message: list[Statement | str],
) -> None:
    merged, places = merge_inserts(message)
    others = [statement for statement in message if not is_merged(statement)]
    assert merged[: len(others)] == others
    assert all(map(is_merged, merged[len(others) :]))
    for query in (FIRST, SECOND):
        assert parameters_of(query, merged) == parameters_of(query, message)
    for statement, place in zip(message, places, strict=True):
        assert (place == MERGED) if is_merged(statement) else merged[place] is statement


def stored(key: Key) -> Statement:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return store_answer(key, {"answer": key.key}, now, is_error=False)


async def test_each_call_of_a_merged_insert_gets_a_separate_result(
    own_world: OrgEnv,
) -> None:
    database, org_id = own_world.database, own_world.agent.org_id
    report = Query("report", "select %(text)s::text")
    keys = [Key("a tool", name, "ann", b"hash") for name in ("a", "b", "c", "d")]
    calls = [Call(org_id, key.key, [stored(key), report(text=key.key)], no_effect) for key in keys]
    async with busy_org(database, org_id, len(calls)):
        tasks = [asyncio.create_task(database.commit(call)) for call in calls]
    assert await asyncio.gather(*tasks) == [[[], [(key.key,)]] for key in keys]
    for key in keys:
        (row,) = (await database.read_org(org_id, lookup_statement(key)))[0]
        assert read_answer(row, key).body == {"answer": key.key}
