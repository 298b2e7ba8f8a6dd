"""The cache of embeddings contains the writes of all processes and has a maximum size."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from org_env import NOON, open_test_database
from postgres_servers import ServerDatabase
from store.search_corpus import EMBEDDER, SearchCorpus, make_search_corpus
from waybook.app.request import search_backend
from waybook.app.request.search_backend import Held, SearchBackend, VectorCache
from waybook.errors import Misconfigured
from waybook.research.embedding import Backend, cosine_similarity
from waybook.research.query import parse_query
from waybook.store.driver.database import Database
from waybook.store.maintenance.retention import RetentionPolicy, apply_retention
from waybook.store.research import artifacts, embeddings
from waybook.store.research.embeddings import Snapshot

FLOOD = "When an avalanche falls into a glacial lake the wave cuts the dam of loose moraine."
BEES = "A returning forager tells the direction of flowers by dancing on the comb."


@pytest.fixture
async def database(shared_place: ServerDatabase) -> AsyncIterator[Database]:
    async with open_test_database(shared_place) as made:
        yield made


@pytest.fixture
async def library(database: Database, shared_place: ServerDatabase) -> SearchCorpus:
    return await make_search_corpus(database, shared_place)


def another_process(library: SearchCorpus) -> SearchCorpus:
    """Return the same search corpus with its own cache, as in another process."""
    return replace(library, cache=VectorCache())


async def near(library: SearchCorpus, text: str, **scope: Any) -> list[str]:  # noqa: ANN401 - passed on
    """Return the ids that the semantic search finds, without the full-text search."""
    return [hit.subject_id for hit in (await library.lists(text, **scope))["meaning"]]


def count_reads(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Return a list that gets an element with each later use of the SQL query `name`."""
    made: list[str] = []
    query = embeddings.SQL[name]

    def counting(**values: Any) -> Any:  # noqa: ANN401 - passed on
        made.append(name)
        return query(**values)

    monkeypatch.setattr(embeddings, "SQL", {**embeddings.SQL, name: counting})
    return made


async def test_search_reflects_writes_and_deletes_of_other_process(library: SearchCorpus) -> None:
    other = another_process(library)
    first = await library.store("flood", FLOOD)
    assert await near(library, FLOOD) == await near(other, FLOOD) == [first]
    second = await library.store("bees", BEES)
    assert set(await near(other, FLOOD)) == {first, second}
    await library.write(*artifacts.unindex_statements(first))
    assert await near(other, FLOOD) == await near(library, FLOOD) == [second]


async def test_refresh_of_vector_cache_reads_only_changed_vectors(
    library: SearchCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await library.store(f"note {n}", FLOOD) for n in range(3)]
    await near(library, FLOOD)
    pages = count_reads(monkeypatch, "page")
    for artifact_id in ids[:2]:
        await library.write(*artifacts.unindex_statements(artifact_id))
        added = await library.store("more", FLOOD)
        assert {ids[2], added} <= set(await near(library, FLOOD))
        assert artifact_id not in await near(library, FLOOD)
    assert pages == []


async def test_vector_cache_includes_writes_of_a_transaction_that_ends_late(
    library: SearchCorpus,
) -> None:
    """The transaction that begins first may commit last; the cache must include both."""
    subject = artifacts.index_artifact(
        artifact_id="00000000-0000-7000-8000-00000000beef",
        plan_id=None,
        kind="note",
        title="slow",
        tags=(),
        text=FLOOD,
        created_at=NOON,
    )
    pieces = artifacts.split_subjects([subject])
    made = artifacts.Embeddings(EMBEDDER.model, [EMBEDDER.embed(p.embedding_text) for p in pieces])
    async with library.database.org_transaction(library.org_id) as slow:
        await slow.send(*artifacts.index_statements(pieces, made, library.org_id))
        later = await library.store("later", BEES)
        assert await near(library, FLOOD) == [later]
        await slow.commit("select 1")
    assert set(await near(library, FLOOD)) == {later, subject.id}


async def test_two_processes_find_the_same_vectors_after_concurrent_writes(
    library: SearchCorpus,
) -> None:
    other = another_process(library)

    async def write(n: int) -> str:
        old = await library.store(f"old {n}", FLOOD)
        new = await library.store(f"new {n}", FLOOD)
        await library.write(*artifacts.unindex_statements(old))
        return new

    async def search(reader: SearchCorpus) -> None:
        for _ in range(6):
            await near(reader, FLOOD)

    results = await asyncio.gather(
        *(write(n) for n in range(12)), *(search(item) for item in (library, other) * 3)
    )
    stored = {item for item in results if item}
    assert set(await near(library, FLOOD)) == set(await near(other, FLOOD)) == stored


