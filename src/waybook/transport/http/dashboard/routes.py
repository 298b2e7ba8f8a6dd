"""Routes of the dashboard."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.routing import Route

from waybook.app.dispatcher import Dispatcher
from waybook.app.request.caller import Caller
from waybook.settings import LoadedSettings
from waybook.transport.http.dashboard.audit import AuditPage
from waybook.transport.http.dashboard.inbox import DecisionHandler, FeedbackHandler, InboxPage
from waybook.transport.http.dashboard.live import LiveUpdates
from waybook.transport.http.dashboard.operations import CallsPage, HealthPage
from waybook.transport.http.dashboard.page import Endpoint, PageContext, with_error_pages
from waybook.transport.http.dashboard.plan import OutputsPage, PlanExport, PlanPage, StepPage
from waybook.transport.http.dashboard.plans import PlansPage
from waybook.transport.http.dashboard.runs import RunExport, RunPage, RunsPage
from waybook.transport.http.dashboard.tokens import TokensPage
from waybook.transport.http.dashboard.workflows import WorkflowsPage
from waybook.transport.http.html.layout import serve_asset


def dashboard_routes(
    dispatcher: Dispatcher,
    caller: Callable[[Request], Awaitable[Caller]],
    found: LoadedSettings | None = None,
) -> list[Route]:
    """Return the routes; `caller` authenticates requests, `found` are the effective settings."""
    desk = PageContext(dispatcher, caller)
    live = LiveUpdates(desk)
    pages: dict[str, Endpoint] = {
        "/": PlansPage(desk),
        "/inbox": InboxPage(desk),
        "/plans/{plan_id}/export.{ending}": PlanExport(desk),
        **_run_pages(desk),
        **_record_pages(desk),
        "/calls": CallsPage(desk),
        # On a server with several orgs, only the operator may see the machine's settings.
        "/health": HealthPage(desk, None if found and found.settings.requires_auth else found),
    }
    both: dict[str, Endpoint] = {
        "/plans/{plan_id}": PlanPage(desk),
        "/plans/{plan_id}/steps/{step_id}": StepPage(desk),
        "/tokens": TokensPage(desk),
    }
    run = RunPage(desk)
    acts: dict[str, Endpoint] = {
        "/decisions": DecisionHandler(desk),
        "/feedback": FeedbackHandler(desk),
        "/runs/{run_id}/retry": run.retry,
        "/runs/{run_id}/regenerate": run.regenerate,
    }
    return [
        *_routes(desk, pages, "GET"),
        *_routes(desk, both, "GET", "POST"),
        *_routes(desk, acts, "POST"),
        Route("/live", live.stream),
        Route("/live/waiting", with_error_pages(desk, live.pending_count)),
        Route("/static/{version}/{name}", serve_asset),
    ]


def _routes(desk: PageContext, endpoints: dict[str, Endpoint], *methods: str) -> list[Route]:
    """Return routes whose errors are shown as error pages."""
    return [
        Route(path, with_error_pages(desk, endpoint), methods=[*methods])
        for path, endpoint in endpoints.items()
    ]


def _run_pages(desk: PageContext) -> dict[str, Endpoint]:
    """Return the pages of runs and workflows."""
    workflows = WorkflowsPage(desk)
    return {
        "/runs": RunsPage(desk),
        "/runs/{run_id}": RunPage(desk),
        "/runs/{run_id}/export.{ending}": RunExport(desk),
        "/dags": workflows,
        "/dags/{slug:path}": workflows.show,
    }


def _record_pages(desk: PageContext) -> dict[str, Endpoint]:
    """Return the pages of outputs and of the audit."""
    outputs, audit = OutputsPage(desk), AuditPage(desk)
    return {
        "/outputs": outputs,
        "/outputs/{output_id}": outputs.show,
        "/plans/{plan_id}/outputs": outputs.of_plan,
        "/audit": audit,
        "/audit.{form}": audit.export,
    }
