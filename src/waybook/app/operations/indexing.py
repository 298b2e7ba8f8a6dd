"""Adds new artifacts of an org, and their passages, to the search index.

If the database crashes twice while a passage is stored, the passage is left out for a day, because
each crash disconnects all clients.
"""

import logging
from datetime import timedelta

from waybook.app.request.request_context import RequestContext
from waybook.app.request.search_backend import search_backend
from waybook.errors import Unavailable
from waybook.research.embedding import Backend
from waybook.store.driver.queries import Ids, Row, Statement, first_value
from waybook.store.research import artifacts, embeddings
from waybook.store.research.artifacts import Embeddings
from waybook.store.research.search import SearchCapabilities

log = logging.getLogger(__name__)

_MAX_ARTIFACTS = 20
_MAX_PASSAGES = 200
#: A row may become visible up to an hour after its timestamp, when its transaction is committed. So
#: each search for rows without an index entry begins an hour before the previous search.
_COMMIT_MARGIN = timedelta(hours=1)
#: A passage is left out of the index after storing it broke the connection this many times.
MAX_BREAKS = 2


async def index_research(ctx: RequestContext) -> int:
    """Index a batch of artifacts and passages. Return 0 if there was nothing to index."""
    library, org_id = search_backend(ctx.services), ctx.caller.org_id
    able = await library.capabilities(ctx.services.database, org_id)
    await _set_aside(ctx, able)
    since = library.swept.get(org_id)
    statements = [artifacts.SQL["without_passages"](since=since, most=_MAX_ARTIFACTS)]
    if able.backend is not None:
        missing = artifacts.SQL["without_vectors"]
        if able.backend is Backend.PORTABLE:
            missing = embeddings.SQL["without_embeddings"]
        statements.append(
            missing(model=library.model.name, backend=able.backend, since=since, most=_MAX_PASSAGES)
        )
    now, (quarantine,), unknown, *bare = await ctx.read(
        "select app_now()", embeddings.SQL["quarantined_passages"](), *statements
    )
    index_statements: list[Statement] = []
    if subjects := artifacts.read_unindexed(unknown):
        pieces = artifacts.split_subjects(subjects)
        ids = Ids([subject.id for subject in subjects])
        index_statements.append(artifacts.SQL["record_earlier_unindexed"](ids=ids))
        index_statements.append(artifacts.SQL["unindex_earlier"](ids=ids))
        index_statements += artifacts.index_statements(pieces, None, org_id)
        async with ctx.services.database.org_transaction(org_id) as tx:
            await tx.commit(*index_statements)
    embedded = await _embed(ctx, able, bare[0]) if bare and bare[0] else 0
    if not index_statements and not (bare and bare[0]) and not quarantine.passages:
        # If a passage was not indexed, keep the old time, from which the next call searches again.
        library.swept[org_id] = first_value(now) - _COMMIT_MARGIN
    return len(index_statements) + embedded


async def _embed(ctx: RequestContext, able: SearchCapabilities, bare: list[Row]) -> int:
    """Compute and store embeddings of these passages. Return 1 if they were stored, else 0."""
    library, org_id = search_backend(ctx.services), ctx.caller.org_id
    made = await library.embed_texts(
        [artifacts.embedding_text(row.title, row.body) for row in bare]
    )
    if made is None or able.backend is None:
        return 0
    keys = [(org_id, row.subject_id, row.part) for row in bare]
    meanings = Embeddings(library.model.name, made, able.backend)
    parts = [(row.subject_id, row.part) for row in bare]
    stored = artifacts.vectors_statement(parts, meanings, org_id)
    async with ctx.services.database.org_transaction(org_id) as tx:
        try:
            await tx.commit(stored)
        except Unavailable:
            library.broken.update(keys)
            raise
    for key in keys:
        library.broken.pop(key, None)
    return 1


async def _set_aside(ctx: RequestContext, able: SearchCapabilities) -> None:
    """Leave passages out for a day if storing them broke the connection `MAX_BREAKS` times."""
    library, org_id = search_backend(ctx.services), ctx.caller.org_id
    keys = [key for key, n in library.broken.items() if key[0] == org_id and n >= MAX_BREAKS]
    if not keys:
        return
    passages_of = sorted(key[1:] for key in keys)
    model, backend = library.model.name, str(able.backend)
    await ctx.write_and_read(
        embeddings.quarantine_statement(passages_of, model=model, backend=backend)
    )
    for key in keys:
        del library.broken[key]
    log.error(
        "indexing %d passages broke the connection to the database %d times; they are left out "
        "for a day: run waybook doctor",
        len(keys),
        MAX_BREAKS,
    )
