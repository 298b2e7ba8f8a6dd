"""What the page of a step shows, ready to be put into its template."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson

from waybook.plan.model import Condition, Step
from waybook.plan.modify import MODIFIABLE
from waybook.plan.states import StepStatus
from waybook.record.moment import Json
from waybook.store.contexts import Stored
from waybook.store.sheets import Source
from waybook.transport.web.dashboard.history import Deed, deeds_of
from waybook.transport.web.dashboard.plan_view import holder_of
from waybook.transport.web.dashboard.prose import Prose, prose
from waybook.transport.web.dashboard.timeline import Line, timeline_of
from waybook.usecases.step_sheet import StepSheet
from waybook.usecases.timeline import Span, spans_of
from waybook.usecases.watch_plan import Move

#: So much of what is folded is shown.
GIST = 300
FEEDBACK = "\n\n---\n\nUser feedback: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A value as people read it, and where it is no text as it was handed in."""

    prose: Prose
    #: How it begins, if it is folded.
    gist: str
    json: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    id: str
    order: int
    name: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A stretch of work upon a step, or of waiting for a person."""

    status: str
    start: datetime
    length: timedelta
    who: str
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionShown:
    expression: str
    action: str
    #: The step that it is tied to, where that is another.
    of: Neighbour | None
    target: Neighbour | None
    reason: str | None
    outcome: str | None
    said: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactShown:
    stored: Stored
    content: Prose | None
    cut: int
    sources: list[Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    sheet: StepSheet
    name: str
    status: str
    holder: str
    instructions: Prose | None
    feedback: list[str]
    schema: str | None
    before: Neighbour | None
    after: Neighbour | None
    needs: list[Neighbour]
    needed_by: list[Neighbour]
    result: Handed | None
    report: Handed | None
    line: Line
    tries: list[Try]
    conditions: list[ConditionShown]
    artifacts: list[ArtifactShown]
    history: list[Deed]
    modifiable: bool
    hindrances: Mapping[str, str]


def step_view(sheet: StepSheet) -> StepView:
    """Make everything that is shown from what was read."""
    plan, step, result = sheet.plan, sheet.step, sheet.result
    instructions, *feedback = sheet.text.instructions.split(FEEDBACK)
    timeline = timeline_of(sheet.moves, sheet.now)
    schema = sheet.text.result_schema
    return StepView(
        sheet=sheet,
        name=sheet.name_of(step),
        status="stalled" if sheet.silent else str(step.status),
        holder=holder_of(step),
        instructions=prose(instructions),
        feedback=feedback,
        schema=_json(schema) if schema is not None else None,
        before=_neighbour(sheet, plan.steps[step.order - 2]) if step.order > 1 else None,
        after=_neighbour(sheet, plan.steps[step.order]) if step.order < len(plan.steps) else None,
        needs=[_neighbour(sheet, one) for one in plan.steps if one.id in step.depends_on],
        needed_by=[_neighbour(sheet, one) for one in plan.steps if step.id in one.depends_on],
        result=_handed(result.summary) if result else None,
        report=_handed(result.report) if result else None,
        line=timeline.line(step.id),
        tries=_tries(sheet),
        conditions=[_condition(sheet, one) for one in sheet.conditions],
        artifacts=[_artifact(sheet, one) for one in sheet.research],
        history=deeds_of(sheet.happenings),
        modifiable=plan.status in MODIFIABLE,
        hindrances=sheet.hindrances,
    )


def _handed(value: Json) -> Handed | None:
    laid_out = prose(value)
    if laid_out is None:
        return None
    gist = " ".join(laid_out.html.striptags()[:GIST].split())
    return Handed(
        prose=laid_out,
        gist=gist if laid_out.long else "",
        json=None if isinstance(value, str) else _json(value),
    )


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _neighbour(sheet: StepSheet, step: Step) -> Neighbour:
    return Neighbour(
        id=step.id, order=step.order, name=sheet.name_of(step), status=str(step.status)
    )


def _tries(sheet: StepSheet) -> list[Try]:
    """What the step went through: its stretches stand in the order in which they began."""
    begun = [m for m in sheet.moves if m.status in {StepStatus.IN_PROGRESS, WAITING}]
    moves = (Move(move.step_id, move.at, move.status) for move in sheet.moves)
    spans: list[Span] = spans_of(moves, sheet.now).get(sheet.step.id, [])
    last = len(spans) - 1
    return [
        Try(
            status=str(one.status),
            start=one.start,
            length=one.length,
            who=f"{move.actor} ({move.session})" if move.session else move.actor,
            open=number == last and sheet.step.status in {StepStatus.IN_PROGRESS, WAITING},
        )
        for number, (one, move) in enumerate(zip(spans, begun, strict=True))
    ]


WAITING = StepStatus.AWAITING_INPUT


def _condition(sheet: StepSheet, condition: Condition) -> ConditionShown:
    steps = {step.id: step for step in sheet.plan.steps}
    of, target = steps.get(condition.step_id), steps.get(condition.target_step_id or sheet.step.id)
    told = sheet.branch(condition)
    said = told.get("error") or told.get("note")
    return ConditionShown(
        expression=condition.expression,
        action=condition.action.replace("_", " "),
        of=_neighbour(sheet, of) if of and of.id != sheet.step.id else None,
        target=_neighbour(sheet, target) if target and condition.target_step_id else None,
        reason=condition.reason,
        outcome=condition.outcome and condition.outcome.replace("_", " "),
        said=str(said) if said else None,
    )


def _artifact(sheet: StepSheet, stored: Stored) -> ArtifactShown:
    text = stored.content.value
    return ArtifactShown(
        stored=stored,
        content=prose(stored.content.value),
        cut=max(0, stored.content.length - len(text)) if isinstance(text, str) else 0,
        sources=[one for one in sheet.sources if one.artifact_id == stored.id],
    )
