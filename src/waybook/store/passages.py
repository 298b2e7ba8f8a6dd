"""Passages: what makes artifacts and sources findable.

They are made from artifacts and sources, and no audit speaks of them: they can be made anew.
They are written with their vectors, to the table of the backend that ranks them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from waybook.plan.research import ResearchSource
from waybook.research.embedding import Vector
from waybook.research.passages import json_to_text, passages
from waybook.store import embeddings, vectors
from waybook.store.backend import Backend
from waybook.store.sql import Ids, Rows, Statement, load

SQL = load("passages")

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
    return vectors.insert_statement(rows, model=meanings.model, org_id=org_id)


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
