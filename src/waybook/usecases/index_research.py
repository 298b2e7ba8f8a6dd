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

from waybook.errors import Unavailable
from waybook.store import embeddings, passages, quarantine, vectors
from waybook.store.backend import Backend
from waybook.store.passages import Meanings
from waybook.store.search import Abilities
from waybook.store.sql import Statement
from waybook.usecases.call import Call

log = logging.getLogger(__name__)

#: Artifacts and passages in one go.
MOST_ARTIFACTS = 20
MOST_PASSAGES = 200
#: What was begun so long ago is committed by now, so there is nothing older to be found.
MARGIN = timedelta(hours=1)
#: How often a passage may break its connection before it is set aside.
MAX_BREAKS = 2


async def index_research(call: Call) -> int:
    """Index some of what is not; returns how much that was, so nothing when there is no more.

    Everything is looked through once; after that only what is new.
    """
    library, org_id = call.house.library, call.caller.org_id
    able = await library.abilities(call.house.database, org_id)
    await _set_aside(call, able)
    since = library.swept.get(org_id)
    asked = [passages.without_passages_statement(since, MOST_ARTIFACTS)]
    if able.backend is not None:
        missing = {Backend.PORTABLE: embeddings.without_embeddings_statement}.get(
            able.backend, vectors.without_vectors_statement
        )
        asked.append(missing(library.model.name, able.backend, since, MOST_PASSAGES))
    now, ((set_aside, _),), unknown, *bare = await call.read(
        "select app_now()", quarantine.count_statement(), *asked
    )
    told = _indexed(call, unknown)
    if told:
        async with call.house.database.tenant(org_id) as tx:
            await tx.commit(*told)
    embedded = await _embed(call, able, bare[0]) if bare and bare[0] else 0
    if not told and not (bare and bare[0]) and not set_aside:
        # What is set aside is older than the next look, and would not be tried again.
        library.swept[org_id] = now[0][0] - MARGIN
    return len(told) + embedded


def _indexed(call: Call, unknown: list[tuple[Any, ...]]) -> list[Statement]:
    """What makes these artifacts known to search, each in the place of its earlier versions."""
    subjects = passages.read_unknown(unknown)
    if not subjects:
        return []
    forget = passages.forget_earlier_statement(subject.id for subject in subjects)
    return [forget, *passages.index(passages.cut(subjects), None, call.caller.org_id)]


async def _embed(call: Call, able: Abilities, bare: list[tuple[Any, ...]]) -> int:
    """Store the vectors these passages lack, if they can be had now; return 1 if they could.

    Raises:
        Unavailable: the connection broke.
    """
    library, org_id = call.house.library, call.caller.org_id
    made = await library.vectors([passages.said(title, body) for _, _, title, body in bare])
    if made is None or able.backend is None:
        return 0
    keys = [(org_id, row[0], row[1]) for row in bare]
    meanings = Meanings(library.model.name, made, able.backend)
    stored = passages.vectors_statement([row[:2] for row in bare], meanings, org_id)
    async with call.house.database.tenant(org_id) as tx:
        try:
            await tx.commit(stored)
        except Unavailable:
            library.broken.update(keys)
            raise
    for key in keys:
        library.broken.pop(key, None)
    return 1


async def _set_aside(call: Call, able: Abilities) -> None:
    """Set passages aside that broke their connection too often, so that no process goes on."""
    library, org_id = call.house.library, call.caller.org_id
    keys = [key for key, n in library.broken.items() if key[0] == org_id and n >= MAX_BREAKS]
    if not keys:
        return
    passages_of = sorted(key[1:] for key in keys)
    model, backend = library.model.name, str(able.backend)
    await call.touch(quarantine.insert_statement(passages_of, model=model, backend=backend))
    for key in keys:
        del library.broken[key]
    log.error(
        "indexing %d passages broke the connection to the database %d times; they are left out "
        "for a day: run waybook doctor",
        len(keys),
        MAX_BREAKS,
    )
