"""Corpus for search tests: texts of an org, stored and indexed without calling tools."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from org_env import NOON
from postgres_servers import ServerDatabase
from waybook.app.request.search_backend import PortableSearch, VectorCache
from waybook.plan.research import ResearchSource
from waybook.research.embedding import Backend, builtin_embedder
from waybook.research.fusion import RankedPassage, fuse
from waybook.research.query import parse_query
from waybook.store.accounts.accounts import add_org
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Rows, new_uuid
from waybook.store.plans import writer
from waybook.store.research import artifacts, search
from waybook.store.research.artifacts import Embeddings, index_artifact
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities

EMBEDDER = builtin_embedder()


@dataclass
class SearchCorpus:
    """Texts of one org, with functions that store and search them."""

    database: Database
    org_id: UUID
    abilities: SearchCapabilities
    cache: VectorCache = field(default_factory=VectorCache)

    async def store(self, name: str, text: str, **more: Any) -> str:  # noqa: ANN401 - as in `index_artifact`
        """Store an indexed artifact with this title and text; return its id."""
        artifact_id = new_uuid()
        fields = {"plan_id": None, "kind": "note", "tags": (), "created_at": NOON, **more}
        subject = index_artifact(artifact_id=artifact_id, title=name, text=text, **fields)
        await self.index(subject)
        return artifact_id

    async def index(self, *subjects: artifacts.IndexedSubject) -> None:
        pieces = artifacts.split_subjects(subjects)
        made = [EMBEDDER.embed(piece.embedding_text) for piece in pieces]
        backend = self.abilities.backend
        meanings = Embeddings(EMBEDDER.model, made, backend) if backend else None
        await self.write(*artifacts.index_statements(pieces, meanings, self.org_id))

    async def link(self, artifact_id: str, source: ResearchSource) -> None:
        """Store a source, and add it to the sources of the artifact."""
        fields = (source.id, source.url, source.title, source.quote, source.content_hash)
        link = (artifact_id, source.id, 1, source.retrieved_at)
        await self.write(
            writer.SQL["insert_sources"](rows=Rows([(*fields, NOON, "ann")])),
            writer.SQL["insert_links"](rows=Rows([link])),
        )

    async def write(self, *statements: Any) -> list[Any]:  # noqa: ANN401 - statements and their rows
        async with self.database.org_transaction(self.org_id) as tx:
            return await tx.commit(*statements)

    async def lists(self, text: str, **scope: Any) -> dict[str, list[RankedPassage]]:  # noqa: ANN401 - of a scope
        question = parse_query(text)
        vector = EMBEDDER.embed(question.embedding_text)
        query_vector = QueryVector(vector=vector, model=EMBEDDER.model, org_id=self.org_id)
        statements = search.search_statements(
            question, query_vector, Scope(**scope), self.abilities
        )
        if self.abilities.backend is not Backend.PORTABLE:
            return search.read_ranked(await self.database.read_org(self.org_id, *statements))
        portable = PortableSearch(self.cache, self.database, query_vector, Scope(**scope))
        more = await portable.begin()
        results = await self.database.read_org(self.org_id, *statements, *more)
        ranked = search.read_ranked(results[: len(statements)])
        return {**ranked, "meaning": await portable.finish(results[len(statements) :])}

    async def search(self, text: str, **scope: Any) -> list[str]:  # noqa: ANN401 - of a scope
        hits = fuse(await self.lists(text, **scope))
        if not hits:
            return []
        titles = dict(await self.rows("select subject_id::text, title from passage"))
        return [titles[hit.subject_id] for hit in hits]

    async def rows(self, question: str) -> Sequence[tuple[Any, ...]]:
        (rows,) = await self.database.read_org(self.org_id, question)
        return rows


async def make_search_corpus(
    database: Database, place: ServerDatabase, wanted: str = "auto"
) -> SearchCorpus:
    org_id = UUID(new_uuid())
    add_org(place.owner_dsn, org_id, f"org-{org_id}")
    (rows,) = await database.read_org(org_id, search.SQL["search_capabilities"]())
    return SearchCorpus(database, org_id, search.read_capabilities(rows, wanted))
