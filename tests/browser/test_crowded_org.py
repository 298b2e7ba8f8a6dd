"""Pages with much data and long names, which fit every window and keep a small header.

If `WAYBOOK_PICTURES` names a folder, the tests save screenshots there, in three widths and both
themes.
"""

import pytest
from playwright.async_api import Page

from browser.axe import accessible
from browser.crowded_org import CrowdedOrg, create_crowded_org
from browser.pictures import take_picture
from browser.served_site import Site

WIDTHS = (1440, 1024, 390)
MAX_HEADER_PIXELS = 64


def pages_of(org: CrowdedOrg) -> dict[str, str]:
    failing, run, job = f"/plans/{org.failing['planId']}", org.failed_run["runId"], org.failed_job
    return {
        "overview": "/",
        "plans": "/plans",
        "edit-plan": f"/plans/{org.failing['planId']}/edit",
        "copy-plan": f"/plans/{org.failing['planId']}/copy",
        "copy-run": f"/runs/{org.failed_run['runId']}/copy",
        "new-plan": "/plans/new",
        "plan-from-template": "/plans/new?template=code-change",
        "inbox": "/inbox",
        "runs": "/runs",
        "plan": failing,
        "step": f"{failing}/steps/{org.failing['stepIds'][0]}",
        "plan-history": f"{failing}/history",
        "plan-outputs": f"{failing}/outputs",
        "outputs": "/outputs",
        "output": f"/outputs/{org.output['outputId']}",
        "run": f"/runs/{run}",
        "run-step": f"/runs/{run}/steps/{job['stageSlug']}/{job['stepKey']}",
        "run-job": f"/runs/{run}/jobs/{job['jobId']}",
        "run-dialectic": f"/runs/{org.dialectic_run['runId']}",
        "run-documents": f"/runs/{org.dialectic_run['runId']}/documents",
        "run-large": f"/runs/{org.big_run['runId']}",
        "run-large-page": f"/runs/{org.big_run['runId']}?page=2",
        "run-large-jobs": f"/runs/{org.big_run['runId']}/jobs",
        "workflows": "/dags",
        "workflow": "/dags/dialectic",
        "audit": "/audit",
        "start-run": "/runs/new?dag=dialectic",
        "search": "/search?q=invoice",
        "agents": "/agents",
        "agent": "/agents/ann",
        "cost": "/cost",
        "timeline": "/timeline",
        "cancel": f"/runs/{org.failed_run['runId']}/cancel?back=/",
        "calls": "/calls",
        "health": "/health",
        "share": f"/plans/{org.failing['planId']}/share",
    }


async def test_pages_of_org_with_much_data_fit_every_window_width(page: Page, site: Site) -> None:
    org = await create_crowded_org(site.world)
    for name, path in pages_of(org).items():
        await page.goto(site.address + path)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is {wide} pixels wider than a window of {width}"
            header = await page.locator("header.top").bounding_box()
            assert header is not None
            assert header["height"] <= MAX_HEADER_PIXELS, (path, width)
            for theme in ("light", "dark"):
                await take_picture(page, f"crowded-{name}-{width}-{theme}", theme)


@pytest.mark.load
async def test_pages_of_org_with_much_data_are_accessible(page: Page, site: Site) -> None:
    org = await create_crowded_org(site.world)
    for path in pages_of(org).values():
        await page.goto(site.address + path)
        await accessible(page)
