"""Search by one org with 100,000 passages, next to as many passages of other orgs.

The portable backend ranks vectors in the process. This backend is measured on the embedded server
under row-level security and, for comparison, as the superuser through views that filter by org.
Recall is relative to an exact ranking of the float32 vectors. Peak memory is the growth of the
process from before the first search to its peak.

    python benchmarks/search_scale.py [--passages 100000] [--questions 60] [--pgvector-url URL]
"""

import argparse
import itertools
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
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

from limits import Check, finish
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

#: Maximum ratio of the times with and without row-level security.
MAX_RATIO = 1.5
#: Minimum recall relative to exact ranking. It is below 1 because the similarities of neighboring
#: passages in this corpus differ by only about 0.001.
MIN_RECALL = 0.98
#: Maximum growth of the memory by the searches: in bytes per passage, of which the cached vectors
#: take 281, and in bytes in addition to the passages.
MAX_BYTES_PER_PASSAGE = 700
MAX_OTHER_BYTES = 20_000_000
#: Passages whose vectors are mixed at once, because the samples of all would not fit into memory.
MIXED_PASSAGES = 10_000
OTHER_ORGS = 9
TOPICS = 500
SAMPLES = 8
KINDS = ("note", "finding", "quote")
ZIPF = list(itertools.accumulate(1 / rank for rank in range(1, TOPICS * 30 + 1)))
NEAREST = 10
QUERIES = Path(__file__).with_suffix(".sql").read_text()
Floats = NDArray[np.float32]
EMBEDDER = builtin_embedder()
SEARCHING_ORG = UUID("00000000-0000-7000-8000-000000000100")


class Corpus(NamedTuple):
    """Passages with their orgs and vectors; the first `own` belong to the searching org."""

    ids: list[UUID]
    orgs: list[UUID]
    vectors: Floats
    own: int


class Measurement(NamedTuple):
    """Result of one search method: latencies in ms, recall, and growth of the memory in bytes."""

    label: str
    times: list[float]
    recall: float
    memory: int

    @property
    def p95(self) -> float:
        """Return the latency that 95 % of the searches do not exceed."""
        return statistics.quantiles(self.times, n=20)[-1]


# Setup


