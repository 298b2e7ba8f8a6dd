"""Drawings on the plan page: timelines within their width, and a grid of all steps."""

import re
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from plan_builders import NOON, make_plan, make_step
from waybook.plan.model import StepStatus
from waybook.store.plans.details import StepStatusChange
from waybook.transport.http.dashboard.plans.plan_page import build_step_grid
from waybook.transport.http.dashboard.timeline import WIDTH, build_timeline


def minutes(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def moved(step: str, at: float, status: StepStatus) -> StepStatusChange:
    return StepStatusChange(step, minutes(at), status, "ann", None)


def test_timeline_shows_work_waiting_and_retries_in_sequence() -> None:
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
    line = drawn.line("a")
    assert [segment.status for segment in line.segments] == [
        "failed",
        "completed",
        "awaiting_input",
    ]
    assert [segment.title for segment in line.segments] == [
        "worked on, without a result 5 min",
        "worked on 4 min",
        "waited for a person 1 min",
    ]
    assert (line.worked, line.waited) == (timedelta(minutes=9), timedelta(minutes=1))
    assert drawn.line("b").segments[0].status == "in_progress"
    assert len(drawn.cuts) == 1
    assert drawn.worked == timedelta(minutes=10)
    assert drawn.line("c").segments == ()


MOVES = st.lists(
    st.builds(moved, st.sampled_from("abc"), st.floats(0, 10_000), st.sampled_from(StepStatus))
)


@given(MOVES)
def test_timeline_segments_are_visible_and_within_width(moves: list[StepStatusChange]) -> None:
    ordered = sorted(moves, key=lambda move: move.at)
    drawn = build_timeline(ordered, minutes(10_000))
    for line in drawn.lines.values():
        for segment in line.segments:
            assert segment.width > 0
            assert 0 <= segment.x <= segment.x + segment.width <= WIDTH
    assert all(0 <= x < WIDTH for x in drawn.cuts)


CELLS = re.compile(r"M(\d+) 0h(\d+)")


@given(st.lists(st.sampled_from(StepStatus), max_size=60), st.integers(1, 20))
def test_step_grid_contains_every_step_exactly_once(statuses: list[StepStatus], width: int) -> None:
    plan = make_plan(*(make_step(status) for status in statuses))
    rows = build_step_grid(plan.steps, width)
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
