"""View model of the step page."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson

from waybook.app.queries.diagrams import AFTER_LOOP
from waybook.app.queries.plans.step import Source, StepDetail, StoredArtifact
from waybook.app.queries.timeline import Span, spans_of
from waybook.json_values import Json
from waybook.plan.model import MODIFIABLE, BranchAction, Condition, Round, Step, StepStatus
from waybook.plan.repeat import round_of
from waybook.transport.http.dashboard.activity import (
    HistoryRow,
    StepTimeline,
    build_timeline,
    history_rows,
)
from waybook.transport.http.dashboard.plans.plan_view import holder_of
from waybook.transport.http.html.layout import RichText, to_rich_text

PREVIEW_LENGTH = 300
FEEDBACK_SEPARATOR = "\n\n---\n\nUser feedback: "


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedValue:
    prose: RichText
    preview: str
    json: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLink:
    id: str
    order: int
    name: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    status: str
    start: datetime
    length: timedelta
    who: str
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionView:
    expression: str
    action: str
    of: StepLink | None
    target: StepLink | None
    reason: str | None
    outcome: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactView:
    stored: StoredArtifact
    content: RichText | None
    cut: int
    sources: list[Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    sheet: StepDetail
    name: str
    status: str
    holder: str
    instructions: RichText | None
    feedback: list[str]
    schema: str | None
    before: StepLink | None
    after: StepLink | None
    needs: list[StepLink]
    needed_by: list[StepLink]
    result: SubmittedValue | None
    report: SubmittedValue | None
    round: Round | None
    line: StepTimeline
    attempts: list[AttemptView]
    conditions: list[ConditionView]
    artifacts: list[ArtifactView]
    history: list[HistoryRow]
    modifiable: bool
    blockers: Mapping[str, str]


def step_view(sheet: StepDetail) -> StepView:
    plan, step, result = sheet.plan, sheet.step, sheet.result
    instructions, *feedback = sheet.text.instructions.split(FEEDBACK_SEPARATOR)
    timeline = build_timeline(sheet.status_changes, sheet.now)
    schema = sheet.text.result_schema
    return StepView(
        sheet=sheet,
        name=sheet.name_of(step),
        status="stalled" if sheet.inactive_for else str(step.status),
        holder=holder_of(step),
        instructions=to_rich_text(instructions),
        feedback=feedback,
        schema=_json(schema) if schema is not None else None,
        before=_related_step(sheet, plan.steps[step.order - 2]) if step.order > 1 else None,
        after=_related_step(sheet, plan.steps[step.order])
        if step.order < len(plan.steps)
        else None,
        needs=[_related_step(sheet, item) for item in plan.steps if item.id in step.depends_on],
        needed_by=[_related_step(sheet, item) for item in plan.steps if step.id in item.depends_on],
        result=_handed(result.summary) if result else None,
        report=_handed(result.report) if result else None,
        round=round_of(plan, step),
        line=timeline.line(step.id),
        attempts=_tries(sheet),
        conditions=[_condition(sheet, item) for item in sheet.conditions],
        artifacts=[_artifact(sheet, item) for item in sheet.research],
        history=history_rows(sheet.history),
        modifiable=plan.status in MODIFIABLE,
        blockers=sheet.blockers,
    )


def _handed(value: Json) -> SubmittedValue | None:
    laid_out = to_rich_text(value)
    if laid_out is None:
        return None
    gist = " ".join(laid_out.html.striptags()[:PREVIEW_LENGTH].split())
    return SubmittedValue(
        prose=laid_out,
        preview=gist if laid_out.long else "",
        json=None if isinstance(value, str) else _json(value),
    )


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _related_step(sheet: StepDetail, step: Step) -> StepLink:
    return StepLink(id=step.id, order=step.order, name=sheet.name_of(step), status=str(step.status))


def _tries(sheet: StepDetail) -> list[AttemptView]:
    begun = [m for m in sheet.status_changes if m.status in {StepStatus.IN_PROGRESS, WAITING}]
    spans: list[Span] = spans_of(sheet.status_changes, sheet.now).get(sheet.step.id, [])
    last = len(spans) - 1
    return [
        AttemptView(
            status=str(span.status),
            start=span.start,
            length=span.length,
            who=f"{move.actor} ({move.session})" if move.session else move.actor,
            open=number == last and sheet.step.status in {StepStatus.IN_PROGRESS, WAITING},
        )
        for number, (span, move) in enumerate(zip(spans, begun, strict=True))
    ]


WAITING = StepStatus.AWAITING_INPUT


def _condition(sheet: StepDetail, condition: Condition) -> ConditionView:
    steps = {step.id: step for step in sheet.plan.steps}
    of, target = steps.get(condition.step_id), steps.get(condition.target_step_id or sheet.step.id)
    branch = sheet.branch(condition)
    message = branch.get("error") or branch.get("note")
    return ConditionView(
        expression=condition.expression,
        action=condition.action.replace("_", " ") + _limit(condition),
        of=_related_step(sheet, of) if of and of.id != sheet.step.id else None,
        target=_related_step(sheet, target) if target and condition.target_step_id else None,
        reason=condition.reason,
        outcome=condition.outcome and condition.outcome.replace("_", " "),
        message=str(message) if message else None,
    )


def _limit(condition: Condition) -> str:
    """Describe how often a condition repeats steps, and what it does after that."""
    if condition.action is not BranchAction.REPEAT:
        return ""
    return f", at most {condition.max_repeats} times{AFTER_LOOP[condition.on_exhausted]}"


def _artifact(sheet: StepDetail, stored: StoredArtifact) -> ArtifactView:
    text = stored.content.value
    return ArtifactView(
        stored=stored,
        content=to_rich_text(stored.content.value),
        cut=max(0, stored.content.length - len(text)) if isinstance(text, str) else 0,
        sources=[source for source in sheet.sources if source.artifact_id == stored.id],
    )
