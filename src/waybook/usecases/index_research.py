"""Indexing one org: what search does not know yet, and what has no vector of today's model.

Outputs and results that came too late are indexed here, artifacts from before there was search,
and whatever an endpoint did not answer for. To do it twice, or at the same time, changes nothing.
"""

from datetime import timedelta
from typing import Any

from waybook.store import passages, vectors
from waybook.store.passages import Meanings
from waybook.store.sql import Statement
from waybook.usecases.call import Call

#: Artifacts and passages in one go.
MOST_ARTIFACTS = 20
MOST_PASSAGES = 200
#: What was begun so long ago is committed by now, so there is nothing older to be found.
MARGIN = timedelta(hours=1)


async def index_research(call: Call) -> int:
    """Index some of what is not; returns how much that was, so nothing when there is no more.

    Everything is looked through once; after that only what is new.
    """
    library, org_id = call.house.library, call.caller.org_id
    able = await library.abilities(call.house.database, org_id)
    since = library.swept.get(org_id)
    asked = [passages.without_passages_statement(since, MOST_ARTIFACTS)]
    if able.vectors:
        asked.append(vectors.without_vectors_statement(library.model.name, since, MOST_PASSAGES))
    now, unknown, *bare = await call.read("select app_now()", *asked)
    told = _indexed(call, unknown)
    embedded = await _embedded(call, bare[0]) if bare and bare[0] else []
    if told or embedded:
        async with call.house.database.tenant(org_id) as tx:
            await tx.commit(*told, *embedded)
    elif not (bare and bare[0]):
        library.swept[org_id] = now[0][0] - MARGIN
    return len(told) + len(embedded)


def _indexed(call: Call, unknown: list[tuple[Any, ...]]) -> list[Statement]:
    """What makes these artifacts known to search, each in the place of its earlier versions."""
    subjects = passages.read_unknown(unknown)
    if not subjects:
        return []
    forget = passages.forget_earlier_statement(subject.id for subject in subjects)
    return [forget, *passages.index(passages.cut(subjects), None, call.caller.org_id)]


async def _embedded(call: Call, bare: list[tuple[Any, ...]]) -> list[Statement]:
    """The vectors these passages lack, if they can be had now."""
    library = call.house.library
    made = await library.vectors([passages.said(title, body) for _, _, title, body in bare])
    if made is None:
        return []
    meanings = Meanings(library.model.name, made)
    return [passages.vectors_statement([row[:2] for row in bare], meanings, call.caller.org_id)]
