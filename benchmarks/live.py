"""Time from a change by an agent to the open dashboard page that shows it.

A real browser shows the list of plans of a server in its own process, and an agent in this process
claims and submits steps over MCP. The time is measured from the answer to a submission until the
page shows the new number of completed steps. The CPU time of the page's main thread is measured
too. The measurement is repeated in the last of twelve tabs, and on the page of a plan with 200
steps.

    python benchmarks/live.py [--changes 30]
"""

import argparse
import asyncio
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from mcp import Client
from playwright.async_api import BrowserContext, CDPSession, Page, async_playwright

from browsers import find_chromium
from server_process import serving
from waybook.cli.demo.environment import temporary_database

TABS = 12
MAX_MEDIAN_MS = 500
PLAN_STEPS = 200
MAX_PLAN_MEDIAN_MS = 250
#: JavaScript that waits until the page shows a text, and returns the time by the browser's clock.
WAIT_FOR_TEXT = """([part, text]) => new Promise(done => {
  const shown = () => document.querySelector(part).textContent.replace(/\\s+/g, " ");
  const look = () => shown().includes(text) && done(Date.now());
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
  look();
})"""


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


async def make_plan(agent: Client, steps: int) -> dict[str, Any]:
    listed = [{"stepType": "search", "instructions": "Look it up."}] * steps
    arguments = {"name": "Rivers", "researchQuestion": "How fast?", "steps": listed}
    return await call(agent, "create_research_plan", **arguments)


async def measure_list(page: Page, agent: Client, changes: int) -> tuple[list[float], float]:
    """Measure how soon the list of plans shows each completed step."""
    plan = await make_plan(agent, changes)
    await page.evaluate(WAIT_FOR_TEXT, ["#plans", f"0 of {changes}"])
    return await measure(page, agent, plan, "#plans", changes, changes)


async def measure_plan_page(
    context: BrowserContext, address: str, agent: Client, changes: int
) -> tuple[list[float], float]:
    """Measure how soon the page of a plan with many steps shows each completed step."""
    plan = await make_plan(agent, PLAN_STEPS)
    page = await open_tab(context, f"{address}/plans/{plan['planId']}")
    return await measure(page, agent, plan, "#plan-status", PLAN_STEPS, changes)


async def measure(
    page: Page, agent: Client, plan: dict[str, Any], part: str, steps: int, changes: int
) -> tuple[list[float], float]:
    """Return the milliseconds until the page shows each completed step, and CPU ms per call."""
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Performance.enable")
    before, gaps = await page_cpu_ms(devtools), []
    for number in range(1, changes + 1):
        step = await call(agent, "get_next_step", planId=plan["planId"])
        expected = [part, f"{number} of {steps}"]
        shown = asyncio.create_task(page.evaluate(WAIT_FOR_TEXT, expected))
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        await call(agent, "submit_step_result", **held, resultSummary="found")
        written = time.time() * 1000
        gaps.append(await shown - written)
    return gaps, (await page_cpu_ms(devtools) - before) / (2 * changes)


async def page_cpu_ms(devtools: CDPSession) -> float:
    """Return the CPU milliseconds that the page's main thread has used so far."""
    answer = await devtools.send("Performance.getMetrics")
    return 1000 * float(next(m["value"] for m in answer["metrics"] if m["name"] == "TaskDuration"))


async def open_tab(context: BrowserContext, url: str) -> Page:
    """Open a tab; wait until it gets live updates."""
    page = await context.new_page()
    await page.goto(url)
    await page.locator("#live", has_text="live").wait_for()
    return page


async def main(changes: int) -> None:
    """Measure the list in one tab and in the last of twelve, and the page of a large plan."""
    chromium = find_chromium()
    if chromium is None:
        print("change → page: NOT MEASURED, Chromium is not installed")
        return
    with temporary_database() as folder:
        async with serving(Path(folder)) as (address, _), async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox"]
            )
            context = await browser.new_context()
            async with Client(f"{address}/mcp") as agent:
                listed = f"{address}/plans?state=all"
                single = await measure_list(await open_tab(context, listed), agent, changes)
                large = await measure_plan_page(context, address, agent, changes)
                tabs = [await open_tab(context, listed) for _ in range(TABS - 1)]
                many = await measure_list(tabs[-1], agent, changes + 1)
            await browser.close()
    report(single, many, large)


def report(
    single: tuple[list[float], float],
    many: tuple[list[float], float],
    large: tuple[list[float], float],
) -> None:
    """Print the results; raise AssertionError if a median in a single tab exceeds its limit."""
    print(f"{'change → page':28}{'median ms':>10}{'p95 ms':>10}{'limit':>8}{'page ms/change':>16}")
    rows = (
        ("list of plans, one tab", single, MAX_MEDIAN_MS),
        (f"list of plans, {TABS} tabs", many, None),
        (f"plan of {PLAN_STEPS} steps", large, MAX_PLAN_MEDIAN_MS),
    )
    for name, (gaps, work), limit in rows:
        times = f"{median(gaps):10.0f}{quantiles(gaps, n=20)[-1]:10.0f}"
        print(f"{name:28}{times}{limit or '':>8}{work:16.1f}")
    for name, (gaps, _), limit in rows:
        assert limit is None or median(gaps) <= limit, (
            f"{name}: {median(gaps):.0f} ms; the limit is {limit} ms"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--changes", type=int, default=30)
    asyncio.run(main(parser.parse_args().changes))
