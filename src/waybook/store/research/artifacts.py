"""Artifacts and sources: what is there under a name, and one of them whole.

Where vectors are stored and ranked.

Vectors of passages, where a server of the user's own has pgvector.

The index of vectors knows no orgs: asked for the nearest of a small org among many, it would walk
through everybody's. So the org stands in the vector itself, as a direction of its own that counts
a little beside the meaning: those of the same org are nearer by `ORG_WEIGHT`, those of others are
not. Within an org the order by meaning stays as it is.

Passages: what makes artifacts and sources findable.

They are made from artifacts and sources, and no audit speaks of them: they can be made anew.
They are written with their vectors, to the table of the backend that ranks them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from math import sqrt
from typing import Any, NamedTuple
from uuid import UUID

from waybook.plan.research import ExistingResearch, ResearchSource
from waybook.research.embedding import Vector
from waybook.research.passages import json_to_text, passages
from waybook.store.driver.queries import Ids, Rows, Statement, Value, load
from waybook.store.research import embeddings


class Backend(StrEnum):
    """The place where vectors are stored and ranked."""

    #: Quantized, in an ordinary table, ranked in the process.
    PORTABLE = "portable"
    #: In a table of halfvec, ranked by the extension.
    PGVECTOR = "pgvector"


SQL = load("research/artifacts")


def existing_in_plan_statements(
    plan_id: str, kind: str, title: str, source_ids: Iterable[str]
) -> list[Statement]:
    """Ask what a plan has under this name, and which of these sources it has met."""
    return [
        SQL["latest_in_plan"](plan_id=plan_id, kind=kind, title=title),
        SQL["known_sources"](plan_id=plan_id, ids=Ids(source_ids)),
    ]


def existing_standalone_statements(kind: str, title: str) -> list[Statement]:
    """Wait for our turn, then ask what there is under this name without a plan."""
    return [
        SQL["lock_name"](kind=kind, title=title),
        SQL["latest_standalone"](kind=kind, title=title),
    ]


def read_existing(
    latest: Sequence[tuple[Any, ...]], sources: Sequence[tuple[Any, ...]] = ()
) -> ExistingResearch:
    """What these statements found."""
    known = frozenset(row[0] for row in sources)
    if not latest:
        return ExistingResearch(sources=known)
    artifact_id, version, content_hash = latest[0]
    return ExistingResearch(artifact_id, version, content_hash, known)


def rows_statement(artifact_id: str) -> Statement:
    """Everything the audit of an artifact without a plan accounts for."""
    return SQL["stored_standalone_rows"](artifact_id=artifact_id)


def artifact_statement(artifact_id: str) -> Statement:
    """One artifact, with its content."""
    return SQL["artifact"](artifact_id=artifact_id)


def source_statement(source_id: str, most: int) -> Statement:
    """One source, with the newest artifacts that came from it."""
    return SQL["source"](source_id=source_id, most=most)


#: How much nearer passages of the same org are. Enough to pass by those of others that mean the
#: same; not so much that the index falls apart into islands.
ORG_WEIGHT = 0.3
ORG_DIMENSIONS = 32

#: In one transaction, before vectors are searched. Without the first line the index hands out a
#: few rows of whatever org and stops; with it, it goes on until enough are ours. A strict order
#: would drop what comes a little late; ours are sorted afterwards, so nothing need be dropped.
#: The last keeps the planner from sorting what the index gives in order.
SETTINGS = (
    "set local hnsw.iterative_scan = relaxed_order",
    "set local hnsw.ef_search = 200",
    "set local hnsw.max_scan_tuples = 40000",
    "set local hnsw.scan_mem_multiplier = 4",
    "set local enable_sort = off",
)
#: Up to so many passages are compared one by one, which misses none.
MAX_EXACT_SCAN = 2_000


def insert_statement(
    rows: Iterable[tuple[str, int, Vector]], *, model: str, org_id: UUID
) -> Statement:
    """Keep the vectors of passages of this org."""
    told = [(subject, part, model, encode_vector(vector, org_id)) for subject, part, vector in rows]
    return SQL["insert_vectors"](rows=Rows(told))


def nearest_statement(**values: Value) -> Statement:
    """The nearest passages of the org."""
    return SQL["nearest_vectors"](few=MAX_EXACT_SCAN, **values)


def nearest_in_plan_statement(**values: Value) -> Statement:
    """The nearest passages of a plan."""
    return SQL["nearest_vectors_in_plan"](**values)


def without_vectors_statement(
    model: str, backend: str, since: datetime | None, most: int
) -> Statement:
    """Passages, all or those since then, that have no vector of this model yet."""
    return SQL["without_vectors"](model=model, backend=backend, since=since, most=most)


def encode_vector(vector: Vector, org_id: UUID) -> str:
    """A vector of this org as pgvector reads it; it keeps three or four digits of each number.

    >>> encode_vector((0.6, -0.8), UUID(int=7))[:26]
    '[0.60000,-0.80000,0.09682,'
    """
    return "[" + ",".join([f"{number:.5f}" for number in (*vector, *_home(org_id))]) + "]"


@lru_cache(4096)
def _home(org_id: UUID) -> Vector:
    """The direction of an org: by chance, and so nearly at a right angle to any other's."""
    length = sqrt(ORG_WEIGHT / ORG_DIMENSIONS)
    chance = int.from_bytes(sha256(org_id.bytes).digest())
    return tuple(length if chance >> bit & 1 else -length for bit in range(ORG_DIMENSIONS))


