"""Search this org for a question: by words, and by meaning where vectors can be had."""

import asyncio
from dataclasses import dataclass

from waybook.research.fusion import Hit, fuse
from waybook.research.question import SearchQuery, parse_query
from waybook.store import search
from waybook.store.backend import Backend
from waybook.store.database import Results
from waybook.store.search import QueryVector, Scope
from waybook.store.sql import Statement
from waybook.usecases.call import RequestContext


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults:
    """What a search found: all of it ranked, and in which way."""

    question: SearchQuery
    hits: list[Hit]
    method: str


async def run_search(
    ctx: RequestContext, text: str, scope: Scope, *beside: Statement
) -> tuple[SearchResults, Results]:
    """What matches a text, best first, in one message; and what was asked beside it."""
    library, org_id = ctx.services.search_backend, ctx.caller.org_id
    able = await library.capabilities(ctx.services.database, org_id)
    question = await asyncio.to_thread(parse_query, text)
    made = await library.embed_texts([question.embedding_text]) if able.vectors else None
    meant = QueryVector(vector=made[0], model=library.model.name, org_id=org_id) if made else None
    asked = search.search_statements(question, meant, scope, able)
    if meant is not None and able.backend is Backend.PORTABLE:
        portable = library.portable_search(ctx.services.database, meant, scope)
        more = await portable.begin()
        results = await ctx.read(*beside, *asked, *more)
        split = len(results) - len(more)
        ranked = search.read_ranked(results[len(beside) : split])
        ranked["meaning"] = await portable.finish(results[split:])
    else:
        results = await ctx.read(*beside, *asked)
        ranked = search.read_ranked(results[len(beside) :])
    down = able.vectors and meant is None
    how = "full text alone (the embeddings endpoint does not answer)" if down else able.describe
    return SearchResults(question=question, hits=fuse(ranked), method=how), results[: len(beside)]
