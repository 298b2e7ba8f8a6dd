"""Latency, recall and memory of search in an org, next to as many passages of other orgs.

The org has 100,000 passages. The portable backend ranks vectors in the process. It is measured
twice on the embedded server: under row-level security, and as the superuser through views that
filter by org. If a server with pgvector is given, the portable backend and the pgvector backend are
measured on that server too. For each question, all of them search in turn. Recall is relative to an
exact ranking of the float32 vectors. Memory is the growth of the process from before the first
search to its peak; the index of pgvector is in the memory of PostgreSQL instead. CPU time is that
of the process and of PostgreSQL, which is known only for a server on this machine.

    python benchmarks/search_scale.py [--passages 100000] [--others 100000] [--questions 60]
                                      [--pgvector-url URL]

The default of `--others` is the number of passages, and that of `--pgvector-url` the environment
variable PGVECTOR_URL.
"""

import argparse
import os
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import numpy as np
import psycopg
import uvloop
from psycopg.conninfo import make_conninfo

from limits import Check, finish
from search_corpus import (
    EMBEDDER,
    FIRST_PASSAGE,
    SEARCHING_ORG,
    Corpus,
    fill,
    make_corpus,
    make_questions,
    timed,
)
from server_cpu import TICKS_PER_SECOND
from waybook.app.request.search_backend import PortableSearch, VectorCache
from waybook.cli.demo.environment import temporary_database
from waybook.embedded_postgres.supervisor import attach
from waybook.research.embedding import Backend
from waybook.research.fusion import Hit, RankedPassage, fuse
from waybook.research.query import SearchQuery
from waybook.store.driver.database import Database
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.queries import first_value, new_uuid
from waybook.store.maintenance.migrate import APP_ROLE, migrate
from waybook.store.research import search
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities

#: Maximum time with row-level security, as a multiple of the time without it.
MAX_RATIO = 1.5
#: Minimum recall, compared with exact ranking. In this corpus, passages that follow each other in
#: the ranking differ by only about 0.001, so the recall is below 1.
MIN_RECALL = 0.98
#: Maximum memory for searches: a number of bytes per passage, plus a fixed number of bytes. The
#: cached vectors take 153 bytes per passage.
MAX_BYTES_PER_PASSAGE = 700
MAX_OTHER_BYTES = 20_000_000
#: Goal for the time of the portable backend, as a multiple of pgvector's on the same server.
PGVECTOR_RATIO_GOAL = 1.0
NEAREST = 10
DEFAULT_PASSAGES = 100_000
#: Number of rounds into which the measured times are divided for a check.
ROUNDS = 3

BARE = "portable, no row-level security"
PORTABLE = "portable"
PORTABLE_OF_PGVECTOR = "portable, server of pgvector"
PGVECTOR = "pgvector"


