"""Semantic search with pgvector; skipped if the extension is missing or fails on this CPU."""

import psycopg
import pytest

from background_rounds import index_all
from org_env import make_env, open_test_database
from postgres_servers import Server, ServerDatabase, new_database
from store.search_corpus import SearchCorpus, make_search_corpus
from store.test_queries import prepared
from store.test_search import NOTES
from waybook.app.request.search_backend import SearchBackend
from waybook.research.embedding import Backend
from waybook.research.fusion import fuse
from waybook.store.driver.database import Database
from waybook.store.maintenance.migrate import migrate
from waybook.store.research import artifacts

#: Names of the queries that use pgvector's table.
VECTOR_QUERIES = ("insert_vectors", "nearest_vectors", "nearest_vectors_in_plan", "without_vectors")


def has_vectors(place: ServerDatabase) -> bool:
    with psycopg.connect(place.admin_dsn) as admin:
        return bool(admin.execute("select to_regclass('passage_vector')").fetchall()[0][0])


async def make_filled_library(
    database: Database, place: ServerDatabase, backend: Backend
) -> SearchCorpus:
    """Store the same texts in two orgs; return the search corpus of the first."""
    mine = await make_search_corpus(database, place, backend)
    theirs = await make_search_corpus(database, place, backend)
    for name, text in NOTES.items():
        await mine.store(name, text)
        await theirs.store(f"their {name}", text)
    return mine


async def test_search_returns_the_same_hits_with_and_without_pgvector(
    pgvector_place: ServerDatabase,
) -> None:
    async with open_test_database(pgvector_place) as database:
        filled = [
            await make_filled_library(database, pgvector_place, variant) for variant in Backend
        ]
        for query in (*NOTES, *NOTES.values(), "insects pointing to blossoms", "icy reservoir"):
            titles = [await variant.search(query) for variant in filled]
            assert titles[0][0] == titles[1][0]
            assert set(titles[0]) == set(titles[1])
            measures = [[f.measure for f in (await o.lists(query))["meaning"]] for o in filled]
            assert measures[0] == pytest.approx(measures[1], abs=0.004)


async def test_hnsw_index_returns_the_same_hits_as_exact_scan(
    pgvector_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_test_database(pgvector_place) as database:
        library = await make_filled_library(database, pgvector_place, Backend.PGVECTOR)
        compared = [(await library.lists(text))["meaning"] for text in NOTES.values()]
        monkeypatch.setattr(artifacts, "MAX_EXACT_SCAN", 0)
        walked = [(await library.lists(text))["meaning"] for text in NOTES.values()]
        assert [[hit.subject_id for hit in hits] for hits in walked] == [
            [hit.subject_id for hit in hits] for hits in compared
        ]
        assert all(hits[0].measure == pytest.approx(0.8, abs=0.25) for hits in walked)
        assert (await library.lists("moraine dam", kinds=("nothing",)))["meaning"] == []
        assert fuse(await library.lists("moraine dam"))


BEES = {Backend.PGVECTOR: "Bees", Backend.PORTABLE: "Honeybees"}


async def test_search_after_switching_vector_backend_finds_stored_notes(
    pgvector_place: ServerDatabase,
) -> None:
    async with make_env(pgvector_place) as world:
        services, note = world.dispatcher.services, {"kind": "note", "title": "Lakes"}
        for backend in (Backend.PGVECTOR, Backend.PORTABLE, Backend.PGVECTOR):
            services.parts[SearchBackend] = SearchBackend(backend=backend)
            content = f"The moraine dam of a glacial lake, {backend}."
            await world.agent.call("store_research", **note, content=content)
            await world.agent.call(
                "store_research", kind="note", title=BEES[backend], content=NOTES["bees"]
            )
            await index_all(services)
            reply = await world.agent.call("search_sources", query="insects pointing to blossoms")
            titles = {hit["title"] for hit in reply["hits"]}
            by = {why["by"] for why in reply["hits"][0]["why"]}
            assert BEES[Backend.PGVECTOR] in titles
            assert "meaning" in by
            lake = await world.agent.call("search_sources", query="icy reservoir", limit=50)
            assert sum(hit["title"] == "Lakes" for hit in lake["hits"]) == 1


def test_vector_queries_can_be_prepared_if_pgvector_is_installed(
    pgvector_place: ServerDatabase,
) -> None:
    with psycopg.connect(pgvector_place.app_dsn, autocommit=True) as connection:
        if pgvector_place.server.role:
            connection.execute(f"set role {pgvector_place.server.role}".encode())
        for name in VECTOR_QUERIES:
            text = prepared("research/artifacts", name)
            connection.execute(f"prepare fits_{name} as {text}".encode())


def test_migrate_creates_the_pgvector_table_only_if_enabled(pgvector_server: Server) -> None:
    with new_database(pgvector_server, "template1") as place:
        migrate(place.owner_dsn)
        assert not has_vectors(place)
        with psycopg.connect(place.admin_dsn) as admin:
            admin.execute("create extension if not exists vector")
        assert migrate(place.owner_dsn, vectors=False) == []
        assert not has_vectors(place)
        assert migrate(place.owner_dsn) == []
        assert has_vectors(place)
        assert migrate(place.owner_dsn, vectors=False) == []
        assert has_vectors(place)


def test_migrate_with_old_pgvector_version_creates_no_vector_table(pgvector_server: Server) -> None:
    """With versions before 0.8, a search by index finds too few rows under row-level security."""
    with new_database(pgvector_server, "template1") as place:
        with psycopg.connect(place.admin_dsn) as admin:
            admin.execute("create extension vector")
            admin.execute("update pg_extension set extversion = '0.7.4' where extname = 'vector'")
        migrate(place.owner_dsn)
        assert not has_vectors(place)
