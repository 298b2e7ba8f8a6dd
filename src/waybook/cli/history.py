"""How the past looks: audit entries as a table, and a plan as it was."""

from typing import Any, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.cli.looks import PLAN_STYLES, STEP_STYLES
from waybook.plan.states import PlanStatus, StepStatus
from waybook.record.moment import Json
from waybook.usecases.call import Body
from waybook.usecases.deeds import event_label
from waybook.usecases.plan_as_of import PlanAsOf

#: Details that say why.
DETAIL_FIELDS = ("stepKey", "error", "reason", "rationale", "decision", "feedback", "skill")


def entries_table(entries: list[Body], *, one_plan: bool) -> Table:
    """Who did what, newest first."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    if not one_plan:
        table.add_column("plan", no_wrap=True, style="dim")
    table.add_column("seq", justify="right", no_wrap=True)
    table.add_column("time (UTC)", no_wrap=True, style="dim")
    table.add_column("who", no_wrap=True)
    table.add_column("did what")
    for entry in entries:
        subject = [] if one_plan else [str(entry["subjectId"])[:13]]
        when = str(entry["at"])[:19].replace("T", " ")
        table.add_row(*subject, str(entry["seq"]), when, _who(entry), _what(entry))
    return table


def _who(entry: Body) -> str:
    return f"{entry.get('sessionId') or entry['actor']} ({entry['channel']})"


def _what(entry: Body) -> Text:
    details = cast("dict[str, Any]", entry["details"])
    said = event_label(str(entry["event"]), details.get("action"), str(entry["subject"]))
    order = details.get("stepOrder")
    what = Text(said.replace("a step", f"step {order}") if order else said)
    why = ", ".join(str(details[name]) for name in DETAIL_FIELDS if details.get(name))
    return what.append(f": {why}", style="dim") if why else what


def plan_as_of_table(then: PlanAsOf) -> RenderableType:
    """A plan as it was after an entry."""
    plan = next(iter(then.rows["plan"].values()))
    look = PLAN_STYLES[PlanStatus(str(plan["status"]))]
    when = f"as of {then.last.at:%Y-%m-%d %H:%M:%S} UTC, after entry {then.last.seq}"
    heading = Text.assemble(look.text(), "  ", (str(plan["name"]), "bold"))
    return Group(heading, Text(when, style="dim"), _steps_then(then))


def _steps_then(then: PlanAsOf) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("step")
    table.add_column("status", no_wrap=True)
    table.add_column("try", justify="right", no_wrap=True)
    table.add_column("by", no_wrap=True, style="dim")
    for row in sorted(then.rows["step"].values(), key=lambda row: cast("int", row["order"])):
        look = STEP_STYLES[StepStatus(str(row["status"]))]
        holder = row["held_session"] or row["held_by"] or ""
        table.add_row(str(row["order"]), _title(row), look.text(), str(row["attempt"]), str(holder))
    return table


def _title(row: dict[str, Json]) -> str:
    return str(row["title"] or str(row["instructions"]).strip().split("\n", 1)[0])
