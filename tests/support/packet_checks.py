"""Helpers that complete a shortened context, by making the calls that it names."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from org_env import AgentClient, Body
from waybook.app.request.locks.locking import LockedPlan
from waybook.app.request.request_context import RequestContext
from waybook.app.request.search_backend import search_backend
from waybook.core.changes import Entity, Event, as_json
from waybook.plan.draft import Draft
from waybook.store.driver.queries import new_uuid
from waybook.store.research import artifacts
from waybook.store.research.artifacts import index_artifact

#: Fields of a context entry that may contain its text.
TEXT_FIELDS = ("content", "resultSummary", "feedback", "reason", "failReason", "details", "summary")
#: Fields of an entry in a list that may contain its id.
KEYS = ("artifactId", "reviewId", "seq", "stepId")

#: Characters of several kinds, which need different numbers of bytes in UTF-8 and in JSON.
ALPHABET = 'abc de\n"\\\t\x01\x1féß語🜂𝄞'


def hostile_texts(random: Random, longest: int) -> str:
    length = random.choice([1, 7, random.randint(1, longest), longest])
    letters = random.choice([ALPHABET, "x", "\x01", "𝄞", "word "])
    some = "".join(random.choices(letters, k=min(length, 97)))
    return (some * (length // len(some) + 1))[:length]


async def completed(agent: AgentClient, reply: Body) -> Body:
    """Return the reply with every shortened text and list replaced by the complete one."""
    body = dict(reply)
    cut = body.pop("cut", {})
    notes = {_only_text(body): cut} if "get" in cut else dict(cut)
    more = notes.pop("more", None)
    for name, note in notes.items():
        assert note["left"] > 0
        if isinstance(body[name], list):
            body[name] = await _complete_list(agent, name, body[name], note)
        else:
            start = body[name] if "offset" in note["get"]["args"] else ""
            body[name] = start + await _rest(agent, note["get"])
    if more is not None:
        body |= await _absent(agent, more)
    for name, value in body.items():
        if isinstance(value, list):
            body[name] = [await completed(agent, v) if isinstance(v, dict) else v for v in value]
        elif isinstance(value, dict) and "cut" in value:
            body[name] = await completed(agent, value)
    return body


async def _absent(agent: AgentClient, note: Body) -> Body:
    """Return the parts that were left out of a small context."""
    larger = await completed(agent, await _carried_out(agent, note["get"]))
    return {name: larger[name] for name in note["left"]}


def _only_text(entry: Body) -> str:
    (name,) = (name for name in TEXT_FIELDS if name in entry)
    return name


async def _carried_out(agent: AgentClient, get: Body) -> Body:
    return await agent.call(get["tool"], **get["args"])


async def _rest(agent: AgentClient, get: Body) -> str:
    """Fetch the rest of a shortened text, one piece per call."""
    pieces = []
    while True:
        piece = await _carried_out(agent, get)
        assert piece["content"]
        pieces.append(piece["content"])
        get = piece["next"]
        if not piece["left"]:
            return "".join(pieces)


async def _complete_list(
    agent: AgentClient, name: str, entries: Sequence[Any], note: Body
) -> list[Any]:
    """Fetch the rest of a shortened list, one page per call, and return the complete list."""
    by_key = {_key(entry): entry for entry in entries}
    expected = len(by_key) + note["left"]
    cut = {name: note}
    while name in cut:
        page = await _carried_out(agent, cut[name]["get"])
        assert page[name]
        by_key |= {_key(entry): entry for entry in page[name]}
        cut = page.get("cut", {})
    assert len(by_key) >= expected
    return [*by_key.values()]


def _key(entry: Body) -> Any:  # noqa: ANN401 - an id or a number
    return next(entry[key] for key in KEYS if key in entry)


async def store_all(
    agent: AgentClient, plan: Body, stored: Iterable[tuple[str | None, str, object]]
) -> list[str]:
    """Store artifacts of a plan, given as step, title and content; return their ids."""
    call = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    ids, subjects = [], []
    async with LockedPlan(call, plan_id=plan["planId"]) as locked:
        draft = Draft(locked.plan, locked.context)
        now = locked.context.now
        for step_id, title, content in stored:
            artifact_id = new_uuid()
            ids.append(artifact_id)
            row: Body = {
                "step_id": step_id or None,
                "kind": "note",
                "title": title,
                "content": content,
                "superseded": False,
                "created_at": as_json(now),
                "created_by": "ann",
            }
            draft.insert(Entity.ARTIFACT, artifact_id, row)
            fields: Body = {
                "plan_id": plan["planId"],
                "kind": "note",
                "tags": (),
                "created_at": now,
            }
            fields["text"] = str(content)
            subjects.append(index_artifact(artifact_id=artifact_id, title=title, **fields))
        draft.record(Event.PLAN_MODIFIED, action="research_stored")
        await locked.write(draft.decide(None))
    services = agent.dispatcher.services
    pieces = artifacts.split_subjects(subjects)
    able = await search_backend(services).capabilities(services.database, agent.org_id)
    meanings = await search_backend(services).embed_passages(pieces, able)
    async with services.database.org_transaction(agent.org_id) as tx:
        await tx.commit(*artifacts.index_statements(pieces, meanings, agent.org_id))
    return ids
