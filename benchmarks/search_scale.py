"""Search over 100,000 passages of one org and as many of others: portable and pgvector backends.

Vectors ranked in the process are measured on the embedded server, under row-level security and, for
comparison, as the superuser through views that filter by org. pgvector is measured on a server of
your own, whose superuser's URL is given; without a URL, the output says that it was not measured.
Recall is against exact ranking of the float32 vectors.

    python benchmarks/search_scale.py [--passages 100000] [--questions 60] [--pgvector-url URL]
"""

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

import numpy as np
import psycopg
import uvloop
from numpy.typing import NDArray
from psycopg.conninfo import make_conninfo

from waybook.app.request.portable_search import PortableSearch
from waybook.app.request.vector_cache import VectorCache
from waybook.cli.demo.environment import temporary_database
from waybook.embedded_postgres.supervisor import attach
from waybook.research.embedding import builtin_embedder
from waybook.research.fusion import RankedPassage, fuse
from waybook.research.query import SearchQuery, parse_query
from waybook.research.ranking import quantize
from waybook.research.vocabulary import builtin_word_vectors
from waybook.store.driver.database import Database
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.queries import new_id
from waybook.store.maintenance.migrate import APP_ROLE, migrate
from waybook.store.research import search
from waybook.store.research.artifacts import Backend, embedding_text
from waybook.store.research.embeddings import encode_vector
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities

#: Maximum slowdown of a search by row-level security.
LIMIT = 1.5
#: Promised recall against exact ranking: within 0.02. Neighbors here are 0.001 apart.
LEAST_RECALL = 0.98
OTHER_ORGS = 9
TOPICS = 500
SAMPLES = 8
KINDS = ("note", "finding", "quote")
ZIPF = list(itertools.accumulate(1 / rank for rank in range(1, TOPICS * 30 + 1)))
NEAREST = 10
QUERIES = Path(__file__).with_suffix(".sql").read_text()
Floats = NDArray[np.float32]
EMBEDDER = builtin_embedder()
OURS = UUID("00000000-0000-7000-8000-000000000100")


class Corpus(NamedTuple):
    """Passages and their vectors, those of our org first."""

    ids: list[UUID]
    orgs: list[UUID]
    vectors: Floats
    ours: int


class Measured(NamedTuple):
    """Result of one search method: latencies in ms, and recall."""

    label: str
    times: list[float]
    recall: float


# Setup


