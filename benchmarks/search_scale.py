"""Search by one org with 100,000 passages, next to as many passages of other orgs.

The portable backend ranks vectors in the process. This backend is measured on the embedded server
under row-level security and, alternately with it, as the superuser through views that filter by
org. Recall is relative to an exact ranking of the float32 vectors. Peak memory is the growth of the
process from before the first search to its peak. The texts repeat after `MAX_TEXTS`; the vectors
are all different.

    python benchmarks/search_scale.py [--passages 100000] [--questions 60] [--pgvector-url URL]

The default of `--pgvector-url` is the environment variable PGVECTOR_URL.
"""

import argparse
import itertools
import json
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

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
from waybook.research.ranking import MAX_CODE
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
#: passages in this corpus differ by only about 0.001; 0.978 with 100,000 passages.
MIN_RECALL = 0.98
#: Maximum growth of the memory by the searches: in bytes per passage, of which the cached vectors
#: take 281, and in bytes in addition to the passages.
MAX_BYTES_PER_PASSAGE = 700
MAX_OTHER_BYTES = 20_000_000
#: Passages whose vectors are mixed at once, because the samples of all would not fit into memory.
MIXED_PASSAGES = 10_000
#: Number of different texts, a multiple of `TOPICS`.
MAX_TEXTS = 20_000
OTHER_ORGS = 9
TOPICS = 500
SAMPLES = 8
KINDS = ("note", "finding", "quote")
ZIPF = list(itertools.accumulate(1 / rank for rank in range(1, TOPICS * 30 + 1)))
NEAREST = 10
QUERIES = Path(__file__).with_suffix(".sql").read_text()
Floats = NDArray[np.float32]
EMBEDDER = builtin_embedder()
#: The other orgs have the following ids, in turn; `search_scale.sql` makes the same ids.
SEARCHING_ORG = UUID("00000000-0000-7000-8000-000000000100")
#: Id of the first passage; the other passages have the following ids.
FIRST_PASSAGE = UUID("00000000-0000-7000-9000-000000000000")
#: Start and end of a table in the binary format of COPY.
COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"


class Corpus(NamedTuple):
    """Vectors of passages; the first `own` belong to the searching org."""

    vectors: Floats
    own: int

    @property
    def orgs(self) -> list[UUID]:
        """Return the orgs that have passages."""
        return [UUID(int=SEARCHING_ORG.int + n) for n in range(OTHER_ORGS + 1)]

    def org(self, number: int) -> UUID:
        """Return the org of a passage."""
        return self.orgs[0 if number < self.own else 1 + number % OTHER_ORGS]


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
    return Corpus(vectors, count)