#: The kind under which sources are found.
SOURCE = "source"
#: Between the tags of a passage.
SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSubject:
    """An artifact or a source, as search is to know it."""

    id: str
    subject: str
    plan_id: str | None
    kind: str
    title: str
    text: str
    created_at: datetime
    tags: tuple[str, ...] = ()


class PassageDraft(NamedTuple):
    """A passage to be."""

    subject: IndexedSubject
    part: int
    body: str

    @property
    def embedding_text(self) -> str:
        """What its vector is made of."""
        return embedding_text(self.subject.title, self.body)


class Embeddings(NamedTuple):
    """A vector for each of some pieces, and the model they are of."""

    model: str
    vectors: Sequence[Vector]
    backend: Backend = Backend.PORTABLE


def index_artifact(
    *,
    artifact_id: str,
    plan_id: str | None,
    kind: str,
    title: str,
    tags: Sequence[str],
    text: str,
    created_at: datetime,
) -> IndexedSubject:
    """An artifact as search is to know it: it is found by its tags too."""
    return IndexedSubject(
        id=artifact_id,
        subject="artifact",
        plan_id=plan_id,
        kind=kind,
        title=" · ".join([title, *tags]),
        text=text,
        created_at=created_at,
        tags=tuple(tags),
    )


def index_source(source: ResearchSource, created_at: datetime) -> IndexedSubject:
    """A source as search is to know it. It belongs to no plan: several may share it."""
    return IndexedSubject(
        id=source.id,
        subject="source",
        plan_id=None,
        kind=SOURCE,
        title=source.title,
        text="\n".join(part for part in (source.quote, source.url) if part),
        created_at=created_at,
    )


def split_subjects(subjects: Iterable[IndexedSubject]) -> list[PassageDraft]:
    """The subjects in passages."""
    return [
        PassageDraft(subject, part, body)
        for subject in subjects
        for part, body in enumerate(passages(subject.text) or (subject.title,), 1)
    ]


def embedding_text(title: str, body: str) -> str:
    """What a passage's vector is made of. Its title says what it is about, so it counts twice."""
    return f"{title}\n{title}\n{body}"


def index_statements(
    pieces: Sequence[PassageDraft], meanings: Embeddings | None, org_id: UUID
) -> Iterator[Statement]:
    """Make subjects of this org findable by their words, and with vectors by their meaning.

    A subject that is known stays as it is.
    """
    if not pieces:
        return
    yield SQL["insert_passages"](rows=Rows([_row(piece) for piece in pieces]))
    if meanings:
        yield vectors_statement([(p.subject.id, p.part) for p in pieces], meanings, org_id)


def vectors_statement(
    parts: Sequence[tuple[str, int]], meanings: Embeddings, org_id: UUID
) -> Statement:
    """Keep the vectors of these passages."""
    told = zip(parts, meanings.vectors, strict=True)
    rows = [(subject, part, vector) for (subject, part), vector in told]
    if meanings.backend is Backend.PORTABLE:
        return embeddings.insert_statement(rows, model=meanings.model)
    return insert_statement(rows, model=meanings.model, org_id=org_id)


def _row(piece: PassageDraft) -> tuple[str | int | datetime | None, ...]:
    s = piece.subject
    tags = SEPARATOR.join(s.tags) or None
    return (
        *(s.subject, s.id, piece.part, s.plan_id, s.kind, s.title, piece.body, s.created_at),
        tags,
    )


def unindex_statement(artifact_id: str) -> Statement:
    """Let search pass by an artifact of which there is a later version."""
    return SQL["unindex"](artifact_id=artifact_id)


def unindex_earlier_statement(artifact_ids: Iterable[str]) -> Statement:
    """Let search pass by what these artifacts of plans are later versions of."""
    return SQL["unindex_earlier"](ids=Ids(artifact_ids))


def unindexed_statement(since: datetime | None, most: int) -> Statement:
    """Artifacts, all or those since then, that search does not know yet."""
    return SQL["without_passages"](since=since, most=most)


def read_unindexed(rows: Iterable[tuple[Any, ...]]) -> list[IndexedSubject]:
    """What `unindexed_statement` found, as search is to know it."""
    return [
        index_artifact(
            artifact_id=artifact_id,
            plan_id=plan_id,
            kind=kind,
            title=title,
            tags=tags,
            text=json_to_text(content),
            created_at=created_at,
        )
        for artifact_id, plan_id, kind, title, tags, content, created_at in rows
    ]
