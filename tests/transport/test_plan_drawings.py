"""Maps, timelines and step grids of plans, and the page fragments that live updates send."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import NOON
from plan_details import make_large_plan, make_plan_detail
from waybook.app.queries.plans.plan import STEPS_AROUND, PlanDetail
from waybook.core.shown import Shown
from waybook.dag.diagram.svg import MARK
from waybook.plan.model import StepStatus
from waybook.store.plans.details import StepStatusChange
from waybook.transport.http.connection import gzip_text
from waybook.transport.http.dashboard.plans.plan_page import (
    WIDTH,
    build_step_grid,
    build_timeline,
    plan_content,
)
from waybook.transport.http.html import layout
from waybook.transport.http.html.layout import (
    TEMPLATES,
    VersionMemory,
    end_fragment,
    finish_rendering,
    fragment,
    version_slot,
)

MAX_NODES = 15_000
TAG = re.compile(r"<[a-z]")


def rendered(sheet: PlanDetail) -> str:
    framed = {"path": f"/plans/{sheet.plan.id}", "query": {}, "waiting": 1, "token": "t" * 43}
    framed |= {"person": None, "theme": "", "now": NOON, "thread": None}
    text = TEMPLATES.get_template("plan.html").render({**framed, **plan_content(sheet)})
    return finish_rendering(text, VersionMemory(), volatile=(), known_version=None)[0]


def nodes_in(html: str) -> int:
    return len(TAG.findall(html))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("steps", "most"), [(13, 30_000), (200, 60_000), (500, 60_000), (5_000, 60_000)]
)
def test_plan_page_size_and_node_count_stay_within_limits(
    steps: int,
    most: int,
    tied: bool,  # noqa: FBT001 - a parameter
) -> None:
    html = rendered(make_plan_detail(make_large_plan(steps, tied=tied)))
    # The limit is for the compressed page, as the server sends it.
    assert len(gzip_text(html.encode())) <= most
    assert nodes_in(html) <= MAX_NODES


def test_plan_map_draws_5000_steps_with_equal_dependencies_as_one_box() -> None:
    plan = make_large_plan(5_000)
    first = plan.steps[0].id
    star = plan._replace(
        steps=tuple(
            step._replace(depends_on=() if step.order == 1 else (first,)) for step in plan.steps
        )
    )
    detail = make_plan_detail(star)
    assert len(detail.lane.steps) == len(plan.steps)
    assert plan_content(detail)["map"].count('class="step"') == 2


def test_large_plan_map_shows_the_steps_around_the_current_step() -> None:
    plan = make_large_plan(5_000)
    detail = make_plan_detail(plan)
    content, center = plan_content(detail), plan.steps[2_751].id
    assert content["map_center"] == center
    assert f'data-step="{center}"' in content["map"]
    assert f"{STEPS_AROUND} of 5,000 steps: those near the current step." in rendered(detail)


def test_plan_page_opens_at_the_current_step() -> None:
    plan = make_large_plan(500)
    assert make_plan_detail(plan).window.number == 3
    pages = [rendered(make_plan_detail(plan, number)) for number in range(1, 6)]
    orders = [int(order) for html in pages for order in re.findall(r'<li id="s(\d+)"', html)]
    assert orders == [*range(1, 501)]
    assert make_plan_detail(plan, 99).window.number == 5
    assert make_plan_detail(plan, 0).window.number == 1


# Tests of timelines and the grid of steps.


def minutes(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def moved(step: str, at: float, status: StepStatus) -> StepStatusChange:
    return StepStatusChange(step, minutes(at), status, "ann", None)


SEGMENT = re.compile(
    r'<rect x="(?P<x>\d+)" width="(?P<width>\d+)" height="10" data-status="(?P<status>\w+)">'
    r"<title>(?P<title>[^<]+)</title>"
)


def segments(drawn: dict[str, Any], step: str) -> list[dict[str, str]]:
    line = TEMPLATES.get_template("plan_parts.html").module.line  # type: ignore[attr-defined]
    return [m.groupdict() for m in SEGMENT.finditer(line(drawn["spans"][step], drawn["axis"]))]


def test_timeline_shows_periods_of_work_and_waiting_in_order() -> None:
    moves = [
        moved("a", 0, StepStatus.IN_PROGRESS),
        moved("a", 5, StepStatus.FAILED),
        moved("a", 5, StepStatus.PENDING),
        moved("a", 5, StepStatus.IN_PROGRESS),
        moved("a", 9, StepStatus.AWAITING_INPUT),
        moved("a", 10, StepStatus.COMPLETED),
        moved("b", 2000, StepStatus.IN_PROGRESS),
    ]
    drawn = build_timeline(moves, minutes(2001))
    line = segments(drawn, "a")
    assert [segment["status"] for segment in line] == ["failed", "completed", "awaiting_input"]
    assert [segment["title"] for segment in line] == [
        "worked on, without a result 5 min",
        "worked on 4 min",
        "waited for a person 1 min",
    ]
    assert segments(drawn, "b")[0]["status"] == "in_progress"
    assert len(drawn["cuts"]) == 1
    assert drawn["axis"].worked == timedelta(minutes=10)


MOVES = st.lists(
    st.builds(moved, st.sampled_from("abc"), st.floats(0, 10_000), st.sampled_from(StepStatus))
)


@given(MOVES)
def test_timeline_segments_are_visible_and_within_width(moves: list[StepStatusChange]) -> None:
    ordered = sorted(moves, key=lambda move: move.at)
    drawn = build_timeline(ordered, minutes(10_000))
    for step in drawn["spans"]:
        for segment in segments(drawn, step):
            x, width = int(segment["x"]), int(segment["width"])
            assert width > 0
            assert 0 <= x <= x + width <= WIDTH
    assert all(0 <= x < WIDTH for x in drawn["cuts"])


CELLS = re.compile(r"M(\d+) 0h(\d+)")


@given(st.lists(st.sampled_from(Shown), max_size=60), st.integers(1, 20))
def test_step_grid_contains_every_step_exactly_once(statuses: list[Shown], width: int) -> None:
    rows = build_step_grid(statuses, width)
    status_by_place = {}
    for row in rows:
        for status, path in row["paths"]:
            for start, length in CELLS.findall(path):
                for cell in range(int(start), int(start) + int(length)):
                    place = (row["page"] - 1) * width + cell
                    assert place not in status_by_place
                    status_by_place[place] = status
    assert [status_by_place[n] for n in sorted(status_by_place)] == [
        str(status) for status in statuses
    ]
    assert sum(row["last"] - row["first"] + 1 for row in rows) == len(statuses)


# Tests of page fragments.


def page(rows: dict[str, str], *, head: str = "Steps", mask: str = "t1") -> str:
    """Return a page with a live part: a heading, and a fragment for each row."""
    listed = "".join(
        f'{fragment(name)}<li id="{name}">{text}</li>{end_fragment()}'
        for name, text in rows.items()
    )
    part = f'<ul id="part" data-version="{version_slot()}">{head} {mask} {listed}</ul>'
    return f"<body>{fragment('part')}{part}{end_fragment()}</body>"


def finish(
    memory: VersionMemory, text: str, version: str | None = None, mask: str = "t1"
) -> tuple[str, str | None]:
    return finish_rendering(text, memory, volatile=[mask], known_version=version)


def version_in(text: str) -> str:
    matched = re.search(r'data-version="(\w+)"', text)
    assert matched, text
    return matched[1]


@pytest.fixture
def memory() -> VersionMemory:
    return VersionMemory()


def test_request_with_a_known_page_version_gets_only_changed_fragments(
    memory: VersionMemory,
) -> None:
    shown = version_in(finish(memory, page({"a": "one", "b": "two"}))[0])
    sent = finish(memory, page({"a": "one", "b": "done"}), shown)
    assert sent[0] == '<template data-fragment="b"><li id="b">done</li></template>'
    again = finish(memory, page({"a": "one", "b": "done"}), sent[1])
    assert again == ("", sent[1])


@pytest.mark.parametrize(
    "after",
    [
        page({"a": "one", "b": "two"}, head="Other steps"),
        page({"a": "one"}),
        page({"b": "two", "a": "one"}),
        page({"a": "one", "b": "two", "c": "three"}),
    ],
    ids=["own text", "removed", "moved", "added"],
)
def test_change_other_than_text_in_a_fragment_sends_the_complete_part(
    memory: VersionMemory, after: str
) -> None:
    shown = version_in(finish(memory, page({"a": "one", "b": "two"}))[0])
    sent = finish(memory, after, shown)
    assert sent[1] is None
    assert "<ul" in sent[0]


def test_update_is_empty_if_only_form_token_or_relative_times_changed(
    memory: VersionMemory,
) -> None:
    old = page({"a": '<time datetime="1">just now</time>'}, mask="t1")
    new = page({"a": '<time datetime="1">2 min ago</time>'}, mask="t2")
    shown = version_in(finish(memory, old, mask="t1")[0])
    assert finish(memory, new, shown, mask="t2")[0] == ""
    later = page({"a": '<time datetime="2">just now</time>'}, mask="t2")
    assert "<li" in finish(memory, later, shown, mask="t2")[0]


def test_server_forgets_oldest_page_versions_at_the_memory_limit(
    memory: VersionMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MAX_REMEMBERED_BYTES", 100)
    versions = [version_in(finish(memory, page({"a": str(n)}))[0]) for n in range(10)]
    latest = page({"a": "9"})
    assert finish(memory, latest, versions[0])[1] is None
    assert finish(memory, latest, versions[9])[1] == versions[9]


def test_stored_text_that_contains_a_fragment_marker_is_sent_unchanged(
    memory: VersionMemory,
) -> None:
    text = f"<!--+a-->{MARK}a{MARK}"
    assert text in finish(memory, page({"a": text}))[0]
