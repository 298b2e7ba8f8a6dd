"""Keys of short ids: equal in Python and SQL, and unique in an org."""

from uuid import UUID

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st

from full_ids import full_id
from org_env import OrgEnv
from postgres_servers import ServerDatabase
from waybook.core.short_ids import IdKind, encode_key, parse_short_id, short_key
from waybook.store.driver.queries import new_id
from waybook.store.short_ids import ShortIdCache, lookup_statement

ORG = UUID(int=1)


@settings(max_examples=20)
@given(uuids=st.lists(st.uuids(), min_size=50, max_size=50))
def test_short_id_key_is_equal_in_sql_and_python(
    module_place: ServerDatabase, uuids: list[UUID]
) -> None:
    with psycopg.connect(module_place.admin_dsn) as admin:
        rows = admin.execute(
            "select app_short_key(id) from unnest(%s::uuid[]) with ordinality u (id, n) order by n",
            (uuids,),
        ).fetchall()
    assert [row[0] for row in rows] == [short_key(str(uuid)) for uuid in uuids]


async def test_short_id_lookup_finds_only_rows_of_the_org(world: OrgEnv) -> None:
    plan = await world.agent.plan()
    key = parse_short_id(plan["planId"])
    assert key is not None
    statement = lookup_statement(IdKind.PLAN, [key, key + 1])
    (ours,) = await world.database.read_org(world.agent.org_id, statement)
    (theirs,) = await world.database.read_org(world.other_org.org_id, statement)
    assert [(row.id, row.short_key) for row in ours] == [(full_id(plan["planId"]), key)]
    assert theirs == []


def test_full_short_id_cache_drops_the_oldest_entry() -> None:
    cache, ids = ShortIdCache(most=2), [new_id() for _ in range(3)]
    shorts = [cache.add(ORG, IdKind.STEP, full) for full in ids]
    assert [cache.get(ORG, IdKind.STEP, short) for short in shorts] == [None, *ids[1:]]


def test_short_id_cache_never_returns_other_org_or_kind() -> None:
    cache, full = ShortIdCache(), new_id()
    short = cache.add(ORG, IdKind.STEP, full.upper())
    assert cache.get(ORG, IdKind.STEP, short) == full
    assert cache.get(UUID(int=2), IdKind.STEP, short) is None
    assert cache.get(ORG, IdKind.PLAN, short) is None


def test_largest_short_id_key_has_nine_characters() -> None:
    assert encode_key(31**9 - 1)[:9] == 9 * "z"
