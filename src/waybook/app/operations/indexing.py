"""Indexing one org: what search does not know yet, and what has no vector of today's model.

Outputs and results that came too late are indexed here, artifacts from before there was search,
and whatever an endpoint did not answer for. To do it twice, or at the same time, changes nothing.

Vectors go in a transaction of their own. Passages that break their connection twice are set aside
for a day: the extension that stores it may not run on the server's processor, and every try would
throw out all who are connected.
"""

import logging
from datetime import timedelta
from typing import Any

from waybook.app.request.request_context import RequestContext
from waybook.errors import Unavailable
from waybook.store.driver.queries import Statement
from waybook.store.research import artifacts, embeddings
from waybook.store.research.artifacts import Backend, Embeddings
from waybook.store.research.search import SearchCapabilities

log = logging.getLogger(__name__)

#: Artifacts and passages in one go.
MAX_ARTIFACTS = 20
MAX_PASSAGES = 200
#: What was begun so long ago is committed by now, so there is nothing older to be found.
COMMIT_MARGIN = timedelta(hours=1)
#: How often a passage may break its connection before it is set aside.
MAX_BREAKS = 2


async def index_research(ctx: RequestContext) -> int:
    """Index some of what is not; returns how much that was, so nothing when there is no more.

    Everything is looked through once; after that only what is new.
    """
    library, org_id = ctx.services.search_backend, ctx.caller.org_id
    able = await library.capabilities(ctx.services.database, org_id)
    await _set_aside(ctx, able)
    since = library.swept.get(org_id)
    asked = [artifacts.unindexed_statement(since, MAX_ARTIFACTS)]
    if able.backend is not None:
        missing = {Backend.PORTABLE: embeddings.without_embeddings_statement}.get(
            able.backend, artifacts.without_vectors_statement
        )
        asked.append(missing(library.model.name, able.backend, since, MAX_PASSAGES))
    now, ((set_aside, _),), unknown, *bare = await ctx.read(
        "select app_now()", embeddings.count_statement(), *asked
    )
    told = _indexed(ctx, unknown)
    if told:
        async with ctx.services.database.org_transaction(org_id) as tx:
            await tx.commit(*told)
    embedded = await _embed(ctx, able, bare[0]) if bare and bare[0] else 0
    if not told and not (bare and bare[0]) and not set_aside:
        # What is set aside is older than the next look, and would not be tried again.
        library.swept[org_id] = now[0][0] - COMMIT_MARGIN
    return len(told) + embedded


def _indexed(ctx: RequestContext, unknown: list[tuple[Any, ...]]) -> list[Statement]:
    """What makes these artifacts known to search, each in the place of its earlier versions."""
    subjects = artifacts.read_unindexed(unknown)
    if not subjects:
        return []
    forget = artifacts.unindex_earlier_statement(subject.id for subject in subjects)
    return [
        forget,
        *artifacts.index_statements(artifacts.split_subjects(subjects), None, ctx.caller.org_id),
    ]


async def _embed(ctx: RequestContext, able: SearchCapabilities, bare: list[tuple[Any, ...]]) -> int:
    """Store the vectors these passages lack, if they can be had now; return 1 if they could.

    Raises:
        Unavailable: the connection broke.
    """
    library, org_id = ctx.services.search_backend, ctx.caller.org_id
    made = await library.embed_texts(
        [artifacts.embedding_text(title, body) for _, _, title, body in bare]
    )
    if made is None or able.backend is None:
        return 0
    keys = [(org_id, row[0], row[1]) for row in bare]
    meanings = Embeddings(library.model.name, made, able.backend)
    stored = artifacts.vectors_statement([row[:2] for row in bare], meanings, org_id)
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
    """Set passages aside that broke their connection too often, so that no process goes on."""
    library, org_id = ctx.services.search_backend, ctx.caller.org_id
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