@pytest.mark.parametrize(
    ("later", "leads_on"),
    [
        (Snapshot(running=100, database=5, at=1_000.0), True),
        (Snapshot(running=120, database=5, at=1_060.0), True),
        # A restored database has a different id.
        (Snapshot(running=120, database=6, at=1_060.0), False),
        # An earlier state of the database was restored, so fewer transactions have begun.
        (Snapshot(running=99, database=5, at=1_060.0), False),
        # Deletions are recorded only for a limited time, which has passed.
        (Snapshot(running=120, database=5, at=1_000.0 + 86_400), False),
    ],
)
def test_vector_cache_is_reloaded_after_database_restore_or_long_pause(
    later: Snapshot,
    leads_on: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    held = Held(snapshot=Snapshot(running=100, database=5, at=1_000.0))
    assert held.continues(later) is leads_on


async def test_vector_cache_reloads_all_vectors_after_a_change_of_database(
    library: SearchCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await library.store("flood", FLOOD)
    await near(library, FLOOD)
    owner = (library.org_id, EMBEDDER.model)
    held = await library.cache.get(library.database, owner)
    assert held.snapshot is not None
    held.snapshot = held.snapshot._replace(database=1)
    pages = count_reads(monkeypatch, "page")
    assert await near(library, FLOOD) == [first]
    assert pages == ["page"]


async def test_org_with_too_many_vectors_for_cache_is_searched_completely(
    library: SearchCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (embeddings, search_backend):
        monkeypatch.setattr(module, "PAGE_ROWS", 3)
    kinds = ("odd", "even")
    ids = [await library.store(f"n {n}", f"{FLOOD} {n}", kind=kinds[n % 2]) for n in range(8)]
    small = replace(library, cache=VectorCache(max_bytes=1_000))
    assert await near(small, FLOOD) == await near(library, FLOOD)
    assert set(await near(small, FLOOD)) == set(ids)
    monkeypatch.setattr(embeddings, "FEW", 1)
    assert set(await near(small, FLOOD, kinds=("even",))) == set(ids[1::2])
    assert small.cache.size_bytes == 0
    added = await library.store("added", FLOOD)
    assert added in await near(small, FLOOD)


async def test_vector_cache_evicts_least_recently_searched_org_to_fit_limit(
    database: Database, shared_place: ServerDatabase
) -> None:
    cache = VectorCache(max_bytes=50_000)
    orgs = [await make_search_corpus(database, shared_place) for _ in range(4)]
    for number, org_library in enumerate(orgs):
        org_library.cache = cache
        await org_library.store(f"flood {number}", FLOOD)
        assert len(await near(org_library, FLOOD)) == 1
        assert 0 < cache.size_bytes <= 50_000
    assert len(await near(orgs[0], FLOOD)) == 1
    assert cache.size_bytes <= 50_000


NOTES = [
    f"{FLOOD if n % 2 else BEES} {' '.join(FLOOD.split()[n % 11 :])} note {n}" for n in range(24)
]


async def test_search_ranks_passages_by_vector_similarity_to_the_question(
    library: SearchCorpus,
) -> None:
    ids = {await library.store("note", text): text for text in NOTES}
    for question in (FLOOD, BEES, "insects pointing to blossoms"):
        vector = EMBEDDER.embed(parse_query(question).embedding_text)
        nearest_hits = (await library.lists(question))["meaning"]
        assert {hit.subject_id for hit in nearest_hits} == {*ids}
        measures = [hit.measure for hit in nearest_hits]
        assert measures == sorted(measures, reverse=True)
        for hit in nearest_hits:
            stored = EMBEDDER.embed(artifacts.embedding_text("note", ids[hit.subject_id]))
            assert hit.measure == pytest.approx(cosine_similarity(vector, stored), abs=2e-4)


async def test_vector_search_with_filter_returns_every_match(
    library: SearchCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = ("note", "finding")
    ids = [await library.store(f"n {n}", f"{FLOOD} {n}", kind=kinds[n % 2]) for n in range(20)]
    await library.store("tagged", FLOOD, tags=("wet",), kind="finding")
    plain = await near(library, FLOOD, kinds=("note",))
    monkeypatch.setattr(embeddings, "FEW", 1)
    monkeypatch.setattr(search_backend, "CANDIDATES", 2)
    assert await near(library, FLOOD, kinds=("note",)) == plain
    assert set(plain) == set(ids[::2])
    assert len(await near(library, FLOOD, tags=("wet",))) == 1
    assert await near(library, FLOOD, kinds=("nothing",)) == []


async def test_vector_cache_returns_no_vectors_of_another_embedding_model(
    library: SearchCorpus,
) -> None:
    await library.store("flood", FLOOD)
    owner = (library.org_id, "another model")
    held = await library.cache.get(library.database, owner)
    assert held.vectors is not None
    assert held.vectors.nearest(EMBEDDER.embed(FLOOD), 5) == []


async def test_retention_deletes_records_of_deleted_passages_after_two_days(
    library: SearchCorpus, shared_place: ServerDatabase
) -> None:
    for age in (timedelta(hours=47), timedelta(hours=49)):
        await library.write(*artifacts.unindex_statements(await library.store("old", FLOOD)))
        with psycopg.connect(shared_place.admin_dsn) as admin:
            admin.execute(
                "update passage_deletion set deleted_at = now() - %s"
                " where org_id = %s and deleted_at > now() - interval '1 hour'",
                (age, library.org_id),
            )
    apply_retention(shared_place.owner_dsn, RetentionPolicy(calls=0, answers=0, archived=0))
    assert len(await library.rows("select from passage_deletion")) == 1


async def test_pgvector_search_setting_is_refused_if_pgvector_is_missing(
    library: SearchCorpus,
) -> None:
    if library.abilities.backend is Backend.PGVECTOR:
        pytest.skip("this server has pgvector")
    wanted = SearchBackend(backend="pgvector")
    with pytest.raises(Misconfigured, match="set search_vectors to auto"):
        await wanted.check(library.database, library.org_id)
    await SearchBackend().check(library.database, library.org_id)
