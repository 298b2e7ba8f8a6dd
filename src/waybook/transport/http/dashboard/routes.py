"""HTTP routes of all dashboard pages."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.routing import Route

from waybook.app.dispatcher import Dispatcher
from waybook.app.operations.sharing import SHARED_PATH
from waybook.app.request.caller import Caller
from waybook.notifications.action_links import ACTION_PATH, FEEDBACK_ACTION
from waybook.settings import LoadedSettings
from waybook.transport.http.client_address import read_proxies
from waybook.transport.http.dashboard.action_links import ActionLinkPage
from waybook.transport.http.dashboard.agents import AgentsPage
from waybook.transport.http.dashboard.audit import AuditPage
from waybook.transport.http.dashboard.bulk_decisions import BulkApproval
from waybook.transport.http.dashboard.cancel import CancelPlanPage, CancelRunPage
from waybook.transport.http.dashboard.copy import CopyPlanPage, CopyRunPage
from waybook.transport.http.dashboard.costs import CostPage
from waybook.transport.http.dashboard.feedback_links import FeedbackLinkPage
from waybook.transport.http.dashboard.inbox import DecisionHandler, FeedbackHandler, InboxPage
from waybook.transport.http.dashboard.link_access import LinkAccess
from waybook.transport.http.dashboard.live import LiveUpdates
from waybook.transport.http.dashboard.operations import CallsPage, HealthPage
from waybook.transport.http.dashboard.outputs import OutputsPage
from waybook.transport.http.dashboard.overview import OverviewPage
from waybook.transport.http.dashboard.page import Endpoint, PageContext, with_error_pages
from waybook.transport.http.dashboard.plans.new_plan import NewPlanPage
from waybook.transport.http.dashboard.plans.plan_edit import PlanEditPage
from waybook.transport.http.dashboard.plans.plan_history import PlanHistoryPage
from waybook.transport.http.dashboard.plans.plan_list import PlansPage
from waybook.transport.http.dashboard.plans.plan_page import PlanExport, PlanPage, StepPage
from waybook.transport.http.dashboard.plans.sharing import SharedSnapshot, SharePage
from waybook.transport.http.dashboard.runs.run_document import RunDocumentPage
from waybook.transport.http.dashboard.runs.run_page import RunExport, RunPage, RunsPage
from waybook.transport.http.dashboard.runs.run_work import (
    RunDocumentsPage,
    RunJobPage,
    RunJobsPage,
    RunStagePage,
    RunStepPage,
)
from waybook.transport.http.dashboard.runs.start_run import StartRunPage
from waybook.transport.http.dashboard.runs.workflows import WorkflowsPage
from waybook.transport.http.dashboard.search import SearchPage
from waybook.transport.http.dashboard.tokens import TokensPage
from waybook.transport.http.html.layout import serve_asset


def dashboard_routes(
    dispatcher: Dispatcher,
    caller: Callable[[Request], Awaitable[Caller]],
    loaded: LoadedSettings | None = None,
) -> list[Route]:
    page_context = PageContext(dispatcher, caller)
    # With several orgs, only the operator may see the server's settings and files.
    visible = None if loaded and loaded.settings.requires_auth else loaded
    live, overview = LiveUpdates(page_context), OverviewPage(page_context)
    pages: dict[str, Endpoint] = {
        "/": overview,
        "/plans": PlansPage(page_context),
        "/plans/{plan_id}": PlanPage(page_context),
        "/inbox": InboxPage(page_context),
        "/plans/{plan_id}/export.{ending}": PlanExport(page_context),
        "/plans/{plan_id}/history": PlanHistoryPage(page_context),
        **_run_pages(page_context),
        **_record_pages(page_context),
        "/calls": CallsPage(page_context),
        "/health": HealthPage(page_context, visible),
    }
    # The first match wins, so paths that end in `new` come before paths that end in an id.
    new: dict[str, Endpoint] = {
        "/plans/new": NewPlanPage(page_context, visible.settings.data_dir if visible else None),
        "/runs/new": StartRunPage(page_context),
    }
    run = RunPage(page_context)
    acts: dict[str, Endpoint] = {
        "/rescue": overview.rescue,
        "/decisions": DecisionHandler(page_context),
        "/feedback": FeedbackHandler(page_context),
        "/runs/{run_id}/retry": run.retry,
        "/runs/{run_id}/regenerate": run.regenerate,
    }
    links = LinkAccess(dispatcher, read_proxies(loaded.settings.trusted_proxies if loaded else ""))
    return [
        *_link_routes(page_context, links),
        *_routes(page_context, new, "GET", "POST"),
        *_routes(page_context, pages, "GET"),
        *_routes(page_context, _form_pages(page_context), "GET", "POST"),
        *_routes(page_context, acts, "POST"),
        Route("/live", live.stream),
        Route("/live/waiting", with_error_pages(page_context, live.pending_count)),
        Route("/static/{version}/{name}", serve_asset),
    ]


def _form_pages(page_context: PageContext) -> dict[str, Endpoint]:
    return {
        "/decisions/selected": BulkApproval(page_context),
        "/plans/{plan_id}/edit": PlanEditPage(page_context),
        "/plans/{plan_id}/copy": CopyPlanPage(page_context),
        "/runs/{run_id}/copy": CopyRunPage(page_context),
        "/plans/{plan_id}/steps/{step_id}": StepPage(page_context),
        "/plans/{plan_id}/cancel": CancelPlanPage(page_context),
        "/plans/{plan_id}/share": SharePage(page_context),
        "/runs/{run_id}/cancel": CancelRunPage(page_context),
        "/tokens": TokensPage(page_context),
    }


def _routes(
    page_context: PageContext, endpoints: dict[str, Endpoint], *methods: str
) -> list[Route]:
    return [
        Route(path, with_error_pages(page_context, endpoint), methods=[*methods])
        for path, endpoint in endpoints.items()
    ]


def _link_routes(page_context: PageContext, links: LinkAccess) -> list[Route]:
    shared = SharedSnapshot(links)
    actions: dict[str, Endpoint] = {
        f"{ACTION_PATH}/{{secret}}/{FEEDBACK_ACTION}": FeedbackLinkPage(links),
        f"{ACTION_PATH}/{{secret}}/{{decision}}": ActionLinkPage(links),
    }
    snapshots: dict[str, Endpoint] = {
        f"{SHARED_PATH}/{{snapshot}}": shared,
        f"{SHARED_PATH}/{{snapshot}}/file": shared.download,
    }
    return [
        *_routes(page_context, actions, "GET", "POST"),
        *_routes(page_context, snapshots, "GET"),
    ]


def _run_pages(page_context: PageContext) -> dict[str, Endpoint]:
    workflows = WorkflowsPage(page_context)
    return {
        "/runs": RunsPage(page_context),
        "/runs/{run_id}": RunPage(page_context),
        "/runs/{run_id}/stages/{stage}": RunStagePage(page_context),
        "/runs/{run_id}/jobs": RunJobsPage(page_context),
        "/runs/{run_id}/documents": RunDocumentsPage(page_context),
        "/runs/{run_id}/documents/{resource_id}": RunDocumentPage(page_context),
        "/runs/{run_id}/steps/{stage}/{step_key}": RunStepPage(page_context),
        "/runs/{run_id}/jobs/{job_id}": RunJobPage(page_context),
        "/runs/{run_id}/export.{ending}": RunExport(page_context),
        "/dags": workflows,
        "/dags/{slug:path}": workflows.show,
    }


def _record_pages(page_context: PageContext) -> dict[str, Endpoint]:
    outputs, audit = OutputsPage(page_context), AuditPage(page_context)
    agents, search = AgentsPage(page_context), SearchPage(page_context)
    return {
        "/agents": agents,
        "/agents/{agent}": agents.show,
        "/cost": CostPage(page_context),
        "/search": search,
        "/research/{research_id}": search.research,
        "/outputs": outputs,
        "/outputs/{output_id}": outputs.show,
        "/plans/{plan_id}/outputs": outputs.of_plan,
        "/audit": audit,
        "/audit.{form}": audit.export,
    }
