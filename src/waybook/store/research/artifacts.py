"""Queries for artifacts and sources, and for their search index."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from waybook.json_values import Json
from waybook.plan.research import ExistingResearch, ResearchSource
from waybook.research.embedding import Backend, Vector
from waybook.research.fusion import RankedPassage
from waybook.research.passages import json_to_text, passages
from waybook.store.driver.queries import Row, Rows, Statement, first_column, load
from waybook.store.research import embeddings
from waybook.store.research.embeddings import encode_vector


class ArtifactRow(NamedTuple):
    id: str
    plan_id: str | None
    step_id: str | None
    kind: str
    title: str
    content: Json
    superseded: bool
    tags: list[Json] | None
    metadata: Json
    version: int | None
    created_at: datetime
    created_by: str
    earlier: str | None
    later: str | None


SQL = load(
    "research/artifacts",
    artifact=ArtifactRow,
    nearest_vectors=RankedPassage,
    nearest_vectors_in_plan=RankedPassage,
)


def read_existing(
    latest: Sequence[tuple[str, int, str | None]], sources: Sequence[Sequence[str]] = ()
) -> ExistingResearch:
    known = frozenset(first_column(sources))
    if not latest:
        return ExistingResearch(sources=known)
    ((artifact_id, version, content_hash),) = latest
    return ExistingResearch(artifact_id, version, content_hash, known)


#: Without `hnsw.iterative_scan`, the vector index would return only a few rows, which might all
#: belong to other orgs.
SETTINGS = (
    "set local hnsw.iterative_scan = relaxed_order",
    "set local hnsw.ef_search = 200",
    "set local hnsw.max_scan_tuples = 40000",
    "set local hnsw.scan_mem_multiplier = 4",
    "set local enable_sort = off",
)
#: Up to this number of passages, a search compares the query with each of them. With more, the
#: search uses the vector index, which may miss some passages.
MAX_EXACT_SCAN = 2_000


def insert_statement(
    rows: Iterable[tuple[str, int, Vector]], *, model: str, org_id: UUID
) -> Statement:
    vector_rows = [
        (subject, part, model, encode_vector(vector, org_id)) for subject, part, vector in rows
    ]
    return SQL["insert_vectors"](rows=Rows(vector_rows))


SOURCE = "source"
SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSubject:
    id: str
    subject: str
    plan_id: str | None
    kind: str
    title: str
    text: str
    created_at: datetime
    tags: tuple[str, ...] = ()


class PassageDraft(NamedTuple):
    subject: IndexedSubject
    part: int
    body: str

    @property
    def embedding_text(self) -> str:
        return embedding_text(self.subject.title, self.body)


class Embeddings(NamedTuple):
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
    """Prepare an artifact for the search index. Its tags become part of the title."""
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
    """Prepare a source for the search index. A source has no plan, because plans can share it."""
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
    return [
        PassageDraft(subject, part, body)
        for subject in subjects
        for part, body in enumerate(passages(subject.text) or (subject.title,), 1)
    ]


def embedding_text(title: str, body: str) -> str:
    """Return the text to embed for a passage. The title is repeated to give it more weight."""
    return f"{title}\n{title}\n{body}"


def index_statements(
    pieces: Sequence[PassageDraft], meanings: Embeddings | None, org_id: UUID
) -> Iterator[Statement]:
    """Insert passages and, if given, their vectors.

    Artifacts and sources that already have passages are skipped.
    """
    if not pieces:
        return
    rows = [
        (
            *(s.subject, s.id, part, s.plan_id, s.kind, s.title, text, s.created_at),
            SEPARATOR.join(s.tags) or None,
        )
        for s, part, text in pieces
    ]
    yield SQL["insert_passages"](rows=Rows(rows))
    if meanings:
        yield vectors_statement([(p.subject.id, p.part) for p in pieces], meanings, org_id)


def vectors_statement(
    parts: Sequence[tuple[str, int]], meanings: Embeddings, org_id: UUID
) -> Statement:
    pairs = zip(parts, meanings.vectors, strict=True)
    rows = [(subject, part, vector) for (subject, part), vector in pairs]
    if meanings.backend is Backend.PORTABLE:
        return embeddings.insert_statement(rows, model=meanings.model)
    return insert_statement(rows, model=meanings.model, org_id=org_id)


def unindex_statements(artifact_id: str) -> list[Statement]:
    names = {"artifact_id": artifact_id}
    return [SQL["record_unindexed"](**names), SQL["unindex"](**names)]


def read_unindexed(rows: Iterable[Row]) -> list[IndexedSubject]:
    return [
        index_artifact(
            artifact_id=row.id,
            plan_id=row.plan_id,
            kind=row.kind,
            title=row.title,
            tags=row.tags,
            text=json_to_text(row.content),
            created_at=row.created_at,
        )
        for row in rows
    ]
