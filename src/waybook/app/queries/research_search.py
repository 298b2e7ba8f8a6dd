"""Search in stored research: full-text, and semantic where embeddings are available."""

import asyncio
from dataclasses import dataclass

from waybook.app.request.request_context import RequestContext
from waybook.app.request.search.search_backend import search_backend
from waybook.research.embedding import Backend, StaticEmbedder
from waybook.research.fusion import MIN_SCORE, Hit, fuse
from waybook.research.query import SearchQuery, parse_query
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement
from waybook.store.research import search
from waybook.store.research.search import QueryVector, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults:
    question: SearchQuery
    hits: list[Hit]
    method: str
    #: Hits below this score do not fit the question. Only the scale of the built-in embedding model
    #: is known, so with another model it is 0.
    floor: float

    @property
    def fitting_hits(self) -> list[Hit]:
        return [hit for hit in self.hits if hit.score >= self.floor]


async def run_search(
    ctx: RequestContext,
    text: str,
    scope: Scope,
    *extra_statements: Statement,
    semantic: bool = True,
) -> tuple[SearchResults, Results]:
    """Return the hits for a text, best first, and the results of the extra statements."""
    library, org_id = search_backend(ctx.services), ctx.caller.org_id
    able = await library.capabilities(ctx.services.database, org_id)
    question = await asyncio.to_thread(parse_query, text)
    wants_vectors = able.vectors and semantic
    made = await library.embed_texts([question.embedding_text]) if wants_vectors else None
    query_vector = (
        QueryVector(vector=made[0], model=library.model.name, org_id=org_id) if made else None
    )
    statements = search.search_statements(question, query_vector, scope, able)
    if query_vector is not None and able.backend is Backend.PORTABLE:
        portable = library.portable_search(ctx.services.database, query_vector, scope)
        more = await portable.begin()
        results = await ctx.read(*extra_statements, *statements, *more)
        split = len(results) - len(more)
        ranked = search.read_ranked(results[len(extra_statements) : split])
        ranked["meaning"] = await portable.finish(results[split:])
    else:
        results = await ctx.read(*extra_statements, *statements)
        ranked = search.read_ranked(results[len(extra_statements) :])
    down = wants_vectors and query_vector is None
    how = "full text alone (the embeddings endpoint does not answer)" if down else able.describe
    builtin = query_vector is None or query_vector.model == StaticEmbedder.model
    search_results = SearchResults(
        question=question, hits=fuse(ranked), method=how, floor=MIN_SCORE if builtin else 0
    )
    return search_results, results[: len(extra_statements)]