@dataclass(slots=True)
class Searcher:
    """Search backend on a database, with measurements of its searches."""

    label: str
    database: Database
    backend: Backend
    #: Id of the PostgreSQL process for this connection; None if it is on another machine.
    backend_pid: int | None = None
    cache: VectorCache = field(default_factory=VectorCache)
    #: Milliseconds of the first search, which loads the vectors.
    first_ms: float = 0.0
    memory: int = 0
    times: list[float] = field(default_factory=list)
    cpu_times: list[float] = field(default_factory=list)
    hits: int = 0

    @property
    def p50(self) -> float:
        return statistics.median(self.times)

    @property
    def p95(self) -> float:
        """Return the latency in milliseconds that 95 % of the searches do not exceed."""
        return statistics.quantiles(self.times, n=20)[-1]

    @property
    def cpu_ms(self) -> float:
        """Return the mean CPU milliseconds of a search.

        PostgreSQL's CPU clock has large steps, so the median would be wrong.
        """
        return statistics.mean(self.cpu_times)

    @property
    def recall(self) -> float:
        """Return the share of the nearest passages that the searches found."""
        return self.hits / NEAREST / len(self.times)

    def ratios(self, other: "Searcher") -> list[float]:
        each = len(self.times) // ROUNDS
        return [
            statistics.median(self.times[first : first + each])
            / statistics.median(other.times[first : first + each])
            for first in range(0, ROUNDS * each, each)
        ]

    async def search(self, question: SearchQuery) -> dict[str, list[RankedPassage]]:
        """Search by words and by vectors, and merge the hits; return the list of each method."""
        capabilities = SearchCapabilities(backend=self.backend, indexed=True)
        vector = EMBEDDER.embed(question.embedding_text)
        query_vector = QueryVector(vector=vector, model=EMBEDDER.model, org_id=SEARCHING_ORG)
        statements = search.search_statements(question, query_vector, Scope(), capabilities)
        if self.backend is Backend.PORTABLE:
            portable = PortableSearch(self.cache, self.database, query_vector, Scope())
            more = await portable.begin()
            results = await self.database.read_org(SEARCHING_ORG, *statements, *more)
            lists = search.read_ranked(results[: len(statements)])
            lists["meaning"] = await portable.finish(results[len(statements) :])
        else:
            results = await self.database.read_org(SEARCHING_ORG, *statements)
            lists = search.read_ranked(results)
        fuse(lists)
        return lists

    async def warm_up(self, questions: list[SearchQuery], *, is_local: bool) -> None:
        """Search for all questions; measure the time of the first search, and the memory of all."""
        before = reset_peak_memory()
        started = time.perf_counter()
        await self.search(questions[0])
        self.first_ms = (time.perf_counter() - started) * 1e3
        for question in questions:
            await self.search(question)
        self.memory = peak_memory() - before
        if is_local:
            (rows,) = await self.database.read_org(SEARCHING_ORG, "select pg_backend_pid()")
            self.backend_pid = int(first_value(rows))

    async def measure(self, question: SearchQuery, exact: set[UUID]) -> None:
        """Search for a question; record the latency, the CPU time and the passages found."""
        cpu, started = self._cpu_ms(), time.perf_counter()
        lists = await self.search(question)
        self.times.append((time.perf_counter() - started) * 1e3)
        self.cpu_times.append(self._cpu_ms() - cpu)
        nearest = {UUID(passage.subject_id) for passage in lists["meaning"][:NEAREST]}
        self.hits += len(nearest & exact)

    def _cpu_ms(self) -> float:
        """Return the CPU milliseconds of this process and of its PostgreSQL process."""
        ticks = 0
        if self.backend_pid is not None:
            status = Path(f"/proc/{self.backend_pid}/stat").read_text(encoding="ascii")
            ticks = sum(map(int, status.rsplit(")", 1)[1].split()[11:13]))
        return time.process_time() * 1e3 + ticks * 1e3 / TICKS_PER_SECOND


def reset_peak_memory() -> int:
    """If possible, reset the peak memory of this process; return the peak."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_memory()


def peak_memory() -> int:
    """Return the peak of this process's resident memory in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def exact_nearest(stored: Corpus, question: SearchQuery) -> set[UUID]:
    """Return the nearest passages of the searching org, by exact ranking."""
    query = np.array(EMBEDDER.embed(question.embedding_text), np.float32)
    best = np.argpartition(stored.vectors @ query, -NEAREST)[-NEAREST:]
    return {UUID(int=FIRST_PASSAGE.int + n) for n in best.tolist()}


def open_database(dsn: str, role: str | None) -> closing[Database]:
    return closing(Database(ConnectionPool(dsn, size=1), role=role))


@asynccontextmanager
async def portable_searchers(stored: Corpus) -> AsyncIterator[list[Searcher]]:
    """Fill an embedded server; yield searchers without row-level security and with it."""
    with temporary_database(durable=False) as folder, attach(folder, durable=False) as postgres:
        migrate(postgres.owner_dsn)
        fill(postgres.admin_dsn, stored, [Backend.PORTABLE])
        bare = make_conninfo(postgres.admin_dsn, options="-c search_path=bare,public")
        with (
            open_database(bare, None) as unprotected,
            open_database(postgres.app_dsn, None) as protected,
        ):
            yield [
                Searcher(BARE, unprotected, Backend.PORTABLE),
                Searcher(PORTABLE, protected, Backend.PORTABLE),
            ]


@contextmanager
def pgvector_searchers(url: str, stored: Corpus) -> Iterator[list[Searcher]]:
    """Fill a temporary database on a server with pgvector; yield a searcher for each backend."""
    name = f"waybook_bench_{new_uuid().replace('-', '')}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        try:
            dsn = make_conninfo(url, dbname=name)
            with psycopg.connect(dsn, autocommit=True) as inside:
                inside.execute("create extension vector")
            migrate(dsn)
            fill(dsn, stored, list(Backend))
            with open_database(dsn, APP_ROLE) as portable, open_database(dsn, APP_ROLE) as own:
                yield [
                    Searcher(PORTABLE_OF_PGVECTOR, portable, Backend.PORTABLE),
                    Searcher(PGVECTOR, own, Backend.PGVECTOR),
                ]
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


