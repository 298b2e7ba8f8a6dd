"""Search this org for a question: by words, and by meaning where vectors can be had."""

import asyncio
from dataclasses import dataclass

from waybook.research.fusion import Hit, fuse
from waybook.research.question import Question, read_question
from waybook.store import search
from waybook.store.backend import Backend
from waybook.store.database import Results
from waybook.store.search import Meant, Scope
from waybook.store.sql import Statement
from waybook.usecases.call import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found: all of it ranked, and in which way."""

    question: Question
    hits: list[Hit]
    told: str


async def find(call: Call, text: str, scope: Scope, *beside: Statement) -> tuple[Found, Results]:
    """What matches a text, best first, in one message; and what was asked beside it."""
    library, org_id = call.house.library, call.caller.org_id
    able = await library.abilities(call.house.database, org_id)
    question = await asyncio.to_thread(read_question, text)
    made = await library.vectors([question.meaning]) if able.vectors else None
    meant = Meant(vector=made[0], model=library.model.name, org_id=org_id) if made else None
    asked = search.search_statements(question, meant, scope, able)
    if meant is not None and able.backend is Backend.PORTABLE:
        portable = library.portable_search(call.house.database, meant, scope)
        more = await portable.begin()
        results = await call.read(*beside, *asked, *more)
        split = len(results) - len(more)
        ranked = search.read_ranked(results[len(beside) : split])
        ranked["meaning"] = await portable.finish(results[split:])
    else:
        results = await call.read(*beside, *asked)
        ranked = search.read_ranked(results[len(beside) :])
    down = able.vectors and meant is None
    how = "full text alone (the embeddings endpoint does not answer)" if down else able.told
    return Found(question=question, hits=fuse(ranked), told=how), results[: len(beside)]
