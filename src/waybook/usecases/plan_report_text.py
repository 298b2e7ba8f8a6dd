"""A plan as a report in Markdown, to be read from top to bottom."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import orjson

from waybook.dag.drawing.looks import symbol_for
from waybook.plan.progress import count_done
from waybook.plan.states import StepStatus
from waybook.record.moment import Json
from waybook.record.replay import Row, Rows
from waybook.store.sheets import HistoryEntry
from waybook.usecases.deeds import event_label
from waybook.usecases.export_plan import PlanRows

FENCE = re.compile("`{3,}")


def report_text(found: PlanRows) -> str:
    """Question, steps with their results, research, outputs, and what happened."""
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
    """Research with its sources, then the latest outputs whole."""
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
    """A text that stays what it is, however many backticks are in it."""
    longest = max((len(found) for found in FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _quoted(value: Json) -> str:
    """Somebody's words: a quotation, so that no heading of theirs becomes one of ours."""
    return "\n".join(f"> {line}".rstrip() for line in str(value).splitlines())


def _line(value: Json) -> str:
    return " ".join(str(value).split())


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _stored_time(at: Json) -> str:
    return _time(datetime.fromisoformat(str(at)))


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
