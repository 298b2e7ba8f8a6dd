"""Passages: what makes artifacts and sources findable.

They are made from artifacts and sources, and no audit speaks of them: they can be made anew.
They are written with their vectors, to the table of the backend that ranks them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from waybook.plan.research import Origin
from waybook.research.embedding import Vector
from waybook.research.passages import passages, readable
from waybook.store import embeddings, vectors
from waybook.store.backend import Backend
from waybook.store.sql import Ids, Rows, Statement, load

SQL = load("passages")

#: The kind under which sources are found.
SOURCE = "source"
#: Between the tags of a passage.
SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An artifact or a source, as search is to know it."""

    id: str
    subject: str
    plan_id: str | None
    kind: str
    title: str
    text: str
    created_at: datetime
    tags: tuple[str, ...] = ()


class Piece(NamedTuple):
    """A passage to be."""

    subject: Subject
    part: int
    body: str

    @property
    def said(self) -> str:
        """What its vector is made of."""
        return said(self.subject.title, self.body)


class Meanings(NamedTuple):
    """A vector for each of some pieces, and the model they are of."""

    model: str
    vectors: Sequence[Vector]
    backend: Backend = Backend.PORTABLE


def of_artifact(
    *,
    artifact_id: str,
    plan_id: str | None,
    kind: str,
    title: str,
    tags: Sequence[str],
    text: str,
    created_at: datetime,
) -> Subject:
    """An artifact as search is to know it: it is found by its tags too."""
    return Subject(
        id=artifact_id,
        subject="artifact",
        plan_id=plan_id,
        kind=kind,
        title=" · ".join([title, *tags]),
        text=text,
        created_at=created_at,
        tags=tuple(tags),
    )


def of_source(source: Origin, created_at: datetime) -> Subject:
    """A source as search is to know it. It belongs to no plan: several may share it."""
    return Subject(
        id=source.id,
        subject="source",
        plan_id=None,
        kind=SOURCE,
        title=source.title,
        text="\n".join(part for part in (source.quote, source.url) if part),
        created_at=created_at,
    )


def cut(subjects: Iterable[Subject]) -> list[Piece]:
    """The subjects in passages."""
    return [
        Piece(subject, part, body)
        for subject in subjects
        for part, body in enumerate(passages(subject.text) or (subject.title,), 1)
    ]


def said(title: str, body: str) -> str:
    """What a passage's vector is made of. Its title says what it is about, so it counts twice."""
    return f"{title}\n{title}\n{body}"


def index(pieces: Sequence[Piece], meanings: Meanings | None, org_id: UUID) -> Iterator[Statement]:
    """Make subjects of this org findable by their words, and with vectors by their meaning.

    A subject that is known stays as it is.
    """
    if not pieces:
        return
    yield SQL["insert_passages"](rows=Rows([_row(piece) for piece in pieces]))
    if meanings:
        yield vectors_statement([(p.subject.id, p.part) for p in pieces], meanings, org_id)


def vectors_statement(
    parts: Sequence[tuple[str, int]], meanings: Meanings, org_id: UUID
) -> Statement:
    """Keep the vectors of these passages."""
    told = zip(parts, meanings.vectors, strict=True)
    rows = [(subject, part, vector) for (subject, part), vector in told]
    if meanings.backend is Backend.PORTABLE:
        return embeddings.insert_statement(rows, model=meanings.model)
    return vectors.insert_statement(rows, model=meanings.model, org_id=org_id)


def _row(piece: Piece) -> tuple[str | int | datetime | None, ...]:
    s = piece.subject
    tags = SEPARATOR.join(s.tags) or None
    return (
        *(s.subject, s.id, piece.part, s.plan_id, s.kind, s.title, piece.body, s.created_at),
        tags,
    )


def forget_statement(artifact_id: str) -> Statement:
    """Let search pass by an artifact of which there is a later version."""
    return SQL["forget"](artifact_id=artifact_id)


def forget_earlier_statement(artifact_ids: Iterable[str]) -> Statement:
    """Let search pass by what these artifacts of plans are later versions of."""
    return SQL["forget_earlier"](ids=Ids(artifact_ids))


def without_passages_statement(since: datetime | None, most: int) -> Statement:
    """Artifacts, all or those since then, that search does not know yet."""
    return SQL["without_passages"](since=since, most=most)


def read_unknown(rows: Iterable[tuple[Any, ...]]) -> list[Subject]:
    """What `without_passages_statement` found, as search is to know it."""
    return [
        of_artifact(
            artifact_id=artifact_id,
            plan_id=plan_id,
            kind=kind,
            title=title,
            tags=tags,
            text=readable(content),
            created_at=created_at,
        )
        for artifact_id, plan_id, kind, title, tags, content, created_at in rows
    ]
