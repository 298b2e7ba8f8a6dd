"""The context for an agent that works on a step, most important parts first."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from waybook.app.context.parts import PacketReader, results_by_step
from waybook.app.request.reply import author_view, completion_view, round_view, step_header
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.model import Plan, Step
from waybook.plan.repeat import round_of
from waybook.research.packet import Entry, EntryList, Part, SingleEntry
from waybook.store.plans.contexts import (
    FIRST_PAGE,
    ArtifactRow,
    FailureRow,
    FeedbackRow,
    Page,
    ResultPrefixRow,
    StoredArtifact,
    TextPrefix,
    read_stored,
    total_count,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMaterial:
    plan: Plan
    step: Step
    question: str
    results: Sequence[ResultPrefixRow]
    feedback: Sequence[FeedbackRow]
    failures: Sequence[FailureRow]
    so_far: Sequence[ArtifactRow]
    newest: Sequence[ArtifactRow]
    ranked: Sequence[StoredArtifact] = ()
    page: Page = FIRST_PAGE


def step_frame(of: StepMaterial) -> Body:
    plan, step = of.plan, of.step
    text, round_ = plan.texts[step.id], round_of(plan, step)
    return non_empty(
        planId=plan.id,
        stepId=step.id,
        stepOrder=step.order,
        stepType=str(step.type),
        status=str(step.status),
        attempt=step.attempt,
        answersRevision=step.answers_revision,
        round=round_view(round_) if round_ else None,
        **author_view(plan),
        requiredSources=text.required_sources,
        sourcesStored=len(text.sources) if text.required_sources else None,
    )


def step_parts(of: StepMaterial, reader: PacketReader) -> list[Part]:
    every = (*_texts(of, reader), *_lists(of, reader))
    always_included = ("earlierResults", "artifacts")
    return [
        part
        for part in every
        if not isinstance(part, EntryList) or part.entries or part.name in always_included
    ]


def _texts(of: StepMaterial, reader: PacketReader) -> Iterator[Part]:
    plan, step = of.plan, of.step
    text = plan.texts[step.id]
    waits_for: list[Json] = [*step.depends_on]
    yield from reader.text("instructions", text.instructions, counts=6)
    yield from reader.text("title", step.title)
    yield from reader.text("planName", plan.name, part="name")
    yield from reader.text("researchQuestion", of.question, counts=2)
    yield from reader.text("resultSchema", text.result_schema, counts=2)
    yield from reader.text("dependsOn", waits_for or None)
    yield from reader.text("failReason", step.fail_reason)


def named_list(name: str, of: StepMaterial, reader: PacketReader) -> list[Part]:
    """Return only the list with this name."""
    if name != "artifacts":
        return [part for part in _lists(of, reader) if part.name == name]
    stored = [reader.artifact(read_stored(row)) for row in of.newest]
    return [reader.page(name, stored, of.page, total_count(of.newest))]


def _lists(of: StepMaterial, reader: PacketReader) -> Iterator[Part]:
    text = of.plan.texts[of.step.id].instructions
    decided = [_decided(row, text, reader) for row in of.feedback]
    failed = [_failed(row, reader) for row in of.failures]
    mine = [read_stored(row) for row in of.so_far]
    results = results_by_step(of.results)
    yield reader.page("feedback", decided, of.page, total_count(of.feedback), counts=2)
    yield reader.page("failures", failed, of.page, total_count(of.failures), counts=2)
    stored = [reader.artifact(artifact) for artifact in mine]
    yield reader.page("soFar", stored, of.page, total_count(of.so_far), counts=3)
    if of.step.id in results:
        yield _own(*results[of.step.id], reader)
    yield _earlier(of, results, reader)
    newest = [read_stored(row) for row in of.newest]
    # In a copied plan, the artifacts belong to the steps of the original plan.
    own = {of.step.id, *(artifact.step_id for artifact in mine)}
    others = [s for s in newest if s.step_id not in own]
    matter = [s for s in of.ranked if s.step_id not in own]
    yield reader.artifacts(
        matter, others, total_count(of.newest) - total_count(of.so_far), counts=4
    )


def _earlier(
    of: StepMaterial, results: dict[str, tuple[float | None, TextPrefix]], reader: PacketReader
) -> EntryList:
    """Return the results of the dependencies or, without dependencies, of all earlier steps."""
    entries = [
        Entry(
            frame=step_header(
                step,
                confidence=results[step.id][0] if step.id in results else None,
                **completion_view(step),
            ),
            texts=tuple(_outcome(step, results, reader)),
        )
        for step in reversed(_before(of.plan, of.step))
        if step.id in results or step.id in of.step.depends_on
    ]
    offset = of.page.offset
    return reader.page("earlierResults", entries[offset:], of.page, len(entries), counts=5)


def _before(plan: Plan, step: Step) -> list[Step]:
    if step.depends_on:
        round_ = round_of(plan, step)
        named = {*step.depends_on, *(other.id for other in (round_.latest if round_ else ()))}
        return [other for other in plan.steps if other.id in named]
    return [other for other in plan.steps if other.order < step.order]


def _outcome(
    step: Step, results: dict[str, tuple[float | None, TextPrefix]], reader: PacketReader
) -> Iterable[Any]:
    if step.id in results:
        part = f"result:{step.id}"
        return reader.beginning("resultSummary", results[step.id][1], part=part)
    return reader.text("failReason", step.fail_reason, part=f"failReason:{step.id}")


def _own(confidence: float | None, read: TextPrefix, reader: PacketReader) -> SingleEntry:
    texts = tuple(reader.beginning("resultSummary", read, part="result"))
    frame: Body = {} if confidence is None else {"confidence": confidence}
    return SingleEntry(name="result", entry=Entry(frame=frame, texts=texts), counts=2)


def _decided(row: FeedbackRow, instructions: str, reader: PacketReader) -> Entry:
    """Return a reviewer's decision. Feedback that is already in the instructions is left out."""
    frame = non_empty(
        reviewId=row.id,
        decision=row.decision,
        decidedBy=row.decided_by,
        decidedAt=format_time(row.decided_at),
    )
    feedback = row.feedback
    if feedback is None or (len(feedback) == row.length and feedback in instructions):
        return Entry(frame=frame)
    read = TextPrefix(feedback, row.length)
    texts = reader.beginning("feedback", read, part=f"feedback:{row.id}")
    return Entry(frame=frame, texts=tuple(texts))


def _failed(row: FailureRow, reader: PacketReader) -> Entry:
    read = None if row.reason is None else TextPrefix(row.reason, row.length)
    return Entry(
        frame=non_empty(seq=row.seq, at=format_time(row.at), by=row.actor),
        texts=tuple(reader.beginning("reason", read, part=f"failure:{row.seq}")),
    )
