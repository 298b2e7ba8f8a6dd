"""What a new conversation is handed to go on with a plan, part by part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waybook.plan.model import Plan, Review, Step
from waybook.plan.review import open_review
from waybook.plan.states import TERMINAL_STEP
from waybook.record.moment import Json
from waybook.research.packet import Entry, Get, Listed, One, Part
from waybook.store.audit import Sealed
from waybook.store.contexts import FIRST, Beginning, Page, Stored, read_stored
from waybook.usecases.audit_trail import told_beside
from waybook.usecases.call import Body
from waybook.usecases.links import review_url
from waybook.usecases.packet_parts import Reader, named, results_by_step, total
from waybook.usecases.views import completion_view, moment, progress_view, told

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What was read for a plan's packet."""

    plan: Plan
    brief: tuple[Any, ...]
    instructions: Rows
    results: Rows
    newest: Rows
    entries: Sequence[Sealed]
    base_url: str
    #: What search found, best first; or what was stored since.
    ranked: Sequence[Stored] = ()
    #: After which entry things are told, and which steps have changed since; None is all.
    since: int | None = None
    changed: frozenset[str] | None = None
    page: Page = FIRST


def frame(of: Material) -> Body:
    """What is always there."""
    plan = of.plan
    _, _, created_at, created_by, media_type, _, skill, *_ = of.brief
    return told(
        planId=plan.id,
        status=str(plan.status),
        progress=progress_view(plan),
        seq=plan.seq,
        revision=plan.revision,
        skill=skill,
        outputMediaType=media_type,
        createdAt=moment(created_at),
        createdBy=created_by,
    )


def parts(of: Material, reader: Reader) -> list[Part]:
    """The parts of a plan's packet, in order."""
    question, notes, _, _, _, formatting, *_ = of.brief
    review = open_review(of.plan)
    return [
        *reader.text("name", of.plan.name),
        *reader.text("researchQuestion", question if of.since is None else None, counts=3),
        *reader.text("planFormattingNotes", notes, counts=2),
        *reader.text("outputFormattingInstructions", formatting, counts=2),
        *reader.text("reason", of.plan.fail_reason, counts=2),
        *([_review(review, of, reader)] if review else []),
        _steps(of, reader),
        _artifacts(of, reader),
        _events(of),
    ]


def list_named(name: str, of: Material, reader: Reader) -> list[Part]:
    """One of the lists, by itself."""
    if name == "steps":
        entries = [*_entries(of.plan.steps[of.page.offset :], of, reader)]
        return [reader.page(name, entries, of.page, len(of.plan.steps))]
    stored = [reader.artifact(read_stored(row)) for row in of.newest]
    return [reader.page(name, stored, of.page, total(of.newest))]


def _review(review: Review, of: Material, reader: Reader) -> One:
    frame = told(
        reviewId=review.id,
        stepId=review.step_id,
        requestedAt=moment(review.requested_at),
        requestedBy=review.requested_by,
        reviewUrl=review_url(of.plan.id, of.base_url),
    )
    questions: list[Json] = [*review.questions]
    texts = (
        *reader.text("summary", review.summary, part=f"summary:{review.id}"),
        *reader.text("questions", questions, part=f"questions:{review.id}"),
    )
    entry = Entry(frame=frame, texts=texts, several=True)
    return One(name="openReview", entry=entry, counts=3)


def _steps(of: Material, reader: Reader) -> Listed:
    """The steps in plan order; where there is no room for all, those around the first open one."""
    steps = [s for s in of.plan.steps if of.changed is None or s.id in of.changed]
    now = next((at for at, s in enumerate(steps) if s.status not in TERMINAL_STEP), len(steps) - 1)
    whole = of.changed is None
    return Listed(
        name="steps",
        entries=tuple(_entries(steps, of, reader)),
        get=reader.get("steps"),
        resume=lambda shown: {"offset": shown if whole else 0},
        focus=max(0, now),
        counts=6,
    )


def _entries(steps: Sequence[Step], of: Material, reader: Reader) -> Iterator[Entry]:
    instructions = {row[0]: Beginning(row[2], row[1]) for row in of.instructions}
    results = results_by_step(of.results)
    for step in steps:
        yield _entry(step, instructions, results, reader)


def _entry(
    step: Step,
    instructions: Mapping[str, Beginning],
    results: Mapping[str, tuple[float | None, Beginning]],
    reader: Reader,
) -> Entry:
    confidence, result = results.get(step.id, (None, None))
    waits_for: list[Json] = [*step.depends_on]
    return Entry(
        frame=named(
            step,
            attempt=step.attempt,
            heldBy=step.held_by if step.completed_at is None else None,
            confidence=confidence,
            **completion_view(step),
            lastActivityAt=_last_activity(step),
        ),
        texts=(
            *reader.text("dependsOn", waits_for or None, part=f"dependsOn:{step.id}"),
            *reader.text("failReason", step.fail_reason, part=f"failReason:{step.id}"),
            *reader.beginning(
                "instructions", instructions.get(step.id), part=f"instructions:{step.id}"
            ),
            *reader.beginning("resultSummary", result, part=f"result:{step.id}", counts=3),
        ),
        several=True,
    )


def _last_activity(step: Step) -> str | None:
    times = [t for t in (step.in_progress_since, step.last_seen_at, step.completed_at) if t]
    return moment(max(times)) if times else None


def _artifacts(of: Material, reader: Reader) -> Listed:
    if of.since is not None:
        return reader.artifacts(of.ranked, (), len(of.ranked), counts=3)
    newest = [read_stored(row) for row in of.newest]
    return reader.artifacts(of.ranked, newest, total(of.newest), counts=3)


def _events(of: Material) -> Listed:
    """The last entries, newest first; or those since a number, oldest first, and so read on."""
    reader = Reader("get_research_context", {"planId": of.plan.id})
    seqs = [entry.seq for entry in of.entries]
    numbers = [of.since, *seqs] if of.since is not None else [0] * (len(seqs) + 1)
    beyond = min(seqs, default=1) - 1 if of.since is None else of.plan.seq - max(numbers)
    return Listed(
        name="recentEvents",
        entries=tuple(_event(entry, reader) for entry in of.entries),
        get=Get(reader.tool, reader.args),
        beyond=max(0, beyond),
        resume=lambda shown: {"since": numbers[shown]},
        counts=2,
    )


def _event(entry: Sealed, reader: Reader) -> Entry:
    return Entry(
        frame=told(
            seq=entry.seq,
            at=moment(entry.at),
            event=entry.event,
            actor=entry.actor,
            channel=entry.channel,
            sessionId=entry.session,
        ),
        texts=tuple(reader.text("details", told_beside(entry), part=f"event:{entry.seq}")),
    )
