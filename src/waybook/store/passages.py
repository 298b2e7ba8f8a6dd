"""Writing sources and passages: what was stored, and what makes it findable.

Passages are made from artifacts and sources, and no audit speaks of them: they can be made anew.
Where the server has pgvector they are written with their vectors, else without.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from waybook.research.embedding import Embedder, Vector
from waybook.research.passages import passages
from waybook.research.sources import source_hash, source_id
from waybook.store import vectors
from waybook.store.sql import Rows, Statement, load

SQL = load("passages")

#: The kind under which sources are found.
SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    url: str | None
    title: str
    quote: str | None
    retrieved_at: datetime | None

    @property
    def content_hash(self) -> str:
        return source_hash(url=self.url, title=self.title, quote=self.quote)

    @property
    def id(self) -> str:
        """The same for the same source, however often it is stored."""
        return source_id(self.content_hash)


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
    )


def of_source(source: Source, created_at: datetime) -> Subject:
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


def store_sources(
    artifact_id: str, sources: Iterable[Source], *, now: datetime, actor: str
) -> Iterator[Statement]:
    """Store the sources of an artifact, each once, and that it came from them."""
    each = {source.id: source for source in sources}
    if not each:
        return
    yield SQL["insert_sources"](
        rows=Rows(
            [
                (s.id, s.url, s.title, s.quote, s.retrieved_at, s.content_hash, now, actor)
                for s in each.values()
            ]
        )
    )
    links = [(artifact_id, source, position) for position, source in enumerate(each, 1)]
    yield SQL["insert_links"](rows=Rows(links))


def index(
    subjects: Iterable[Subject], embedder: Embedder | None, org_id: UUID
) -> Iterator[Statement]:
    """Make subjects of this org findable by their words, and with an embedder by their meaning.

    Pass none where the server keeps no vectors. A subject that is known stays as it is.
    """
    pieces = [
        (subject, part, body)
        for subject in subjects
        for part, body in enumerate(passages(subject.text) or (subject.title,), 1)
    ]
    if not pieces:
        return
    yield SQL["insert_passages"](
        rows=Rows(
            [
                (s.subject, s.id, part, s.plan_id, s.kind, s.title, body, s.created_at)
                for s, part, body in pieces
            ]
        )
    )
    if embedder:
        told = [(s.id, part, embedded(embedder, s.title, body)) for s, part, body in pieces]
        yield vectors.insert_statement(told, model=embedder.model, org_id=org_id)


def embedded(embedder: Embedder, title: str, body: str) -> Vector:
    """The vector of a passage. Its title says what it is about, so it counts twice."""
    return embedder.embed(f"{title}\n{title}\n{body}")


def without_passages_statement(most: int) -> Statement:
    """Artifacts that search does not know yet."""
    return SQL["without_passages"](most=most)
