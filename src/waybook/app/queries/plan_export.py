"""Export of a plan: all its rows and audit as JSON, or a Markdown report."""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from waybook.app.queries.audit import event_label, read_entries
from waybook.app.request.lookups import id_or_nil
from waybook.app.request.request_context import RequestContext
from waybook.core.replay import Row, Rows
from waybook.dag.diagram.status_marks import symbol_for
from waybook.json_values import Body, Json, rfc3339
from waybook.plan.progress import count_done
from waybook.plan.states import StepStatus
from waybook.store.audit import SealedEntry
from waybook.store.plans import details, load
from waybook.store.plans.details import HistoryEntry
from waybook.store.plans.load import PlanRequest, read_stored_rows

FORMAT, VERSION = "waybook.plan", 1
#: Key of each kind of row in an export, in output order.
EXPORT_KEYS = {
    "step": "steps",
    "condition": "conditions",
    "review": "reviews",
    "artifact": "artifacts",
    "source": "sources",
    "artifact_source": "artifactSources",
    "usage": "usage",
    "session": "sessions",
}
#: Maximum history entries in a report.
MAX_HISTORY_ENTRIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRows:
    """All rows of a plan, from one snapshot."""

    plan_id: str
    name: str
    now: datetime
    #: Number of the last audit entry.
    seq: int
    rows: Rows
    #: Latest history entries, newest first.
    history: list[HistoryEntry]


async def read_plan_rows(ctx: RequestContext, plan_id: str) -> PlanRows:
    """Read all rows of a plan, in one snapshot.

    Raises:
        NotFound: it does not exist, or belongs to another org.
    """
    plan_id = id_or_nil(plan_id)
    loaded, (stored, texts, happenings) = await ctx.load_plan(
        PlanRequest(plan_id=plan_id),
        load.stored_rows_statement(plan_id),
        details.output_texts_statement(plan_id),
        details.history_statement(plan_id, None, MAX_HISTORY_ENTRIES),
    )
    rows = read_stored_rows(stored)
    for artifact_id, content in texts:
        rows["artifact"][artifact_id]["content"] = content
    return PlanRows(
        plan_id=loaded.plan.id,
        name=loaded.plan.name,
        now=loaded.now,
        seq=loaded.plan.seq,
        rows=rows,
        history=details.read_history(happenings),
    )


def export_body(found: PlanRows) -> Body:
    """Return the export without its audit."""
    (plan,) = found.rows["plan"].values()
    kinds = {name: _rows(found.rows, kind) for kind, name in EXPORT_KEYS.items()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "exportedAt": rfc3339(found.now),
        "plan": {"id": found.plan_id, **_camel(plan)},
        **kinds,
    }


async def export_audit(ctx: RequestContext, found: PlanRows) -> AsyncIterator[list[SealedEntry]]:
    """Yield the audit up to the time of the export, page by page, oldest first."""
    async for page in read_entries(ctx, found.plan_id, until=found.seq):
        yield page


def _rows(rows: Rows, kind: str) -> list[Json]:
    found = sorted(rows.get(kind, {}).items(), key=lambda one: (_place(one[1]), one[0]))
    return [{"id": row_id, **_camel(row)} for row_id, row in found]


def _place(row: Row) -> int:
    """Return the position of a step or condition; 0 for other rows, which are ordered by id."""
    place = row.get("order", row.get("position"))
    return place if isinstance(place, int) else 0


def _camel(row: Row) -> Row:
    return {_name(name): value for name, value in row.items()}


def _name(column: str) -> str:
    first, *rest = column.split("_")
    return first + "".join(word.capitalize() for word in rest)


FENCE = re.compile("`{3,}")


def report_text(found: PlanRows) -> str:
    """Return the report: question, steps with their results, research, outputs, and history."""
    return "\n".join([*_head(found), *_steps(found.rows), *_kept(found.rows), *_past(found)]) + "\n"


def _head(found: PlanRows) -> Iterator[str]:
    (plan,) = found.rows["plan"].values()
    steps = found.rows.get("step", {}).values()
    done = count_done([StepStatus(str(step["status"])) for step in steps])
    yield f"# {_line(plan['name'])}"
    yield ""
    yield _quoted(plan["research_question"])
    yield ""
    word = symbol_for(str(plan["status"])).label
    yield f"**{word}**, {done} of {len(steps)} steps done, as of {_time(found.now)}."
    yield f"Written by {_line(plan['created_by'])}, {_stored_time(plan['created_at'])}."
    if plan.get("fail_reason"):
        yield f"\nIt failed: {_line(plan['fail_reason'])}"