def named(name: str) -> str:
    """Return a statement of the SQL file next to this one."""
    lines = QUERIES.split(f"-- name: {name}\n")[1].split("-- name:")[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


@cache
def words() -> list[str]:
    """Return ordinary words, the most frequent first."""
    known = builtin_word_vectors().numbers
    return [word for word in known if word.isalpha() and len(word) > 3][: TOPICS * 30]


@cache
def topics() -> list[list[str]]:
    """Return the topics, each as a list of thirty words."""
    shuffled = random.Random(1).sample(words(), TOPICS * 30)  # noqa: S311 - not for secrets
    return [shuffled[30 * n : 30 * n + 30] for n in range(TOPICS)]


@contextmanager
def timed(what: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    print(f"  {what:44}{time.perf_counter() - started:8.1f} s", flush=True)


def text(topic: list[str], chance: random.Random) -> tuple[str, str]:
    """Return a title and forty words, half from a topic, half by Zipf's law."""
    picked = chance.choices(topic, k=20) + chance.choices(words(), cum_weights=ZIPF, k=20)
    chance.shuffle(picked)
    return " ".join(chance.sample(topic, 4)), " ".join(picked)


def corpus(count: int) -> Corpus:
    """Return `count` passages of ours and of others; vectors are mixed from topic samples."""
    chance, mixed = random.Random(3), np.random.default_rng(3)  # noqa: S311 - not for secrets
    made = [
        [EMBEDDER.embed(embedding_text(*text(t, chance))) for _ in range(SAMPLES)] for t in topics()
    ]
    samples = np.array(made, np.float32)
    about = np.arange(2 * count) % TOPICS
    weights = mixed.dirichlet(np.ones(SAMPLES), 2 * count).astype(np.float32)
    vectors = np.einsum("ns,nsd->nd", weights, samples[about]).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    others = [UUID(int=OURS.int + 1 + n % OTHER_ORGS) for n in range(count)]
    return Corpus([uuid4() for _ in range(2 * count)], [OURS] * count + others, vectors, count)


def fill(dsn: str, stored: Corpus, backend: Backend) -> None:
    """Fill the tables, then build the indexes."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("set maintenance_work_mem = '1GB'")
        run(admin, "prepare")
        if backend is Backend.PGVECTOR:
            run(admin, "prepare_pgvector")
        for org in sorted(set(stored.orgs)):
            admin.execute(named("org"), {"org": org, "slug": f"org-{org}"})
        for part, rows in (("passages", texts(stored)), (backend, encoded(stored, backend))):
            with timed(f"copy {part}"), admin.cursor().copy(named(part)) as copy:
                for row in rows:
                    copy.write_row(row)
        parts = ["artifacts", "index", "vacuum"]
        for part in ("index_pgvector", *parts) if backend is Backend.PGVECTOR else parts:
            with timed(part):
                run(admin, part)


def run(admin: psycopg.Connection, name: str) -> None:
    for line in named(name).split(";")[:-1]:
        admin.execute(line)


def texts(stored: Corpus) -> Iterator[tuple[object, ...]]:
    chance = random.Random(2)  # noqa: S311 - not for secrets
    for n, (org, subject) in enumerate(zip(stored.orgs, stored.ids, strict=True)):
        title, body = text(topics()[n % TOPICS], chance)
        at = datetime.fromtimestamp(n, UTC)
        yield org, "artifact", subject, 1, KINDS[n % 3], title, body, at


def encoded(stored: Corpus, backend: Backend) -> Iterator[tuple[object, ...]]:
    for org, subject, vector in zip(stored.orgs, stored.ids, stored.vectors, strict=True):
        numbers = tuple(vector.tolist())
        made = quantize(numbers) if backend is Backend.PORTABLE else encode_vector(numbers, org)
        yield org, subject, 1, EMBEDDER.model, made


# Queries


def questions(count: int) -> list[SearchQuery]:
    """Return questions, each of three words of a topic and one common word."""
    chance, common = random.Random(4), words()[200:2_000]  # noqa: S311 - not for secrets
    asked = (
        [*chance.sample(chance.choice(topics()), 3), chance.choice(common)] for _ in range(count)
    )
    return [parse_query(" ".join(picked)) for picked in asked]


async def ask(
    database: Database, question: SearchQuery, able: SearchCapabilities, memory: VectorCache
) -> tuple[dict[str, list[RankedPassage]], float]:
    """Search and return the ranked lists and the latency in ms, from question to fused list."""
    started = time.perf_counter()
    vector = EMBEDDER.embed(question.embedding_text)
    meant = QueryVector(vector=vector, model=EMBEDDER.model, org_id=OURS)
    asked = search.search_statements(question, meant, Scope(), able)
    if able.backend is Backend.PORTABLE:
        portable = PortableSearch(memory, database, meant, Scope())
        more = await portable.begin()
        results = await database.read_org(OURS, *asked, *more)
        lists = search.read_ranked(results[: len(asked)])
        lists["meaning"] = await portable.finish(results[len(asked) :])
    else:
        lists = search.read_ranked(await database.read_org(OURS, *asked))
    fuse(lists)
    return lists, (time.perf_counter() - started) * 1e3


async def measure(
    label: str, database: Database, backend: Backend, stored: Corpus, asked: list[SearchQuery]
) -> Measured:
    """Ask all questions, after a warm-up round."""
    memory, able = VectorCache(), SearchCapabilities(backend=backend, indexed=True)
    _, cold = await ask(database, asked[0], able, memory)
    if backend is Backend.PORTABLE:
        each = memory.size_bytes / stored.ours
        print(f"  {label}: first search {cold:.0f} ms, {each:.0f} bytes a passage in memory")
    times, hits = [], 0
    for turn in range(2):
        for question in asked:
            lists, took = await ask(database, question, able, memory)
            if turn:
                times.append(took)
                found = {UUID(one.subject_id) for one in lists["meaning"][:NEAREST]}
                hits += len(found & truth(stored, question))
    return Measured(label, times, hits / NEAREST / len(asked))


def truth(stored: Corpus, question: SearchQuery) -> set[UUID]:
    """Return the nearest passages of our org, by exact ranking of floats."""
    query = np.array(EMBEDDER.embed(question.embedding_text), np.float32)
    best = np.argsort(-(stored.vectors[: stored.ours] @ query), kind="stable")[:NEAREST]
    return {stored.ids[n] for n in best.tolist()}


def opened(dsn: str, role: str | None) -> closing[Database]:
    return closing(Database(ConnectionPool(dsn, size=1), role=role))


async def portable(stored: Corpus, asked: list[SearchQuery]) -> tuple[list[Measured], float]:
    """Measure on the embedded server: with and without row-level security, and one read by key."""
    with temporary_database() as folder, attach(folder) as postgres:
        migrate(postgres.owner_dsn)
        fill(postgres.admin_dsn, stored, Backend.PORTABLE)
        bare = make_conninfo(postgres.admin_dsn, options="-c search_path=bare,public")
        with opened(bare, None) as unguarded, opened(postgres.app_dsn, None) as guarded:
            ways = {"portable, no row-level security": unguarded, "portable": guarded}
            found = [await measure(n, d, Backend.PORTABLE, stored, asked) for n, d in ways.items()]
            times = []
            for subject in stored.ids[: len(asked)]:
                started = time.perf_counter()
                await guarded.read_org(OURS, search.hits_statement([(str(subject), 1)]))
                times.append((time.perf_counter() - started) * 1e3)
            return found, statistics.median(times)


async def pgvector(url: str, stored: Corpus, asked: list[SearchQuery]) -> Measured:
    """Measure in a database created for it on a server with the extension, as its superuser."""
    name = f"waybook_bench_{new_id().replace('-', '')}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        try:
            dsn = make_conninfo(url, dbname=name)
            with psycopg.connect(dsn, autocommit=True) as inside:
                inside.execute("create extension vector")
            migrate(dsn)
            fill(dsn, stored, Backend.PGVECTOR)
            with opened(dsn, APP_ROLE) as database:
                return await measure("pgvector", database, Backend.PGVECTOR, stored, asked)
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


async def main(passages: int, count: int, url: str | None) -> None:
    """Set up, measure and compare."""
    with timed(f"making {2 * passages:,} passages"):
        stored, asked = corpus(passages), questions(count)
    found, key = await portable(stored, asked)
    if url:
        found.append(await pgvector(url, stored, asked))
    report(passages, found, key)


def report(passages: int, found: list[Measured], key: float) -> None:
    """Print the medians and the recall, and fail beyond the limits."""
    title = f"fused search, {passages:,} of one org"
    print(f"{title:38}{'p50 ms':>10}{'p95 ms':>10}{f'recall@{NEAREST}':>12}")
    for label, times, recall in found:
        slow = statistics.quantiles(times, n=20)[-1]
        print(f"{label:38}{statistics.median(times):10.2f}{slow:10.2f}{recall:12.3f}")
    print(f"{'one passage by its key':38}{key:10.2f}")
    if not any(one.label == "pgvector" for one in found):
        print("pgvector was not measured: name a server that has it with --pgvector-url")
    bare, guarded, *_ = (statistics.median(one.times) for one in found)
    print(f"{'ratio to no row-level security':38}{guarded / bare:10.2f}   limit {LIMIT}")
    assert guarded / bare <= LIMIT, f"{guarded / bare:.2f} times as slow as unguarded"
    assert found[1].recall >= LEAST_RECALL, f"recall is {found[1].recall:.3f}"
    assert found[1].recall == found[0].recall, "row-level security lost hits"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--pgvector-url")
    arguments = parser.parse_args()
    uvloop.run(main(arguments.passages, arguments.questions, arguments.pgvector_url))
