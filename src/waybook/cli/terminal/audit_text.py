"""Terminal views of the audit: entries, earlier states, and verification results."""

from collections.abc import Mapping
from typing import Any, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.app.queries.agent_names import agent_name
from waybook.app.queries.audit import SubjectAsOf, event_label, step_title, steps_in_order
from waybook.cli.terminal.bars import status_text
from waybook.cli.terminal.console import figures, plain_table, unwrapped
from waybook.core.changes import Row
from waybook.core.shown import Shown, shown_group
from waybook.dag.model import ProgressStatus
from waybook.json_values import Body
from waybook.plan.model import StepId
from waybook.plan.states import past_states

_DETAIL_FIELDS = ("stepKey", "error", "reason", "rationale", "decision", "feedback", "skill")


def entries_table(entries: list[Body], *, one_plan: bool) -> Table:
    plan = [] if one_plan else [unwrapped("plan", style="dim")]
    time = unwrapped("time (UTC)", style="dim")
    table = plain_table(*plan, figures("seq"), time, unwrapped("who"), "did what")
    for entry in entries:
        subject = [] if one_plan else [str(entry["subjectId"])[:13]]
        when = str(entry["at"])[:19].replace("T", " ")
        who = f"{entry.get('sessionId') or entry['actor']} ({entry['channel']})"
        details = cast("dict[str, Any]", entry["details"])
        label = event_label(str(entry["event"]), details.get("action"), str(entry["subject"]))
        if order := details.get("stepOrder"):
            label = label.replace("a step", f"step {order}")
        why = ", ".join(str(details[name]) for name in _DETAIL_FIELDS if details.get(name))
        what = Text.assemble(label, (f": {why}" if why else "", "dim"))
        table.add_row(*subject, str(entry["seq"]), when, who, what)
    return table


def as_of_table(then: SubjectAsOf) -> RenderableType:
    if "run" in then.rows:
        subject = next(iter(then.rows["run"].values()))
        state = _run_state_then(then, subject)
        table = _run_steps_then(then)
    else:
        subject = next(iter(then.rows["plan"].values()))
        steps = dict(steps_in_order(then.rows))
        state, states = past_states(subject, steps)
        table = _steps_then(steps, states)
    when = f"as of {then.last.at:%Y-%m-%d %H:%M:%S} UTC, after entry {then.last.seq}"
    heading = Text.assemble(status_text(state), "  ", (str(subject["name"]), "bold"))
    return Group(heading, Text(when, style="dim"), table)


def _run_state_then(then: SubjectAsOf, run: Row) -> Shown:
    if run.get("completed_at"):
        return Shown.DONE
    if run.get("canceled_at"):
        return Shown.CANCELED
    steps = [_step_then(then, step) for step in then.rows.get("stage_step", {}).values()]
    if Shown.FAILED in steps and Shown.RUNNING not in steps:
        return Shown.FAILED
    stages = then.rows.get("stage_run", {}).values()
    waits = bool(stages) and all(stage.get("completed_at") for stage in stages)
    return Shown.NEEDS_YOU if waits else Shown.RUNNING


def _step_then(then: SubjectAsOf, step: Row) -> Shown:
    if step.get("closed_at"):
        return Shown.DONE
    total, done, failed = (int(str(step[name])) for name in ("total", "done", "failed"))
    (run,) = then.rows["run"].values()
    status = ProgressStatus.FAILED if failed else ProgressStatus.IN_PROGRESS
    is_over = bool(run.get("canceled_at"))
    return shown_group(status, goes_on=total > done + failed, is_over=is_over)


def _run_steps_then(then: SubjectAsOf) -> Table:
    table = plain_table("step", unwrapped("status"), figures("jobs done"), figures("failed"))
    for step_id, row in then.rows.get("stage_step", {}).items():
        done = f"{row['done']} of {row['total']}"
        look = status_text(_step_then(then, row))
        table.add_row(Text(step_id), look, done, str(row["failed"] or ""))
    return table


def _steps_then(steps: Mapping[str, Row], states: Mapping[StepId, Shown]) -> Table:
    by = unwrapped("by", style="dim")
    table = plain_table(figures("#"), "step", unwrapped("status"), figures("try"), by)
    for step_id, row in steps.items():
        look = status_text(states[StepId(step_id)])
        holder = agent_name(*(str(row[name] or "") for name in ("held_by", "held_session")))
        table.add_row(str(row["order"]), step_title(row), look, str(row["attempt"]), holder)
    return table
