"""Dashboard pages: each opens, is accessible, and stays within its size limits.

If `WAYBOOK_PICTURES` names a folder, the tests save screenshots of all pages there. The clock
stands still, so a screenshot changes only if its page changes.
"""

from collections.abc import Mapping

from playwright.async_api import Page

from auth_env import make_token
from browser.axe import accessible
from browser.pictures import take_picture
from browser.sample_org import SampleOrg, create_sample_org
from browser.served_site import Site
from foreign_records import make_feedback_link, make_review_link, make_snapshot_link
from waybook.transport.http.dashboard.routes import dashboard_routes

#: Route of each page, by the name of its screenshot.
PAGES = {
    "overview": "/",
    "plans": "/plans",
    "new-plan": "/plans/new",
    "edit-plan": "/plans/{plan_id}/edit",
    "copy-plan": "/plans/{plan_id}/copy",
    "copy-run": "/runs/{run_id}/copy",
    "cancel-plan": "/plans/{plan_id}/cancel",
    "cancel-run": "/runs/{run_id}/cancel",
    "inbox": "/inbox",
    "plan": "/plans/{plan_id}",
    "step": "/plans/{plan_id}/steps/{step_id}",
    "outputs": "/outputs",
    "outputs-of-a-plan": "/plans/{plan_id}/outputs",
    "output": "/outputs/{output_id}",
    "plan-history": "/plans/{plan_id}/history",
    "runs": "/runs",
    "start-run": "/runs/new",
    "run": "/runs/{run_id}",
    "run-jobs": "/runs/{run_id}/jobs",
    "run-documents": "/runs/{run_id}/documents",
    "run-document": "/runs/{run_id}/documents/{resource_id}",
    "run-step": "/runs/{run_id}/steps/{stage}/{step_key}",
    "run-job": "/runs/{run_id}/jobs/{job_id}",
    "workflows": "/dags",
    "workflow": "/dags/{slug:path}",
    "agents": "/agents",
    "agent": "/agents/{agent}",
    "cost": "/cost",
    "timeline": "/timeline",
    "search": "/search",
    "research": "/research/{research_id}",
    "comments": "/comments/{subject_id}",
    "audit": "/audit",
    "calls": "/calls",
    "health": "/health",
    "tokens": "/tokens",
    "action-link": "/act/{secret}/{decision}",
    "feedback-link": "/act/{secret}/feedback",
    "share": "/plans/{plan_id}/share",
    "shared": "/shared/{snapshot}",
}
#: Query parameters for pages that are empty without them.
QUERIES = {"/runs/new": "?dag=dialectic"}
#: Limits of a page: requests to load it in a browser, including the one for the page, and DOM
#: nodes.
MAX_REQUESTS = 7
MAX_NODES = 15_000
#: Pages in a sandbox that runs no scripts, so axe-core cannot check them.
SANDBOXED = {"shared"}
#: Routes that return files and no pages; other tests cover them.
FILES = {
    "/plans/{plan_id}/export.{ending}",
    "/shared/{snapshot}/file",
    "/runs/{run_id}/export.{ending}",
    "/audit.{form}",
    "/cost.csv",
    "/static/{version}/{name}",
    "/live",
    "/live/waiting",
}


async def test_browser_tests_open_every_dashboard_page(site: Site) -> None:
    routes = dashboard_routes(site.world.dispatcher, site.person)
    shown = {route.path for route in routes if "GET" in (route.methods or ())}
    assert shown - FILES == set(PAGES.values())


def addressed(route: str, work: SampleOrg, secrets: Mapping[str, str]) -> str:
    steps = work.plan["stepIds"]
    assert isinstance(steps, list)
    places = {
        "{plan_id}": work.plan["planId"],
        "{subject_id}": work.plan["planId"],
        "{step_id}": steps[3],
        "{research_id}": work.research_id,
        "{output_id}": work.output["outputId"],
        "{run_id}": work.run["runId"],
        "{resource_id}": work.document_id,
        "{stage}": work.job["stageSlug"],
        "{step_key}": work.job["stepKey"],
        "{job_id}": work.job["jobId"],
        "{slug:path}": "dialectic",
        "{decision}": "approve",
        **secrets,
        "{agent}": "ann?session=morning",
    }
    for place, value in places.items():
        route = route.replace(place, str(value))
    return route + QUERIES.get(route, "")


async def test_every_dashboard_page_opens_and_is_accessible(page: Page, site: Site) -> None:
    work = await create_sample_org(site.world)
    await make_token(site.world.agent)
    _, snapshot = await make_snapshot_link(site.world.agent)
    secrets = {
        "{secret}/feedback": f"{await make_feedback_link(site.world.agent)}/feedback",
        "{secret}": await make_review_link(site.world.agent),
        "{snapshot}": snapshot,
    }
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    for name, route in PAGES.items():
        urls.clear()
        reply = await page.goto(site.address + addressed(route, work, secrets))
        assert reply is not None
        assert reply.status == 200, (name, await page.content())
        assert len([url for url in urls if url.startswith(site.address)]) <= MAX_REQUESTS, urls
        assert await page.locator("*").count() <= MAX_NODES
        if name not in SANDBOXED:
            await accessible(page)
        for theme in ("dark", "light"):
            await take_picture(page, f"{name}-{theme}", theme)
