"""Corpus of the search benchmark: passages and vectors of one org and of other orgs.

The texts repeat after `MAX_TEXTS`; the vectors are all different. The vectors of other orgs are
made while they are written, so that only the vectors of the searching org are in memory.
"""

import itertools
import json
import random
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray

from waybook.research.embedding import SCALE, Backend, builtin_embedder
from waybook.research.query import SearchQuery, parse_query
from waybook.research.vocabulary import builtin_word_vectors
from waybook.store.research.artifacts import embedding_text
from waybook.store.research.embeddings import encode_vector

#: Number of passages whose vectors are computed together, limited to save memory.
MIXED_PASSAGES = 10_000
#: Number of different texts, a multiple of `TOPICS`.
MAX_TEXTS = 20_000
OTHER_ORGS = 9
TOPICS = 500
SAMPLES = 8
KINDS = ("note", "finding", "quote")
ZIPF = list(itertools.accumulate(1 / rank for rank in range(1, TOPICS * 30 + 1)))
QUERIES = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
EMBEDDER = builtin_embedder()
#: Id of the searching org. The other orgs have the next ids, as in `search_corpus.sql`.
SEARCHING_ORG = UUID("00000000-0000-7000-8000-000000000100")
#: Id of the first passage. The other passages have the next ids.
FIRST_PASSAGE = UUID("00000000-0000-7000-9000-000000000000")
ORGS = [UUID(int=SEARCHING_ORG.int + n) for n in range(OTHER_ORGS + 1)]
#: Start and end of a table in the binary format of COPY.
COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"
#: Transaction id for the embeddings, lower than that of any search.
OLD_TRANSACTION = 3


@contextmanager
def timed(label: str) -> Iterator[None]:
    """Measure and print the duration of the block."""
    started = time.perf_counter()
    yield
    print(f"  {label:44}{time.perf_counter() - started:8.1f} s", flush=True)


# Functions that make texts and vectors


@cache
def words() -> list[str]:
    """Return words of at least four letters, most frequent first."""
    known = builtin_word_vectors().numbers
    return [word for word in known if word.isalpha() and len(word) > 3][: TOPICS * 30]


@cache
def topics() -> list[list[str]]:
    """Return the topics, each as a list of thirty words."""
    shuffled = random.Random(1).sample(words(), TOPICS * 30)  # noqa: S311 - not for secrets
    return [shuffled[30 * n : 30 * n + 30] for n in range(TOPICS)]


def make_text(topic: list[str], chance: random.Random) -> tuple[str, str]:
    """Return a title and forty random words; half are of a topic, half follow Zipf's law."""
    picked = chance.choices(topic, k=20) + chance.choices(words(), cum_weights=ZIPF, k=20)
    chance.shuffle(picked)
    return " ".join(chance.sample(topic, 4)), " ".join(picked)


def make_questions(count: int) -> list[SearchQuery]:
    """Return questions, each with three words of a topic and a common word."""
    chance, common = random.Random(4), words()[200:2_000]  # noqa: S311 - not for secrets
    word_lists = (
        [*chance.sample(chance.choice(topics()), 3), chance.choice(common)] for _ in range(count)
    )
    return [parse_query(" ".join(picked)) for picked in word_lists]


@cache
def sample_vectors() -> Floats:
    """Return the vectors of a few texts for each topic."""
    chance = random.Random(3)  # noqa: S311 - not for secrets
    embedded = [
        [EMBEDDER.embed(embedding_text(*make_text(topic, chance))) for _ in range(SAMPLES)]
        for topic in topics()
    ]
    return np.array(embedded, np.float32)


def mix_vectors(first: int, count: int) -> Floats:
    """Return the vectors of passages; each is a random mix of the samples of its topic.

    `first` must be a multiple of `MIXED_PASSAGES`, and `count` at most `MIXED_PASSAGES`.
    """
    weights = np.random.default_rng((3, first)).dirichlet(np.ones(SAMPLES), count)
    mixed = np.empty((count, sample_vectors().shape[2]), np.float32)
    for topic, samples in enumerate(sample_vectors()):
        start = (topic - first) % TOPICS
        mixed[start::TOPICS] = weights[start::TOPICS].astype(np.float32) @ samples
    mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    return mixed


class Corpus(NamedTuple):
    """Vectors of the searching org's passages, and number of passages of other orgs."""

    vectors: Floats
    others: int

    @property
    def own(self) -> int:
        return len(self.vectors)

    @property
    def passages(self) -> int:
        return self.own + self.others

    def orgs(self, first: int, count: int) -> NDArray[np.intp]:
        """For each of these passages, return the number of its org."""
        numbers = np.arange(first, first + count)
        return np.where(numbers < self.own, 0, 1 + numbers % OTHER_ORGS)

    def chunk(self, first: int) -> Floats:
        """Return the vectors of up to `MIXED_PASSAGES` passages, from number `first` on."""
        count = min(MIXED_PASSAGES, self.passages - first)
        if first + count <= self.own:
            return self.vectors[first : first + count]
        return mix_vectors(first, count)


