"""Pages of workflows: of a large workflow, only a bounded part is drawn and listed."""

import re
from itertools import pairwise

import httpx2
import pytest

from database_fixtures import ON_POSTGRES_18
from org_env import AgentClient, Body
from sample_definitions import make_definition, make_recipe_step, make_stage
from transport.page_client import main_text

pytestmark = ON_POSTGRES_18

STAGES = 10
STEPS_PER_STAGE = 500
MAX_NODES = 3_000


def make_long_stage(number: int) -> Body:
    """Return a stage whose steps form one chain, in the short form of definitions."""
    keys = [f"s{number}_{n:03}" for n in range(STEPS_PER_STAGE)]
    kind = {"jobType": "EXECUTE", "granularityStrategy": "all_to_one"}
    steps = [{"stepKey": key, **kind, "name": f"Part {key}"} for key in keys]
    return make_stage(f"stage-{number}", *steps, edges=list(pairwise(keys)))


def count_boxes(page: httpx2.Response) -> int:
    return len(re.findall(r'class="step"', page.text))


async def test_page_of_workflow_with_5000_steps_draws_stages_only(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    stages = [make_long_stage(number) for number in range(STAGES)]
    await agent.call("add_dag", definition=make_definition("long", *stages))
    page = await browser.get("/dags/long")
    assert page.status_code == 200
    assert count_boxes(page) == STAGES
    assert "too many steps to draw at once" in main_text(page)
    assert len(re.findall(r"<(?!/)", page.text)) <= MAX_NODES
    assert "Part s3_000" not in page.text
    stage = await browser.get("/dags/long?stage=stage-3")
    assert count_boxes(stage) <= STEPS_PER_STAGE
    assert re.findall(r"<summary><b>(Part \w+)", stage.text) == [
        f"Part s3_{n:03}" for n in range(100)
    ]
    last = await browser.get("/dags/long?stage=stage-3&page=9")
    assert re.findall(r"<summary><b>(Part \w+)", last.text)[-1] == "Part s3_499"
    assert 'rel="next"' not in last.text


@pytest.mark.parametrize(
    ("query", "status"), [("?stage=none", 404), ("?stage=one&page=x", 400), ("?stage=one", 200)]
)
async def test_workflow_page_refuses_invalid_stage_or_page_parameter(
    browser: httpx2.AsyncClient, agent: AgentClient, query: str, status: int
) -> None:
    await agent.call(
        "add_dag", definition=make_definition("small", make_stage("one", make_recipe_step("a")))
    )
    assert (await browser.get(f"/dags/small{query}")).status_code == status