def read_statement(name: str) -> str:
    """Return the statements of this name in `search_scale.sql`."""
    lines = QUERIES.split(f"-- name: {name}\n")[1].split("-- name:")[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


@cache
def words() -> list[str]:
    """Return words of at least four letters, the most frequent first."""
    known = builtin_word_vectors().numbers
    return [word for word in known if word.isalpha() and len(word) > 3][: TOPICS * 30]


@cache
def topics() -> list[list[str]]:
    """Return the topics, each as a list of thirty words."""
    shuffled = random.Random(1).sample(words(), TOPICS * 30)  # noqa: S311 - not for secrets
    return [shuffled[30 * n : 30 * n + 30] for n in range(TOPICS)]


def reset_peak_memory() -> int:
    """Set the peak memory of this process to its current memory, if possible; return the peak."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_memory()


def peak_memory() -> int:
    """Return the peak of the resident memory of this process, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def timed(label: str) -> Iterator[None]:
    """Measure the duration of the block and print it."""
    started = time.perf_counter()
    yield
    print(f"  {label:44}{time.perf_counter() - started:8.1f} s", flush=True)


def make_text(topic: list[str], chance: random.Random) -> tuple[str, str]:
    """Return a title and forty random words: half from a topic, half distributed by Zipf's law."""
    picked = chance.choices(topic, k=20) + chance.choices(words(), cum_weights=ZIPF, k=20)
    chance.shuffle(picked)
    return " ".join(chance.sample(topic, 4)), " ".join(picked)


def make_corpus(count: int) -> Corpus:
    """Return `count` passages of the searching org and as many of other orgs.

    Each vector is a random mix of the vectors of a few texts on one topic.
    """
    chance, generator = random.Random(3), np.random.default_rng(3)  # noqa: S311 - not for secrets
    embedded = [
        [EMBEDDER.embed(embedding_text(*make_text(t, chance))) for _ in range(SAMPLES)]
        for t in topics()
    ]
    samples = np.array(embedded, np.float32)
    vectors = np.empty((2 * count, samples.shape[2]), np.float32)
    for first in range(0, 2 * count, MIXED_PASSAGES):
        mixed = vectors[first : first + MIXED_PASSAGES]
        topic_of_passage = np.arange(first, first + len(mixed)) % TOPICS
        weights = generator.dirichlet(np.ones(SAMPLES), len(mixed)).astype(np.float32)
        np.einsum("ns,nsd->nd", weights, samples[topic_of_passage], out=mixed)
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    others = [UUID(int=SEARCHING_ORG.int + 1 + n % OTHER_ORGS) for n in range(count)]
    return Corpus(
        [uuid4() for _ in range(2 * count)], [SEARCHING_ORG] * count + others, vectors, count
    )


def fill(dsn: str, stored: Corpus, backend: Backend) -> None:
    """Copy the corpus into the tables, then build the indexes."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("set maintenance_work_mem = '1GB'")
        run(admin, "prepare")
        if backend is Backend.PGVECTOR:
            run(admin, "prepare_pgvector")
        for org in sorted(set(stored.orgs)):
            admin.execute(read_statement("org"), {"org": org, "slug": f"org-{org}"})
        for part, rows in (
            ("passages", passage_rows(stored)),
            (backend, vector_rows(stored, backend)),
        ):
            with timed(f"copy {part}"), admin.cursor().copy(read_statement(part)) as copy:
                for row in rows:
                    copy.write_row(row)
        parts = ["artifacts", "index", "vacuum"]
        for part in ("index_pgvector", *parts) if backend is Backend.PGVECTOR else parts:
            with timed(part):
                run(admin, part)


def run(admin: psycopg.Connection, name: str) -> None:
    """Execute the statements of this name in `search_scale.sql`."""
    for line in read_statement(name).split(";")[:-1]:
        admin.execute(line)


def passage_rows(stored: Corpus) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the table `passage`."""
    chance = random.Random(2)  # noqa: S311 - not for secrets
    for n, (org, subject) in enumerate(zip(stored.orgs, stored.ids, strict=True)):
        title, body = make_text(topics()[n % TOPICS], chance)
        at = datetime.fromtimestamp(n, UTC)
        yield org, "artifact", subject, 1, KINDS[n % 3], title, body, at


def vector_rows(stored: Corpus, backend: Backend) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the table that holds the vectors of a backend."""
    for org, subject, vector in zip(stored.orgs, stored.ids, stored.vectors, strict=True):
        numbers = tuple(vector.tolist())
        is_portable = backend is Backend.PORTABLE
        encoded = quantize(numbers) if is_portable else encode_vector(numbers, org)
        yield org, subject, 1, EMBEDDER.model, encoded


# Queries


def make_questions(count: int) -> list[SearchQuery]:
    """Return questions, each with three words of a topic and one common word."""
    chance, common = random.Random(4), words()[200:2_000]  # noqa: S311 - not for secrets
    word_lists = (
        [*chance.sample(chance.choice(topics()), 3), chance.choice(common)] for _ in range(count)
    )
    return [parse_query(" ".join(picked)) for picked in word_lists]


async def search_passages(
    database: Database, question: SearchQuery, capabilities: SearchCapabilities, cache: VectorCache
) -> tuple[dict[str, list[RankedPassage]], float]:
    """Search; return the ranked lists, and the latency in ms including the fusion of the lists."""
    started = time.perf_counter()
    vector = EMBEDDER.embed(question.embedding_text)
    query_vector = QueryVector(vector=vector, model=EMBEDDER.model, org_id=SEARCHING_ORG)
    statements = search.search_statements(question, query_vector, Scope(), capabilities)
    if capabilities.backend is Backend.PORTABLE:
        portable = PortableSearch(cache, database, query_vector, Scope())
        more = await portable.begin()
        results = await database.read_org(SEARCHING_ORG, *statements, *more)
        lists = search.read_ranked(results[: len(statements)])
        lists["meaning"] = await portable.finish(results[len(statements) :])
    else:
        lists = search.read_ranked(await database.read_org(SEARCHING_ORG, *statements))
    fuse(lists)
    return lists, (time.perf_counter() - started) * 1e3


async def measure(
    label: str, database: Database, backend: Backend, stored: Corpus, questions: list[SearchQuery]
) -> Measurement:
    """Search for all questions, after a warm-up round."""
    cache, capabilities = VectorCache(), SearchCapabilities(backend=backend, indexed=True)
    before = reset_peak_memory()
    _, cold = await search_passages(database, questions[0], capabilities, cache)
    if backend is Backend.PORTABLE:
        each = cache.size_bytes / stored.own
        print(f"  {label}: first search {cold:.0f} ms, {each:.0f} bytes per passage in memory")
    times, hits = [], 0
    for turn in range(2):
        for question in questions:
            lists, took = await search_passages(database, question, capabilities, cache)
            if turn:
                times.append(took)
                nearest = {UUID(passage.subject_id) for passage in lists["meaning"][:NEAREST]}
                hits += len(nearest & exact_nearest(stored, question))
    recall = hits / NEAREST / len(questions)
    return Measurement(label, times, recall, peak_memory() - before)


def exact_nearest(stored: Corpus, question: SearchQuery) -> set[UUID]:
    """Return the nearest passages of the searching org, by exact ranking of floats."""
    query = np.array(EMBEDDER.embed(question.embedding_text), np.float32)
    best = np.argsort(-(stored.vectors[: stored.own] @ query), kind="stable")[:NEAREST]
    return {stored.ids[n] for n in best.tolist()}


def open_database(dsn: str, role: str | None) -> closing[Database]:
    """Open the database through a pool with one connection."""
    return closing(Database(ConnectionPool(dsn, size=1), role=role))


async def measure_portable(
    stored: Corpus, questions: list[SearchQuery]
) -> tuple[list[Measurement], float]:
    """Measure the search on the embedded server, with and without row-level security.

    Returns:
        Both measurements, and the median time to read one passage by its key, in ms.
    """
    with temporary_database() as folder, attach(folder) as postgres:
        migrate(postgres.owner_dsn)
        fill(postgres.admin_dsn, stored, Backend.PORTABLE)
        bare = make_conninfo(postgres.admin_dsn, options="-c search_path=bare,public")
        with (
            open_database(bare, None) as unprotected,
            open_database(postgres.app_dsn, None) as protected,
        ):
            databases = {"portable, no row-level security": unprotected, "portable": protected}
            results = [
                await measure(label, database, Backend.PORTABLE, stored, questions)
                for label, database in databases.items()
            ]
            times = []
            for subject in stored.ids[: len(questions)]:
                started = time.perf_counter()
                await protected.read_org(SEARCHING_ORG, search.hits_statement([(str(subject), 1)]))
                times.append((time.perf_counter() - started) * 1e3)
            return results, statistics.median(times)


async def measure_pgvector(url: str, stored: Corpus, questions: list[SearchQuery]) -> Measurement:
    """Measure the search with pgvector, in a temporary database on a server that has it."""
    name = f"waybook_bench_{new_id().replace('-', '')}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        try:
            dsn = make_conninfo(url, dbname=name)
            with psycopg.connect(dsn, autocommit=True) as inside:
                inside.execute("create extension vector")
            migrate(dsn)
            fill(dsn, stored, Backend.PGVECTOR)
            with open_database(dsn, APP_ROLE) as database:
                return await measure("pgvector", database, Backend.PGVECTOR, stored, questions)
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


async def main(passages: int, count: int, url: str | None) -> None:
    """Create the corpus, measure all backends and compare them."""
    with timed(f"create {2 * passages:,} passages"):
        stored, questions = make_corpus(passages), make_questions(count)
    results, key_ms = await measure_portable(stored, questions)
    if url:
        results.append(await measure_pgvector(url, stored, questions))
    report(passages, results, key_ms)


def report(passages: int, results: list[Measurement], key_ms: float) -> None:
    """Print latencies, recall and memory; exit with code 1 if a limit is exceeded."""
    title = f"fused search, {passages:,} of one org"
    columns = f"{'p50 ms':>10}{'p95 ms':>10}{f'recall@{NEAREST}':>12}{'memory MB':>12}"
    print(f"{title:38}{columns}")
    for result in results:
        middle = statistics.median(result.times)
        figures = (
            f"{middle:10.2f}{result.p95:10.2f}{result.recall:12.3f}{result.memory / 1e6:12.1f}"
        )
        print(f"{result.label:38}{figures}")
    print(f"{'one passage by its key':38}{key_ms:10.2f}")
    if not any(result.label == "pgvector" for result in results):
        print("pgvector was not measured: pass --pgvector-url with a server that has it")
    bare, protected, *_ = results
    assert protected.recall == bare.recall, "row-level security changed the recall"
    ratio = statistics.median(protected.times) / statistics.median(bare.times)
    memory = max(bare.memory, protected.memory) / 1e6
    most = (MAX_BYTES_PER_PASSAGE * passages + MAX_OTHER_BYTES) / 1e6
    name = "ratio to no row-level security"
    checks = [
        Check(name=name, rounds=[ratio], direction="<=", limit=MAX_RATIO),
        Check(name=f"recall@{NEAREST}", rounds=[protected.recall], limit=MIN_RECALL),
        Check(name="peak memory in MB", rounds=[memory], direction="<=", limit=most),
    ]
    finish(
        "search_scale",
        checks,
        passages=passages,
        milliseconds={
            result.label: [statistics.median(result.times), result.p95] for result in results
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--pgvector-url")
    arguments = parser.parse_args()
    uvloop.run(main(arguments.passages, arguments.questions, arguments.pgvector_url))