def _steps(rows: Rows) -> Iterator[str]:
    yield "\n## Steps"
    steps = sorted(rows.get("step", {}).items(), key=lambda one: _number(one[1]["order"]))
    for step_id, step in steps:
        look = symbol_for(str(step["status"]))
        first = str(step["instructions"]).strip().split("\n", 1)[0]
        yield f"\n### {step['order']}. {_line(step['title'] or first)}"
        attempts = f", attempt {step['attempt']}" if _number(step["attempt"]) > 1 else ""
        yield f"\n{look.symbol} {look.label}, {step['type']}{attempts}\n"
        yield _quoted(step["instructions"])
        yield from _result(step)
        yield from _reviews(rows, step_id)


def _result(step: Row) -> Iterator[str]:
    if step.get("fail_reason"):
        yield f"\nIt failed: {_line(step['fail_reason'])}"
    if step.get("result_summary") is None:
        return
    sure = f" (confidence {step['confidence']})" if step.get("confidence") is not None else ""
    yield f"\n**Result**{sure}:\n"
    yield _value(step["result_summary"])


def _reviews(rows: Rows, step_id: str) -> Iterator[str]:
    for review in rows.get("review", {}).values():
        if review["step_id"] == step_id:
            said = f", “{_line(review['feedback'])}”" if review.get("feedback") else ""
            by = f"{review['decided_by']}: {review['decision']}{said}"
            yield f"\n**Review**: {_line(review['summary'])}"
            yield f"\n{by if review.get('decision') else 'It waits for a decision.'}"


def _kept(rows: Rows) -> Iterator[str]:
    """Yield research with its sources, then the latest outputs whole."""
    artifacts = rows.get("artifact", {})
    research = {i: one for i, one in artifacts.items() if one["kind"] != "output"}
    if research:
        yield "\n## Research"
    for artifact_id, one in research.items():
        mark = ", superseded" if one.get("superseded") else ""
        yield f"\n### {_line(one['title'])} ({_line(one['kind'])}{mark})\n"
        yield _value(one["content"])
        yield from _sources(rows, artifact_id)
    outputs = [one for one in artifacts.values() if one["kind"] == "output"]
    if outputs:
        yield "\n## Outputs"
    for one in outputs:
        yield f"\n### {_line(one['title'])}, version {one['version']} ({one['media_type']})\n"
        yield _fenced(str(one["content"]))


def _sources(rows: Rows, artifact_id: str) -> Iterator[str]:
    links = rows.get("artifact_source", {}).values()
    mine = [one for one in links if one["artifact_id"] == artifact_id]
    if mine:
        yield ""
    for link in sorted(mine, key=lambda one: _number(one["position"])):
        source = rows["source"][str(link["source_id"])]
        where = f" <{_line(source['url'])}>" if source.get("url") else ""
        yield f"- {_line(source['title'])}{where}"


def _past(found: PlanRows) -> Iterator[str]:
    yield "\n## What happened\n"
    left = found.seq - len(found.history)
    if left > 0:
        yield f"- ({left} entries before that)"
    for one in reversed(found.history):
        yield f"- {_time(one.at)}: {_line(one.session or one.actor)} {_deed(one)}"


def _deed(one: HistoryEntry) -> str:
    what = f"decided: {one.decision}" if one.decision else event_label(one.event, one.action)
    numbered = what.replace("a step", f"step {one.step_order}") if one.step_order else what
    return f"{numbered}, {_line(one.comment)}" if one.comment else numbered


def _value(value: Json) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return _fenced(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode(), "json")


def _fenced(text: str, language: str = "") -> str:
    """Return a text in a code fence longer than any run of backticks in it."""
    longest = max((len(found) for found in FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _quoted(value: Json) -> str:
    """Return user text as a quotation, so that its headings are not headings of the report."""
    return "\n".join(f"> {line}".rstrip() for line in str(value).splitlines())


def _line(value: Json) -> str:
    return " ".join(str(value).split())


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _stored_time(at: Json) -> str:
    return _time(datetime.fromisoformat(str(at)))


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
