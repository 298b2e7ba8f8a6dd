"""The figures of a plan must be the same in tools, lists, plan page, terminal and exports."""

import io
import re
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Any

import httpx2
import pytest
from rich.console import Console

from org_env import AgentClient, Body, OrgEnv, make_step
from transport.page_client import make_browser
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.work_views import ViewQuery, plan_view, read_view
from waybook.app.request.request_context import RequestContext
from waybook.cli.terminal.console import Viewport
from waybook.cli.terminal.plan_board import plan_display
from waybook.core.decision_context import Channel

NAMES = ("Find the gauges", "Compare.", "Weigh both", "Write it", "Last one")


@dataclass(frozen=True)
class Shown:
    """Figures of a plan, as one interface shows them; the defaults are the expected figures."""

    status: str = "stalled"
    done: int = 1
    total: int = 5
    percent: int = 20
    failed: int = 1
    names: tuple[str, ...] = NAMES
    #: Order numbers of the plan's stalled steps.
    stalled: tuple[int, ...] = (3,)
    counts: dict[str, int] = field(
        default_factory=lambda: {"completed": 1, "failed": 1, "in_progress": 1, "pending": 2}
    )


EXPECTED = Shown()


@pytest.fixture
async def plan(world: OrgEnv) -> Body:
    """Return a plan with one completed, one failed, one stalled and two pending steps."""
    agent = world.agent
    steps = [make_step(title=name) for name in NAMES]
    steps[1] = make_step("Compare.\nAll of them.")
    plan = await agent.plan(steps, name="Rivers")
    await agent.submit(await agent.take(plan))
    taken = await agent.take(plan)
    await agent.modify(plan, "fail_step", stepId=taken["stepId"], reason="No.")
    await agent.take(plan)
    world.clock.advance(minutes=40)
    await agent.status(plan)
    return plan


def context(agent: AgentClient) -> RequestContext:
    caller = replace(agent.caller, channel=Channel.CLI)
    return RequestContext(services=agent.dispatcher.services, caller=caller)


async def test_get_plan_status_shows_status_and_progress_of_stalled_plan(
    agent: AgentClient, plan: Body
) -> None:
    reply = await agent.status(plan)
    lists = ("completedSteps", "failedSteps", "activeSteps", "pendingSteps")
    titles = {step["stepOrder"]: step.get("title") for name in lists for step in reply[name]}
    shown = Shown(
        status=reply["status"],
        percent=reply["progress"],
        failed=len(reply["failedSteps"]),
        names=tuple(titles[n] or NAMES[n - 1] for n in sorted(titles)),
        stalled=tuple(step["stepOrder"] for step in reply["stalledSteps"]),
        counts={
            "completed": len(reply["completedSteps"]),
            "failed": len(reply["failedSteps"]),
            "in_progress": len(reply["activeSteps"]),
            "pending": len(reply["pendingSteps"]),
        },
        **reply["counts"],
    )
    assert shown == EXPECTED


async def test_list_active_plans_shows_status_and_progress_of_stalled_plan(
    agent: AgentClient, plan: Body
) -> None:
    (listed,) = (await agent.call("list_active_plans"))["plans"]
    counts = listed["counts"]
    assert listed["planId"] == plan["planId"]
    assert counts.pop("inProgress") == 1
    shown = Shown(status=listed["status"], percent=listed["progress"], **counts)
    assert shown == EXPECTED


async def test_plans_command_shows_status_and_progress_of_stalled_plan(
    agent: AgentClient, plan: Body
) -> None:
    answer: Any = await read_view(context(agent), "plans", ViewQuery())
    (listed,) = answer["plans"]
    counts: Body = listed["counts"]
    shown = Shown(
        status=listed["status"],
        done=counts.pop("done"),
        total=counts.pop("total"),
        percent=listed["progress"],
        failed=counts["failed"],
        counts=counts,
    )
    assert (listed["planId"], shown) == (plan["planId"], EXPECTED)