def is_local(url: str) -> bool:
    """Return whether a server is on this machine."""
    with psycopg.connect(url) as connection:
        return connection.info.host in {"127.0.0.1", "::1", "localhost"} or (
            connection.info.host.startswith("/")
        )


async def read_by_key(searcher: Searcher, count: int) -> float:
    """Return the median milliseconds for reading one passage by its key."""
    times = []
    for number in range(count):
        subject = str(UUID(int=FIRST_PASSAGE.int + number))
        started = time.perf_counter()
        await searcher.database.read_org(
            SEARCHING_ORG,
            search.hits_statement([Hit(subject_id=subject, part=1, score=1, why=())], 0, 1),
        )
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


async def main(passages: int, others: int, count: int, url: str | None) -> None:
    """Create the corpus, measure all searchers in turn, and compare them."""
    with timed(f"create {passages:,} passages"):
        stored, questions = make_corpus(passages, others), make_questions(count)
    async with AsyncExitStack() as stack:
        searchers = await stack.enter_async_context(portable_searchers(stored))
        if url:
            searchers += stack.enter_context(pgvector_searchers(url, stored))
        local_server = not url or is_local(url)
        for searcher in searchers:
            is_embedded = searcher.label in {BARE, PORTABLE}
            await searcher.warm_up(questions, is_local=is_embedded or local_server)
        for number, question in enumerate(questions):
            exact = exact_nearest(stored, question)
            # The first search for a question is slower, because CPU caches are cold and the server
            # has not yet read the pages. So each question begins with another searcher.
            first = number % len(searchers)
            for searcher in searchers[first:] + searchers[:first]:
                await searcher.measure(question, exact)
        key_ms = await read_by_key(searchers[1], count)
    report(stored, searchers, key_ms)


def report(stored: Corpus, searchers: list[Searcher], key_ms: float) -> None:
    """Print latencies, recall and memory; exit with code 1 if a limit is missed."""
    title = f"fused search, {stored.own:,} of one org"
    heads = ("p50 ms", "p95 ms", "CPU ms", f"recall@{NEAREST}", "memory MB", "first ms")
    print(f"{title:38}{''.join(f'{head:>11}' for head in heads)}")
    for searcher in searchers:
        times = f"{searcher.p50:11.2f}{searcher.p95:11.2f}{searcher.cpu_ms:11.2f}"
        sizes = f"{searcher.recall:11.3f}{searcher.memory / 1e6:11.1f}{searcher.first_ms:11.0f}"
        print(f"{searcher.label:38}{times}{sizes}")
    print(f"{'one passage by its key':38}{key_ms:11.2f}")
    bare, protected, *compared = searchers
    assert protected.recall == bare.recall, "row-level security changed the recall"
    memory = max(bare.memory, protected.memory) / 1e6
    most = (MAX_BYTES_PER_PASSAGE * stored.own + MAX_OTHER_BYTES) / 1e6
    name = "ratio to no row-level security"
    checks = [
        Check(name=name, rounds=protected.ratios(bare), direction="<=", limit=MAX_RATIO),
        Check(name=f"recall@{NEAREST}", rounds=[protected.recall], limit=MIN_RECALL),
        Check(name="peak memory in MB", rounds=[memory], direction="<=", limit=most),
    ]
    if compared:
        portable, pgvector = compared
        ratios, goal = portable.ratios(pgvector), PGVECTOR_RATIO_GOAL
        checks.append(Check(name="ratio to pgvector", rounds=ratios, direction="<=", goal=goal))
    else:
        print("pgvector was not measured: pass --pgvector-url with a server that has it")
    finish(
        "search_scale" if stored.own == DEFAULT_PASSAGES else f"search_scale-{stored.own}",
        checks,
        passages=stored.own,
        rows={
            searcher.label: {
                "p50": searcher.p50,
                "p95": searcher.p95,
                "cpu": searcher.cpu_ms,
                "recall": searcher.recall,
                "memory": searcher.memory,
            }
            for searcher in searchers
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, default=DEFAULT_PASSAGES)
    parser.add_argument("--others", type=int)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--pgvector-url", default=os.environ.get("PGVECTOR_URL"))
    arguments = parser.parse_args()
    near = arguments.passages if arguments.others is None else arguments.others
    uvloop.run(main(arguments.passages, near, arguments.questions, arguments.pgvector_url))
