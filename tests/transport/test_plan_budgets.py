"""Limits on the size of the plan page, for plans of any size."""

import re

import pytest

from plan_builders import NOON
from plan_details import make_large_plan, make_plan_detail
from waybook.app.queries.plans.plan import STEPS_AROUND, PlanDetail
from waybook.transport.http.dashboard.plans.plan_page import plan_content
from waybook.transport.http.html.layout import TEMPLATES, VersionMemory, finish_rendering
from waybook.transport.http.response_send import gzip_text

MAX_NODES = 15_000
TAG = re.compile(r"<[a-z]")


def rendered(sheet: PlanDetail) -> str:
    framed = {"path": f"/plans/{sheet.plan.id}", "query": {}, "waiting": 1, "token": "t" * 43}
    framed |= {"person": None, "now": NOON}
    text = TEMPLATES.get_template("plan.html").render({**framed, **plan_content(sheet)})
    return finish_rendering(text, VersionMemory(), volatile=(), known_version=None).text


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
    # The server compresses pages with `gzip_text`; `test_page_sizes` measures the received bytes.
    assert len(gzip_text(html.encode())) <= most
    assert nodes_in(html) <= MAX_NODES


def test_plan_map_draws_5000_siblings_as_a_single_box() -> None:
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
    orders = [int(order) for html in pages for order in re.findall(r'<tr id="s(\d+)"', html)]
    assert orders == [*range(1, 501)]
    assert make_plan_detail(plan, 99).window.number == 5
    assert make_plan_detail(plan, 0).window.number == 1
