"""Exports of plans and runs: Markdown reports, and the file format of complete JSON exports.

A JSON export contains every row and the audit chain, so that another installation can verify the
chain on import.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import orjson

from waybook.app.queries.agent_names import agent_name, load_agent_names
from waybook.app.queries.audit import (
    entry_view,
    event_label,
    read_entries,
    step_title,
    steps_in_order,
)
from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.runs.run import RunDetail
from waybook.app.request.access import load_plan, load_run
from waybook.app.request.definition_cache import definition_body
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Row, Rows
from waybook.core.durations import MINUTE
from waybook.core.hidden_characters import escape_hidden, inert
from waybook.core.ids import id_or_nil
from waybook.core.shown import Shown, look_of, word_of
from waybook.dag.diagram.svg import export_drawing
from waybook.dag.model import DrawingFormat
from waybook.errors import InvalidInput
from waybook.json_values import Body, Json, non_empty, rfc3339
from waybook.plan.model import DONE_STEP, GROWING, BranchAction, BranchOutcome, StepId, StepStatus
from waybook.plan.ordering import added_reference
from waybook.plan.states import past_states
from waybook.store.audit import SealedEntry, read_rows
from waybook.store.comments import SQL as COMMENT_SQL
from waybook.store.plans import details
from waybook.store.plans.details import HistoryEntry
from waybook.store.plans.load import SQL as PLAN_SQL
from waybook.store.plans.load import PlanRequest
from waybook.store.runs import jobs
from waybook.store.runs.load import SQL as RUN_SQL

PLAN_FORMAT: Final = "waybook.plan"
RUN_FORMAT: Final = "waybook.run"
VERSION: Final = 2
PLAN_KEYS: Final = {
    "step": "steps",
    "condition": "conditions",
    "review": "reviews",
    "artifact": "artifacts",
    "source": "sources",
    "artifact_source": "artifactSources",
    "usage": "usage",
    "comment": "comments",
    "session": "sessions",
}
RUN_KEYS: Final = {
    "stage_run": "stages",
    "stage_step": "steps",
    "job": "jobs",
    "job_part": "jobParts",
    "document": "documents",
    "rendered_document": "renderedDocuments",
    "late_result": "lateResults",
    "usage": "usage",
    "comment": "comments",
}


class ExportedRows(NamedTuple):
    """All rows of a plan or run as of its audit entry `seq`."""

    kind: str
    id: str
    name: str
    now: datetime
    seq: int
    rows: Rows
    #: Newest audit entries of a plan.
    history: Sequence[HistoryEntry] = ()
    #: Definition of a run's workflow.
    definition: Json = None

    @property
    def row(self) -> Row:
        (row,) = self.rows[self.kind].values()
        return row


def _exported_row(row_id: str, row: Row) -> Row:
    """Return a row for an export, with its id and with column names in camel case."""
    columns = {re.sub("_([a-z])", lambda m: m[1].upper(), name): row[name] for name in row}
    return {"id": row_id, **columns}


def exported_rows(rows: Rows, keys: Mapping[str, str]) -> Body:
    def place(item: tuple[str, Row]) -> tuple[int, str]:
        row_id, row = item
        number = row.get("order", row.get("position"))
        return number if isinstance(number, int) else 0, row_id

    return {
        name: [_exported_row(*item) for item in sorted(rows.get(kind, {}).items(), key=place)]
        for kind, name in keys.items()
    }


def imported_row(item: Json, where: str) -> tuple[str, Row]:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        raise InvalidInput(f"{where} of this export is not a row with an id; export again")
    names = {name: re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", name) for name in item}
    columns = {names[name]: value for name, value in item.items() if name != "id"}
    return str(item["id"]), columns


def imported_rows(export: Mapping[str, Json], keys: Mapping[str, str]) -> Rows:
    """Return the rows of an export by kind and id. This is the inverse of `exported_rows`."""
    rows: Rows = {}
    for kind, name in keys.items():
        # Exports of earlier versions of Waybook have no comments.
        items = export.get(name, [] if kind == "comment" else None)
        if not isinstance(items, list):
            raise InvalidInput(f"this export has no list {name}; export again")
        if items:
            places = enumerate(items, start=1)
            rows[kind] = dict(imported_row(item, f"{name}, item {n},") for n, item in places)
    return rows


def exported_entry(entry: SealedEntry) -> Body:
    """Return an audit entry as JSON, with the exact text that its hash covers."""
    return {**entry_view(entry), "record": entry.details}


def export_body(exported: ExportedRows) -> Body:
    """Return the JSON export of a plan or run, without its audit entries."""
    is_plan = exported.kind == "plan"
    return {
        "format": PLAN_FORMAT if is_plan else RUN_FORMAT,
        "version": VERSION,
        "exportedAt": rfc3339(exported.now),
        exported.kind: _exported_row(exported.id, exported.row),
        **({} if is_plan else {"definition": exported.definition}),
        **exported_rows(exported.rows, PLAN_KEYS if is_plan else RUN_KEYS),
    }


async def export_json(ctx: RequestContext, exported: ExportedRows) -> AsyncIterator[bytes]:
    """Yield a complete export piece by piece, to limit memory use."""
    yield orjson.dumps(export_body(exported))[:-1] + b',"audit":['
    comma = b""
    async for page in read_entries(ctx, exported.id, until=exported.seq):
        yield comma + b",".join(orjson.dumps(exported_entry(entry)) for entry in page)
        comma = b","
    yield b"]}\n"


MAX_HISTORY_ENTRIES = 500


async def read_plan_rows(ctx: RequestContext, plan_id: str) -> ExportedRows:
    plan_id = id_or_nil(plan_id)
    await load_agent_names(ctx)
    loaded, (stored, texts, happenings) = await load_plan(
        ctx,
        PlanRequest(plan_id=plan_id),
        PLAN_SQL["stored_rows"](plan_id=plan_id),
        details.SQL["output_texts"](plan_id=plan_id),
        details.history_statement(plan_id, None, MAX_HISTORY_ENTRIES),
    )
    rows = read_rows(stored)
    for artifact_id, content in texts:
        rows["artifact"][artifact_id]["content"] = content
    return ExportedRows(
        kind="plan",
        id=loaded.plan.id,
        name=loaded.plan.name,
        now=loaded.now,
        seq=loaded.plan.seq,
        rows=rows,
        history=happenings,
    )


def plan_arguments(exported: ExportedRows) -> Body:
    """Return the arguments with which `create_research_plan` makes a plan with the same steps."""
    rows, plan, steps = exported.rows, exported.row, steps_in_order(exported.rows)
    orders = {step_id: _number(step["order"]) for step_id, step in steps}
    conditions = [row for row in rows.get("condition", {}).values() if _has_effect(row, orders)]
    conditions.sort(key=lambda row: _number(row["position"]))
    return non_empty(
        name=plan["name"],
        researchQuestion=plan["research_question"],
        outputFormattingNotes=plan["formatting_notes"],
        sequential=plan.get("sequential") or None,
        steps=[_step_arguments(step, orders, orders[step_id]) for step_id, step in steps],
        branchingConditions=[
            {
                "afterStepOrder": orders[str(row["step_id"])],
                **condition_arguments(row, orders, orders[str(row["step_id"])]),
            }
            for row in conditions
        ]
        or None,
    )


def _has_effect(condition: Row, orders: Mapping[str, int]) -> bool:
    """Return whether a condition can have an effect in a new plan with the same steps."""
    if condition["action"] == BranchAction.SKIP_TO:
        target = orders.get(str(condition["target_step_id"]), 0)
        return target > orders[str(condition["step_id"])]
    if condition["action"] not in GROWING:
        return True
    # Steps that the condition has already added are copied as ordinary steps of the plan.
    return condition.get("outcome") != BranchOutcome.FIRED and _repeats_left(condition) != 0


def _repeats_left(condition: Row) -> int | None:
    limit = condition.get("max_repeats")
    return None if limit is None else _number(limit) - _number(condition.get("repeats"))


def _step_arguments(step: Row, orders: Mapping[str, int], order: int, level: int = 0) -> Json:
    named = _items(step.get("depends_on_ids" if level else "depends_on"))
    before = sorted(orders[str(step_id)] for step_id in named)
    stall = step.get("stall_seconds")
    nested = [item for item in _items(step.get("conditions")) if isinstance(item, dict)]
    return non_empty(
        stepType=step["type"],
        title=step["title"],
        instructions=step["instructions"],
        stallMinutes=None if stall is None else _number(stall) / MINUTE,
        resultSchema=step.get("result_schema"),
        dependsOn=[*before] or None,
        requiredSources=step.get("required_sources"),
        maxAttempts=step.get("max_attempts"),
        touches=[*touches.split("\n")] if isinstance(touches := step.get("touches"), str) else None,
        branchingConditions=[condition_arguments(row, orders, order, level + 1) for row in nested]
        or None,
    )


def condition_arguments(
    row: Row, orders: Mapping[str, int], order: int, level: int = 1
) -> dict[str, Json]:
    target, first = row.get("target_step_id"), row.get("from_step_id")
    added = [item for item in _items(row.get("steps")) if isinstance(item, dict)]
    places = {step_id: n if n <= order else n + len(added) for step_id, n in orders.items()}
    places |= {added_reference(level, n): order + n for n in range(1, len(added) + 1)}
    params = non_empty(
        targetStepOrder=orders.get(str(target)) if target else None,
        steps=[_step_arguments(s, places, n, level) for n, s in enumerate(added, order + 1)]
        or None,
        fromStepOrder=orders.get(str(first)) if first else None,
        max=_repeats_left(row),
        onExhausted=row.get("on_exhausted"),
        reason=row.get("reason"),
    )
    return non_empty(
        conditionExpression=row["expression"],
        ifTrueAction=row["action"],
        actionParams=params or None,
    )


def plan_report_text(exported: ExportedRows) -> str:
    return "".join(f"{line}\n" for line in _plan_lines(exported))


def _plan_lines(exported: ExportedRows) -> Iterator[str]:
    plan, steps = exported.row, exported.rows.get("step", {}).values()
    yield f"# {_line(plan['name'])}"
    yield ""
    yield _quoted(plan["research_question"])
    yield ""
    state, states = past_states(plan, dict(steps_in_order(exported.rows)))
    failed = sum(row["status"] == StepStatus.FAILED for row in steps)
    done = f"{sum(row['status'] in DONE_STEP for row in steps)} of {len(steps)} steps done"
    done += f", {failed} failed" if failed else ""
    yield f"**{word_of(state)}**, {done}, as of {_time(exported.now)}."
    created_at = datetime.fromisoformat(str(plan["created_at"]))
    yield f"Written by {_line(plan['created_by'])}, {_time(created_at)}."
    if plan.get("fail_reason"):
        ended = "was canceled" if plan.get("canceled") else "failed"
        yield f"\nIt {ended}: {_line(plan['fail_reason'])}"
    yield from _comment_lines(exported.rows, None)
    yield from _step_lines(exported.rows, states)
    yield from _artifact_lines(exported.rows)
    yield "\n## History\n"
    left = exported.seq - len(exported.history)
    if left > 0:
        yield f"- ({left} entries before that)"
    for entry in reversed(exported.history):
        what = event_label(entry.event, entry.action)
        if entry.decision:
            what = f"decided: {entry.decision}"
        if entry.step_order:
            what = what.replace("a step", f"step {entry.step_order}")
        comment = f", {_line(entry.comment)}" if entry.comment else ""
        who = _line(agent_name(entry.actor, entry.session, entry.channel))
        yield f"- {_time(entry.at)}: {who} {what}{comment}"


def _step_lines(rows: Rows, states: Mapping[StepId, Shown]) -> Iterator[str]:
    yield "\n## Steps"
    steps = steps_in_order(rows)
    orders = {step_id: step["order"] for step_id, step in steps}
    for step_id, step in steps:
        look = look_of(states[StepId(step_id)])
        yield f"\n### {step['order']}. {_line(step_title(step))}"
        attempts = f", attempt {step['attempt']}" if _number(step["attempt"]) > 1 else ""
        yield f"\n{look.symbol} {look.word}, {step['type']}{attempts}\n"
        if step.get("depends_on"):
            before = sorted(_number(orders[str(i)]) for i in _items(step["depends_on"]))
            yield f"Depends on {', '.join(f'#{order}' for order in before)}.\n"
        yield _quoted(step["instructions"])
        if step.get("fail_reason"):
            yield f"\nIt failed: {_line(step['fail_reason'])}"
        if step.get("result_summary") is not None:
            confidence = step.get("confidence")
            sure = f" (confidence {confidence})" if confidence is not None else ""
            yield f"\n**Result**{sure}:\n"
            yield _value(step["result_summary"])
        reviews = rows.get("review", {}).values()
        for review in (row for row in reviews if row["step_id"] == step_id):
            feedback = f", “{_line(review['feedback'])}”" if review.get("feedback") else ""
            by = f"{_line(review['decided_by'])}: {review['decision']}{feedback}"
            yield f"\n**Review**: {_line(review['summary'])}"
            yield f"\n{by if review.get('decision') else 'Awaiting decision.'}"
        yield from _comment_lines(rows, step_id)


def _comment_lines(rows: Rows, part_id: str | None) -> Iterator[str]:
    """Yield the comments on a step or job or, without an id, on the plan or run as a whole."""
    for _, row in sorted(rows.get("comment", {}).items()):
        if (row.get("step_id") or row.get("job_id")) == part_id:
            for_ = f" for {_line(row['assignee'])}" if row.get("assignee") else ""
            done = f" (resolved by {_line(row['resolved_by'])})" if row.get("resolved_by") else ""
            about = f" on the job {row['job_id']}" if row.get("job_id") else ""
            by = f"{_line(row['created_by'])}{about}{for_}{done}"
            yield f"\n**Comment** by {by}: {_line(row['body'])}"


def _artifact_lines(rows: Rows) -> Iterator[str]:
    artifacts = rows.get("artifact", {})
    research = {i: artifact for i, artifact in artifacts.items() if artifact["kind"] != "output"}
    if research:
        yield "\n## Research"
    for artifact_id, artifact in research.items():
        mark = ", superseded" if artifact.get("superseded") else ""
        yield f"\n### {_line(artifact['title'])} ({_line(artifact['kind'])}{mark})\n"
        yield _value(artifact["content"])
        links = rows.get("artifact_source", {}).values()
        mine = [row for row in links if row["artifact_id"] == artifact_id]
        if mine:
            yield ""
        for link in sorted(mine, key=lambda row: _number(row["position"])):
            source = rows["source"][str(link["source_id"])]
            where = f" <{_line(source['url'])}>" if source.get("url") else ""
            yield f"- {_line(source['title'])}{where}"
    outputs = [artifact for artifact in artifacts.values() if artifact["kind"] == "output"]
    if outputs:
        yield "\n## Outputs"
    for artifact in outputs:
        title, media_type = _line(artifact["title"]), _line(artifact["media_type"])
        yield f"\n### {title}, version {artifact['version']} ({media_type})\n"
        yield _fenced(str(artifact["content"]))


def _value(value: Json) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return _fenced(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode(), "json")


def _fenced(text: str, language: str = "") -> str:
    """Return a Markdown code block. Its fence is longer than any fence in the text."""
    longest = max((len(backticks) for backticks in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{escape_hidden(text)}\n{fence}"


def _quoted(value: Json) -> str:
    """Quote a stored text in Markdown, so that it cannot add headings or HTML to the report."""
    return "\n".join(f"> {inert(line)}".rstrip() for line in str(value).splitlines())


def _line(value: object) -> str:
    return inert(" ".join(str(value).split()))


def _items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


async def read_run_rows(ctx: RequestContext, run_id: str) -> ExportedRows:
    statements = RUN_SQL["run_rows"](run_id=run_id), jobs.SQL["run_texts"](run_id=run_id)
    loaded, compiled_dag, (stored, texts) = await load_run(ctx, run_id, *statements)
    rows = read_rows(stored)
    for text in texts:
        rows[text.entity][text.id].update(text.values)
    return ExportedRows(
        kind="run",
        id=loaded.run.id,
        name=loaded.run.name,
        now=loaded.now,
        seq=loaded.head.seq,
        rows=rows,
        definition=definition_body(compiled_dag.dag),
    )


async def read_run_report(ctx: RequestContext, detail: RunDetail) -> str:
    (comments,) = await ctx.read(COMMENT_SQL["rows_of_run"](run_id=detail.run.id))
    return "".join(f"{line}\n" for line in _run_lines(detail, read_rows(comments)))


def _run_lines(detail: RunDetail, rows: Rows) -> Iterator[str]:
    yield export_drawing(DrawingFormat.MARKDOWN, run_drawing(detail)).rstrip("\n")
    done = f"{detail.stages_done} of {detail.stages_total} stages done"
    yield f"\n**{detail.state}**, {done}, as of {_time(detail.now)}."
    if detail.created_at is not None:
        yield f"Started by {_line(detail.created_by)}, {_time(detail.created_at)}."
    run = detail.run
    if run.canceled_at is not None:
        end = f"Canceled by {_line(run.canceled_by)}, {_time(run.canceled_at)}"
        yield f"{end}: {_line(run.cancel_reason)}"
    yield "\n## Input\n"
    yield _quoted(detail.input_text)
    for slug, stage in detail.run.stages.items():
        if stage.feedback:
            by = f"{_line(slug)} by {_line(stage.feedback_by)}"
            yield f"\nFeedback on {by}: {_line(stage.feedback)}"
    for part_id in sorted({str(row["job_id"] or "") for row in rows.get("comment", {}).values()}):
        yield from _comment_lines(rows, part_id or None)
    if detail.documents:
        yield "\n## Documents\n"
    for item in detail.documents:
        named = _line(f"{item.stage}, {item.document_key}, by {item.model}")
        yield f"- {named} ({item.resource_id})"
    if detail.failures:
        yield "\n## Failed jobs\n"
    for job in detail.failures:
        yield f"- {_line(f'{job.stage}, {job.step_key}, {job.model}: {job.error}')}"
