"""Past states of a plan, rebuilt from its audit: for the time slider, and as a snapshot file.

A snapshot is one HTML file that can be verified without a server. The file has the plan's audit
chain. A verifier can compute the file again and compare every byte.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final, NamedTuple

import orjson
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from waybook.app.queries.audit import (
    SubjectAsOf,
    changes_in,
    entry_label,
    read_all_entries,
    step_title,
    steps_in_order,
    subject_as_of,
)
from waybook.app.queries.plans.plan import (
    MAX_MAP_BOXES,
    STAGE,
    STEPS_AROUND,
    PlanInclude,
    chain_or_dependencies,
    read_plan_detail,
)
from waybook.app.queries.work_export import ExportedRows, export_body, exported_entry
from waybook.app.request.layout_worker import DrawingJob, render
from waybook.app.request.request_context import RequestContext
from waybook.core.agent_names import name_of
from waybook.core.changes import Row, Rows, replay
from waybook.core.shown import Shown, look_of
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane, exceeds, steps_around
from waybook.dag.diagram.status_marks import Annotation, Annotations
from waybook.dag.diagram.svg import Drawing, style_sheet
from waybook.dag.snapshots.rows import as_list
from waybook.dag.templates.rendering import markdown_to_html
from waybook.errors import InvalidInput, NotFound, TooLarge
from waybook.json_values import Json
from waybook.plan.model import DONE_STEP, StepId
from waybook.plan.states import past_states
from waybook.store.audit import SealedEntry

#: Maximum number of audit entries that a page replays.
MAX_REPLAYED_ENTRIES = 20_000
MAX_NAME_LENGTH = 200


class PastPlan(NamedTuple):
    row: Row
    #: Rows of the steps by id, in the order of the plan.
    steps: Mapping[str, Row]
    #: Ids of the steps that are still in the plan today.
    existing: frozenset[str]
    last: SealedEntry
    last_seq: int

    @property
    def shown(self) -> Shown:
        return past_states(self.row, self.steps)[0]

    @property
    def states(self) -> Mapping[StepId, Shown]:
        return past_states(self.row, self.steps)[1]

    @property
    def event(self) -> str:
        return entry_label(self.last)

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(str(step["status"]) for step in self.steps.values()))

    @property
    def done(self) -> int:
        return sum(step["status"] in DONE_STEP for step in self.steps.values())


async def read_plan_history(
    ctx: RequestContext, plan_id: str, *, seq: int | None = None, at: datetime | None = None
) -> PastPlan:
    """Rebuild a plan from its audit, as of the entry `seq`, the time `at`, or the last entry."""
    plan = (await read_plan_detail(ctx, plan_id, PlanInclude.NONE)).plan
    last = plan.seq
    if last > MAX_REPLAYED_ENTRIES:
        raise InvalidInput(
            f"this plan has {last:,} audit entries, and a page replays at most "
            f"{MAX_REPLAYED_ENTRIES:,}; use `waybook audit as-of` instead"
        )
    if at is None:
        seq = last if seq is None else min(max(1, seq), last)
    then = await subject_as_of(ctx, plan.id, at=at, seq=seq if at is None else None)
    return past_plan(then, last, frozenset(step.id for step in plan.steps))


def past_plan(then: SubjectAsOf, last_seq: int, existing: frozenset[str]) -> PastPlan:
    return PastPlan(
        row=next(iter(then.rows["plan"].values())),
        steps=dict(steps_in_order(then.rows)),
        existing=existing,
        last=then.last,
        last_seq=last_seq,
    )


def past_drawing(plan: PastPlan) -> Drawing:
    """Return the diagram of a past plan. Of a large plan, only a part is drawn."""
    rows = plan.steps
    boxes = tuple(
        DiagramStep(step_id, step_title(row)[:MAX_NAME_LENGTH], str(row["type"]))
        for step_id, row in rows.items()
    )
    before = [
        (step_id, [*map(str, as_list(row.get("depends_on")))]) for step_id, row in rows.items()
    ]
    edges = chain_or_dependencies(before, sequential=bool(plan.row.get("sequential")))
    lane = Lane(slug=STAGE, name="", steps=boxes, edges=edges)
    if rows and exceeds(lane, MAX_MAP_BOXES):
        is_open = (step_id for step_id, row in rows.items() if row["status"] not in DONE_STEP)
        lane = steps_around(lane, next(is_open, [*rows][-1]), STEPS_AROUND)
    marks = {
        (STAGE, str(step_id)): Annotation(state, f"step {rows[step_id]['order']}")
        for step_id, state in plan.states.items()
    }
    return Drawing(Diagram(name=str(plan.row["name"]), lanes=(lane,)), Annotations(steps=marks))


DATA_START: Final = '<script type="application/json" id="waybook-export">'
DATA_END: Final = "</script>"
#: Identifies the layout of the file. Only files with the current layout can be verified.
GENERATOR: Final = '<meta name="generator" content="waybook snapshot 1">'
MAP_WIDTH: Final = 960
MAX_ENTRIES: Final = 5_000
MAX_ENTRY_BYTES: Final = 8 * 1024 * 1024


async def read_snapshot_entries(ctx: RequestContext, plan_id: str, seq: int) -> list[SealedEntry]:
    if seq > MAX_ENTRIES:
        raise _too_large()
    entries = await read_all_entries(ctx, plan_id, until=seq)
    if len(entries) != seq:
        raise NotFound("there is no such plan or audit entry here")
    if sum(len(entry.details) for entry in entries) > MAX_ENTRY_BYTES:
        raise _too_large()
    return entries


def _too_large() -> TooLarge:
    return TooLarge(
        f"a snapshot has at most {MAX_ENTRIES:,} audit entries with {MAX_ENTRY_BYTES:,} bytes; "
        "use waybook export instead"
    )


def snapshot_file(entries: Sequence[SealedEntry]) -> str:
    rows = replay(changes_in(entries))
    plan_id, plan = next(iter(rows["plan"].items()))
    last = entries[-1]
    past = past_plan(SubjectAsOf(rows, last), last.seq, frozenset())
    exported = ExportedRows(
        kind="plan", id=plan_id, name=str(plan["name"]), now=last.at, seq=last.seq, rows=rows
    )
    export = {**export_body(exported), "audit": [exported_entry(entry) for entry in entries]}
    # Escape `<`, so that no HTML tag can begin inside this JSON.
    data = orjson.dumps(export).decode().replace("<", "\\u003c")
    view = {
        "generator": Markup(GENERATOR),  # noqa: S704 - a constant
        "plan": plan,
        "past": past,
        "state": look_of(past.shown),
        "steps": [
            {"state": look_of(state), **_step(step_id, past.steps[step_id], rows)}
            for step_id, state in past.states.items()
        ],
        # `render` escapes every text in the drawing.
        "svg": Markup(render(DrawingJob(past_drawing(past), MAP_WIDTH, styled=True))),  # noqa: S704
        "entries": [
            {
                "seq": entry.seq,
                "time": _time(entry.at),
                "actor": name_of(entry.actor, entry.session),
                "channel": entry.channel,
                "event": entry_label(entry),
                "seal": bytes(entry.hash).hex(),
            }
            for entry in entries
        ],
        "seal": bytes(last.hash).hex(),
        "time": _time(last.at),
        "data": Markup(DATA_START + data + DATA_END),  # noqa: S704
    }
    return _template().render(view)


def _step(step_id: str, step: Row, rows: Rows) -> dict[str, object]:
    reviews = [row for row in rows.get("review", {}).values() if row["step_id"] == step_id]
    reviews.sort(key=lambda row: str(row["requested_at"]))
    return {
        "row": step,
        "name": step_title(step),
        "instructions": _rich(step["instructions"]),
        "result": _rich(step.get("result_summary")),
        "reviews": [
            {"row": row, "summary": _rich(row["summary"]), "feedback": _rich(row.get("feedback"))}
            for row in reviews
        ],
    }


def _rich(value: Json) -> Markup | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return Markup(markdown_to_html(value))  # noqa: S704 - sanitized
    return Markup("<pre>{}</pre>").format(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@cache
def style_hashes() -> tuple[str, ...]:
    page_style = _template_text().partition("<style>")[2].partition("</style>")[0]
    digests = (sha256(style.encode()).digest() for style in (page_style, style_sheet()))
    return tuple(f"'sha256-{b64encode(digest).decode()}'" for digest in digests)


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(_template_text())


def _template_text() -> str:
    return files("waybook.app.queries.plans").joinpath("plan_snapshot.html").read_text("utf-8")
