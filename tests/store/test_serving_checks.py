"""Start of a server: it refuses an unsuitable schema, and migrates only if a setting allows it."""

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_servers import Server, ServerDatabase, new_database
from sample_migrations import SAMPLE, bundle
from waybook.bootstrap import start_application
from waybook.errors import Misconfigured
from waybook.settings import Settings
from waybook.store.maintenance.migrate import (
    Migration,
    bundled_migrations,
    judge_schema,
    migrate,
)


@pytest.fixture
def empty(server: Server) -> Iterator[ServerDatabase]:
    with new_database(server, template="template0") as place:
        yield place


async def start(place: ServerDatabase, migrate: str = "embedded") -> None:
    settings = Settings(database_url=place.app_dsn, owner_url=place.owner_dsn, migrate=migrate)
    async with start_application(settings):
        pass


async def test_server_does_not_migrate_an_external_database_by_default(
    empty: ServerDatabase,
) -> None:
    with pytest.raises(Misconfigured, match=r"lacks \d+ migrations"):
        await start(empty)
    with psycopg.connect(empty.owner_dsn) as owner:
        row = owner.execute("select to_regclass('schema_migration')").fetchone()
    assert row == (None,)


async def test_server_migrates_an_external_database_if_migrate_is_always(
    empty: ServerDatabase,
) -> None:
    await start(empty, migrate="always")
    assert migrate(empty.owner_dsn) == []


async def test_error_at_server_start_names_the_migration_that_is_missing(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty.owner_dsn)
    bundle(monkeypatch, *bundled_migrations(), SAMPLE)
    with pytest.raises(Misconfigured, match=f"{SAMPLE.title}; run waybook migrate"):
        await start(empty)


async def test_server_starts_on_newer_schema_only_if_marked_compatible(
    empty: ServerDatabase,
) -> None:
    migrate(empty.owner_dsn)
    newest = bundled_migrations()[-1].number
    add = """insert into schema_migration (number, name, digest, oldest_compatible)
             values (%s, %s, %s, %s)"""
    with psycopg.connect(empty.owner_dsn, autocommit=True) as owner:
        owner.execute(add, (newest + 1, "expanding", "", newest))
        await start(empty)
        owner.execute(add, (newest + 2, "contracting", "", newest + 1))
        with pytest.raises(Misconfigured, match=f"knows migration {newest + 1}"):
            await start(empty)


def test_server_refuses_to_start_if_an_applied_migration_was_edited() -> None:
    ours = Migration(1, "first", "create table a ()")
    with pytest.raises(Misconfigured, match="0001_first was edited"):
        judge_schema([(1, "other", 1)], [ours])


@given(known=st.integers(1, 8), requirements=st.lists(st.integers(1, 12), min_size=1, max_size=12))
def test_schema_is_usable_if_migrations_are_complete_and_compatible(
    known: int, requirements: list[int]
) -> None:
    bundled = [Migration(number, "m", str(number)) for number in range(1, known + 1)]
    applied = [
        (number, bundled[number - 1].digest if number <= known else "", min(number, oldest))
        for number, oldest in enumerate(requirements, 1)
    ]
    is_usable = len(applied) >= known and max(oldest for *_, oldest in applied) <= known
    try:
        judge_schema(applied, bundled)
    except Misconfigured:
        assert not is_usable
    else:
        assert is_usable