def fill(dsn: str, stored: Corpus, backend: Backend) -> None:
    """Write the corpus into the tables, then build the indexes."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("set maintenance_work_mem = '1GB'")
        run(admin, "prepare")
        if backend is Backend.PGVECTOR:
            run(admin, "prepare_pgvector")
        for org in stored.orgs:
            admin.execute(read_statement("org"), {"org": org, "slug": f"org-{org}"})
        with timed("copy texts"), admin.cursor().copy(read_statement("texts")) as copy:
            for row in text_rows(min(MAX_TEXTS, 2 * stored.own)):
                copy.write_row(row)
        with timed("insert passages"):
            counts = {"all": 2 * stored.own, "own": stored.own, "others": OTHER_ORGS}
            admin.execute(read_statement("passages"), counts)
        with timed(f"copy {backend}"), admin.cursor().copy(read_statement(backend)) as copy:
            copy.write(COPY_HEADER)
            for first in range(0, 2 * stored.own, MIXED_PASSAGES):
                copy.write(vector_rows(stored, backend, first))
            copy.write(COPY_END)
        parts = ["artifacts", "index", "vacuum"]
        for part in ("index_pgvector", *parts) if backend is Backend.PGVECTOR else parts:
            with timed(part):
                run(admin, part)


def run(admin: psycopg.Connection, name: str) -> None:
    """Execute the statements of this name in `search_scale.sql`."""
    for line in read_statement(name).split(";")[:-1]:
        admin.execute(line)


def text_rows(count: int) -> Iterator[tuple[object, ...]]:
    """Yield numbered texts, each with its title and kind."""
    chance = random.Random(2)  # noqa: S311 - not for secrets
    for n in range(count):
        yield n, KINDS[n % 3], *make_text(topics()[n % TOPICS], chance)


def vector_rows(stored: Corpus, backend: Backend, first: int) -> bytes:
    """Return rows of the table that holds the vectors of a backend, in the format of COPY.

    All columns have a fixed length, so that the rows are an array of records.
    """
    vectors = stored.vectors[first : first + MIXED_PASSAGES].astype(np.float64)
    numbers = np.arange(first, first + len(vectors))
    orgs = [stored.org(number) for number in numbers.tolist()]
    encode = quantized if backend is Backend.PORTABLE else half_vectors
    encoded = encode(vectors, orgs)
    model = EMBEDDER.model.encode()
    columns: dict[str, tuple[str, object]] = {
        "org": ("V16", np.frombuffer(b"".join(org.bytes for org in orgs), "V16")),
        "high": (">u8", FIRST_PASSAGE.int >> 64),
        "low": (">u8", (FIRST_PASSAGE.int & 2**64 - 1) + numbers.astype(np.uint64)),
        "part": (">i4", 1),
        "model": (f"V{len(model)}", np.void(model)),
        "encoded": (
            f"V{encoded.shape[1]}",
            np.ascontiguousarray(encoded).view(f"V{encoded.shape[1]}")[:, 0],
        ),
    }
    lengths = {"org": 16, "high": 16, "part": 4, "model": len(model), "encoded": encoded.shape[1]}
    fields = [("columns", ">i2")]
    for name, (kind, _) in columns.items():
        fields += [(f"{name}_length", ">i4")] if name in lengths else []
        fields.append((name, kind))
    rows = np.empty(len(vectors), np.dtype(fields))
    rows["columns"] = len(lengths)
    for name, length in lengths.items():
        rows[f"{name}_length"] = length
    for name, (_, values) in columns.items():
        rows[name] = values
    return rows.tobytes()


def quantized(vectors: NDArray[np.float64], _: list[UUID]) -> NDArray[np.uint8]:
    """Return the codes of the portable backend, as `quantize` does for one vector."""
    codes = np.rint(vectors * (MAX_CODE / np.abs(vectors).max(axis=1, keepdims=True)))
    as_bytes: NDArray[np.uint8] = codes.astype(np.int8).view(np.uint8)
    return as_bytes


def half_vectors(vectors: NDArray[np.float64], orgs: list[UUID]) -> NDArray[np.uint8]:
    """Return pgvector's binary format: the number of dimensions, two bytes, and the numbers."""
    homes = {org: json.loads(encode_vector((), org)) for org in set(orgs)}
    numbers = np.hstack([vectors, np.array([homes[org] for org in orgs])]).astype(">f2")
    head = np.array([[numbers.shape[1], 0]], ">i2").repeat(len(numbers), 0)
    return np.hstack([head.view(np.uint8), np.ascontiguousarray(numbers).view(np.uint8)])


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


class Searcher(NamedTuple):
    """Database of one search method, with its cache and the memory that its searches took."""

    label: str
    database: Database
    backend: Backend
    cache: VectorCache
    memory: int

    async def search(self, question: SearchQuery) -> tuple[dict[str, list[RankedPassage]], float]:
        """Search; return the ranked lists and the latency in ms."""
        capabilities = SearchCapabilities(backend=self.backend, indexed=True)
        return await search_passages(self.database, question, capabilities, self.cache)