def make_corpus(own: int, others: int) -> Corpus:
    """Return a corpus with this many passages of the searching org and of other orgs."""
    vectors = np.empty((own, sample_vectors().shape[2]), np.float32)
    for first in range(0, own, MIXED_PASSAGES):
        count = min(MIXED_PASSAGES, own + others - first)
        vectors[first : first + count] = mix_vectors(first, count)[: own - first]
    return Corpus(vectors, others)


# Functions that fill tables


def read_statement(name: str) -> str:
    """Return the statement of this name in `search_corpus.sql`."""
    lines = QUERIES.split(f"-- name: {name}\n")[1].split("-- name:")[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def run(admin: psycopg.Connection, name: str) -> None:
    for line in read_statement(name).split(";")[:-1]:
        admin.execute(line)


def fill(dsn: str, stored: Corpus, backends: Collection[Backend]) -> None:
    """Write the corpus into tables, and build their indexes."""
    has_pgvector = Backend.PGVECTOR in backends
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("set maintenance_work_mem = '2GB'")
        run(admin, "prepare")
        if has_pgvector:
            run(admin, "prepare_pgvector")
        for org in ORGS:
            admin.execute(read_statement("org"), {"org": org, "slug": f"org-{org}"})
        texts = min(MAX_TEXTS, stored.passages)
        with timed("copy texts"):
            with admin.cursor().copy(read_statement("texts")) as copy:
                for row in text_rows(texts):
                    copy.write_row(row)
            run(admin, "words")
        with timed("insert passages"):
            counts = {"own": stored.own, "others": OTHER_ORGS, "texts": texts}
            admin.execute(read_statement("passages"), {"all": stored.passages, **counts})
        for backend in backends:
            with timed(f"copy {backend}"), admin.cursor().copy(read_statement(backend)) as copy:
                copy.write(COPY_HEADER)
                for first in range(0, stored.passages, MIXED_PASSAGES):
                    copy.write(vector_rows(stored, backend, first))
                copy.write(COPY_END)
        parts = ["artifacts", "index", "vacuum"]
        for part in ("index_pgvector", *parts) if has_pgvector else parts:
            with timed(part):
                run(admin, part)


def text_rows(count: int) -> Iterator[tuple[object, ...]]:
    """Yield rows of texts, as number, kind, title and text."""
    chance = random.Random(2)  # noqa: S311 - not for secrets
    for n in range(count):
        yield n, KINDS[n % 3], *make_text(topics()[n % TOPICS], chance)


def vector_rows(stored: Corpus, backend: Backend, first: int) -> bytes:
    """Return the rows of a backend's table of vectors, in the format of COPY.

    Every row has the same length, so the rows are an array.
    """
    vectors = stored.chunk(first)
    org_numbers = stored.orgs(first, len(vectors))
    ids = np.empty((len(vectors), 2), ">u8")
    ids[:, 0] = FIRST_PASSAGE.int >> 64
    ids[:, 1] = (FIRST_PASSAGE.int & 2**64 - 1) + np.arange(first, first + len(vectors), dtype="u8")
    orgs = np.frombuffer(b"".join(org.bytes for org in ORGS), np.uint8).reshape(-1, 16)
    columns = [
        orgs[org_numbers],
        ids.view(np.uint8),
        _constant((1).to_bytes(4), len(vectors)),
        _constant(EMBEDDER.model.encode(), len(vectors)),
    ]
    if backend is Backend.PORTABLE:
        stored_vectors = np.rint(vectors * SCALE).astype("<i2").view(np.uint8)
        columns += [_constant(OLD_TRANSACTION.to_bytes(8), len(vectors)), stored_vectors]
    else:
        columns.append(half_vectors(vectors, org_numbers))
    cells = [_constant(len(columns).to_bytes(2), len(vectors))]
    for column in columns:
        cells += [_constant(column.shape[1].to_bytes(4), len(vectors)), column]
    return np.hstack(cells).tobytes()


def _constant(value: bytes, rows: int) -> Bytes:
    """Return a column with the same bytes in each row."""
    return np.broadcast_to(np.frombuffer(value, np.uint8), (rows, len(value)))


def half_vectors(vectors: Floats, org_numbers: NDArray[np.intp]) -> Bytes:
    """Return vectors in pgvector's binary format: number of dimensions, two zero bytes, numbers."""
    homes = np.array([json.loads(encode_vector((), org)) for org in ORGS])
    numbers = np.hstack([vectors, homes[org_numbers]]).astype(">f2")
    head = np.array([[numbers.shape[1], 0]], ">i2").repeat(len(numbers), 0)
    return np.hstack([head.view(np.uint8), np.ascontiguousarray(numbers).view(np.uint8)])