async def test_status_command_shows_status_and_progress_of_stalled_plan(
    agent: AgentClient, plan: Body
) -> None:
    board = await read_plan_detail(context(agent), plan["planId"], PlanInclude.BOARD)
    console = Console(width=120, file=io.StringIO())
    console.print(plan_display(plan_view(board), Viewport(width=120)))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    done, total, percent = found(r"(\d+) of (\d+) done .* (\d+) %", text)
    rows = re.findall(r"^│ +(\d) (.+?) +[^\w\s] (\w+)", text, re.MULTILINE)
    shown = Shown(
        status=found(r"▲ (\w+), 1 failed +Rivers", text)[0].lower(),
        done=int(done),
        total=int(total),
        percent=int(percent),
        failed=sum(status == "Failed" for _, _, status in rows),
        names=tuple(name for _, name, _ in rows),
        stalled=tuple(int(order) for order, _, status in rows if status == "Stalled"),
    )
    assert shown == EXPECTED


async def test_plan_page_shows_status_and_progress_of_stalled_plan(
    world: OrgEnv, plan: Body
) -> None:
    async with make_browser(world.agent) as browser:
        text = await page(browser, f"/plans/{plan['planId']}")
    done, total = found(r"<b>(\d+)</b> of <b>(\d+)</b> done", text)
    rows = re.findall(r'<li id="s(\d)".*?<a [^>]*>(.*?)</a>.*?data-status="(\w+)"', text, re.DOTALL)
    counted = re.findall(r'href="[^"]*\?state=(\w+)#steps"[^>]*>\w+<span class="num">(\d+)<', text)
    shown = Shown(
        status=found(r'<h1>Rivers.*?data-status="(\w+)"', text)[0],
        done=int(done),
        total=int(total),
        failed=sum(status == "failed" for _, _, status in rows),
        names=tuple(unescape(name) for _, name, _ in rows),
        stalled=tuple(int(order) for order, _, status in rows if status == "stalled"),
        counts={status: int(count) for status, count in counted},
    )
    counts = {"completed": 1, "failed": 1, "stalled": 1, "ready": 2}
    assert shown == replace(EXPECTED, counts=counts)


async def test_plan_list_page_shows_status_and_progress_of_stalled_plan(
    world: OrgEnv, plan: Body
) -> None:
    async with make_browser(world.agent) as browser:
        text = await page(browser, "/plans")
    row = next(row for row in text.split("<tr>") if f'id="p-{plan["planId"]}"' in row)
    done, total, failed = found(r">(\d+) of (\d+) · <[^>]*>(\d+) failed<", row)
    status = found(r'data-status="(\w+)"', row)[0]
    assert Shown(status, int(done), int(total), failed=int(failed)) == EXPECTED
    assert found(r'class="now">.*?>(Stalled) <time', row)


async def test_plan_exports_show_status_and_progress_of_stalled_plan(
    world: OrgEnv, plan: Body
) -> None:
    async with make_browser(world.agent) as browser:
        report = await page(browser, f"/plans/{plan['planId']}/export.md")
        rows: Body = (await browser.get(f"/plans/{plan['planId']}/export.json")).json()
    status, done, total = found(r"\*\*(\w+)\*\*, (\d) of (\d) steps done, 1 failed", report)
    names = re.findall(r"^### \d\. (.+)$", report, re.MULTILINE)
    statuses = [step["status"] for step in rows["steps"]]
    shown = Shown(
        status=status.lower(),
        done=int(done),
        total=int(total),
        failed=statuses.count("failed"),
        names=tuple(names),
        counts={status: statuses.count(status) for status in statuses},
    )
    assert (rows["plan"]["status"], shown) == ("stalled", EXPECTED)


def found(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text, re.DOTALL)
    assert match, (pattern, text)
    return match.groups()


async def page(browser: httpx2.AsyncClient, address: str) -> str:
    reply = await browser.get(address)
    assert reply.status_code == 200, reply.text
    return reply.text