async def warm_up(
    label: str, database: Database, backend: Backend, stored: Corpus, questions: list[SearchQuery]
) -> Searcher:
    """Search for all questions once, and measure the memory that this takes."""
    before = reset_peak_memory()
    searcher = Searcher(label, database, backend, VectorCache(), 0)
    _, cold = await searcher.search(questions[0])
    if backend is Backend.PORTABLE:
        each = searcher.cache.size_bytes / stored.own
        print(f"  {label}: first search {cold:.0f} ms, {each:.0f} bytes per passage in memory")
    for question in questions:
        await searcher.search(question)
    return searcher._replace(memory=peak_memory() - before)


async def measure(
    searchers: list[Searcher], stored: Corpus, questions: list[SearchQuery]
) -> list[Measurement]:
    """Search for all questions with each search method in turn."""
    times: list[list[float]] = [[] for _ in searchers]
    hits = [0] * len(searchers)
    for question in questions:
        exact = exact_nearest(stored, question)
        for number, searcher in enumerate(searchers):
            lists, took = await searcher.search(question)
            times[number].append(took)
            nearest = {UUID(passage.subject_id) for passage in lists["meaning"][:NEAREST]}
            hits[number] += len(nearest & exact)
    return [
        Measurement(searcher.label, took, count / NEAREST / len(questions), searcher.memory)
        for searcher, took, count in zip(searchers, times, hits, strict=True)
    ]


def exact_nearest(stored: Corpus, question: SearchQuery) -> set[UUID]:
    """Return the nearest passages of the searching org, by exact ranking of floats."""
    query = np.array(EMBEDDER.embed(question.embedding_text), np.float32)
    best = np.argsort(-(stored.vectors[: stored.own] @ query), kind="stable")[:NEAREST]
    return {UUID(int=FIRST_PASSAGE.int + n) for n in best.tolist()}


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
    with (
        temporary_database(durable=False) as folder,
        attach(folder, durable=False) as postgres,
    ):
        migrate(postgres.owner_dsn)
        fill(postgres.admin_dsn, stored, Backend.PORTABLE)
        bare = make_conninfo(postgres.admin_dsn, options="-c search_path=bare,public")
        with (
            open_database(bare, None) as unprotected,
            open_database(postgres.app_dsn, None) as protected,
        ):
            databases = {"portable, no row-level security": unprotected, "portable": protected}
            searchers = [
                await warm_up(label, database, Backend.PORTABLE, stored, questions)
                for label, database in databases.items()
            ]
            results = await measure(searchers, stored, questions)
            times = []
            for number in range(len(questions)):
                subject = str(UUID(int=FIRST_PASSAGE.int + number))
                started = time.perf_counter()
                await protected.read_org(SEARCHING_ORG, search.hits_statement([(subject, 1)]))
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
                searcher = await warm_up("pgvector", database, Backend.PGVECTOR, stored, questions)
                (result,) = await measure([searcher], stored, questions)
                return result
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
    thirds = len(bare.times) // 3
    ratios = [
        statistics.median(protected.times[first : first + thirds])
        / statistics.median(bare.times[first : first + thirds])
        for first in range(0, 3 * thirds, thirds)
    ]
    memory = max(bare.memory, protected.memory) / 1e6
    most = (MAX_BYTES_PER_PASSAGE * passages + MAX_OTHER_BYTES) / 1e6
    name = "ratio to no row-level security"
    checks = [
        Check(name=name, rounds=ratios, direction="<=", limit=MAX_RATIO),
        Check(name=f"recall@{NEAREST}", rounds=[protected.recall], limit=MIN_RECALL),
        Check(name="peak memory in MB", rounds=[memory], direction="<=", limit=most),
    ]
    finish(
        "search_scale",
        checks,
        passages=passages,
        rows={
            result.label: {
                "p50": statistics.median(result.times),
                "p95": result.p95,
                "recall": result.recall,
                "memory": result.memory,
            }
            for result in results
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--pgvector-url", default=os.environ.get("PGVECTOR_URL"))
    arguments = parser.parse_args()
    uvloop.run(main(arguments.passages, arguments.questions, arguments.pgvector_url))
