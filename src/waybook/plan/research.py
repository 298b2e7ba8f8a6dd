"""Stores research: findings of an agent with their sources. Every version is kept."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry, Event, as_json
from waybook.core.decision_context import DecisionContext
from waybook.errors import InvalidInput, NextCall, PlanTerminal
from waybook.json_values import Json
from waybook.plan.draft import Decision, Draft, register_session
from waybook.plan.model import CLOSED_PLAN, Plan, StepId
from waybook.plan.store_output import OUTPUT

RESERVED = frozenset({OUTPUT, "late_result", "source"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchSource:
    #: The id is derived from the source's content, so the same source always has the same id.
    id: str
    content_hash: str
    url: str | None
    title: str
    quote: str | None
    retrieved_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Research:
    kind: str
    title: str
    content: Json
    tags: tuple[str, ...] = ()
    metadata: Json = None
    origins: tuple[ResearchSource, ...] = ()

    @property
    def content_hash(self) -> str:
        """Return a hash of content, tags, metadata and sources, to detect identical research."""
        fields = [self.content, self.tags, self.metadata, [origin.id for origin in self.origins]]
        serialized = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return sha256(serialized.encode()).hexdigest()


class ExistingResearch(NamedTuple):
    artifact_id: str | None = None
    version: int = 0
    content_hash: str | None = None
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResearch:
    artifact_id: str
    version: int
    unchanged: bool = False


def store_research(
    plan: Plan,
    step_id: StepId | None,
    research: Research,
    before: ExistingResearch,
    context: DecisionContext,
) -> Decision[StoredResearch]:
    """Store research for a plan. With a step id, this also counts as a heartbeat.

    Raises:
        PlanTerminal: the plan is closed; the research can still be stored without a plan.
        InvalidInput: the kind is reserved.
    """
    stored, entry = store_standalone(research, before, context, step_id)
    if plan.status in CLOSED_PLAN:
        raise PlanTerminal(
            f"this plan is {plan.status} and can no longer be changed",
            next_call=NextCall(
                "store_research",
                {"kind": research.kind, "title": research.title},
                "Store it without planId and stepId, for every plan to find.",
            ),
            planId=plan.id,
            status=str(plan.status),
            reason=plan.fail_reason,
        )
    draft = Draft(plan, context)
    register_session(draft)
    if step_id is not None:
        draft.record_heartbeat(step_id)
    if entry is not None:
        for change in entry.changes:
            draft.note(*change)
        draft.record(entry.event, **entry.details)
    return draft.decide(stored)


def store_standalone(
    research: Research,
    before: ExistingResearch,
    context: DecisionContext,
    step_id: StepId | None = None,
) -> tuple[StoredResearch, Entry | None]:
    """Return the research to store, and the audit entry that stores it.

    If the same research is already stored, there is no audit entry.
    """
    if research.kind in RESERVED:
        raise InvalidInput(
            f"kind: {research.kind!r} is reserved; use another word, such as note",
            reserved=sorted(RESERVED),
        )
    artifact_id, version = before.artifact_id or "", before.version
    if before.content_hash == research.content_hash:
        return StoredResearch(artifact_id=artifact_id, version=version, unchanged=True), None
    stored = StoredResearch(artifact_id=context.new_uuid(), version=version + 1)
    details: dict[str, Json] = {
        "action": "research_stored",
        "artifactId": stored.artifact_id,
        "kind": research.kind,
        "title": research.title,
        "version": stored.version,
        **({"stepId": step_id} if step_id else {}),
    }
    changes = tuple(_changes(research, stored, before, step_id, context))
    return stored, Entry(Event.PLAN_MODIFIED, details, changes)


def _changes(
    research: Research,
    stored: StoredResearch,
    before: ExistingResearch,
    step_id: StepId | None,
    context: DecisionContext,
) -> Iterator[Change]:
    row: dict[str, Json] = {
        "step_id": step_id,
        "kind": research.kind,
        "title": research.title,
        "content": research.content,
        "superseded": False,
        "tags": [*research.tags] or None,
        "metadata": research.metadata,
        "version": stored.version,
        "content_hash": research.content_hash,
        "created_at": as_json(context.now),
        "created_by": context.actor.user,
    }
    yield Change(Entity.ARTIFACT, stored.artifact_id, WHOLE_ROW, None, row)
    for origin in research.origins:
        if origin.id not in before.sources:
            source: dict[str, Json] = {
                "url": origin.url,
                "title": origin.title,
                "quote": origin.quote,
                "content_hash": origin.content_hash,
            }
            yield Change(Entity.SOURCE, origin.id, WHOLE_ROW, None, source)
    for position, origin in enumerate(research.origins, 1):
        link: dict[str, Json] = {
            "artifact_id": stored.artifact_id,
            "source_id": origin.id,
            "position": position,
            "retrieved_at": as_json(origin.retrieved_at),
        }
        name = f"{stored.artifact_id}/{position}"
        yield Change(Entity.ARTIFACT_SOURCE, name, WHOLE_ROW, None, link)
