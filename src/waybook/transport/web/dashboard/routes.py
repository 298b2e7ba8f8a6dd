"""Where the pages are."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.routing import Route

from waybook.doorway import Doorway
from waybook.settings import Found
from waybook.transport.web.dashboard.assets import asset
from waybook.transport.web.dashboard.audit import Audit
from waybook.transport.web.dashboard.calls import Calls
from waybook.transport.web.dashboard.decisions import Decisions
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.feedback import Feedback
from waybook.transport.web.dashboard.health import Health
from waybook.transport.web.dashboard.inbox import Inbox
from waybook.transport.web.dashboard.live import Live
from waybook.transport.web.dashboard.outputs import Outputs
from waybook.transport.web.dashboard.plan import PlanPage
from waybook.transport.web.dashboard.plan_files import PlanFiles
from waybook.transport.web.dashboard.plans import Plans
from waybook.transport.web.dashboard.refused import Endpoint, with_refusals
from waybook.transport.web.dashboard.run import RunPage
from waybook.transport.web.dashboard.run_files import RunFiles
from waybook.transport.web.dashboard.runs import Runs
from waybook.transport.web.dashboard.step import StepPage
from waybook.transport.web.dashboard.tokens import TokensPage
from waybook.transport.web.dashboard.workflows import Workflows
from waybook.usecases.exchange import Caller


def dashboard_routes(
    doorway: Doorway,
    caller: Callable[[Request], Awaitable[Caller]],
    found: Found | None = None,
) -> list[Route]:
    """Every page, for whoever the caller turns out to be; `found` are the settings in force."""
    desk = Desk(doorway, caller)
    live = Live(desk)
    pages: dict[str, Endpoint] = {
        "/": Plans(desk),
        "/inbox": Inbox(desk),
        "/plans/{plan_id}/export.{ending}": PlanFiles(desk),
        **_run_pages(desk),
        **_record_pages(desk),
        "/calls": Calls(desk),
        # Where there are many orgs, the machine is nobody's but the operator's.
        "/health": Health(desk, None if found and found.settings.asks_everybody else found),
    }
    both: dict[str, Endpoint] = {
        "/plans/{plan_id}": PlanPage(desk),
        "/plans/{plan_id}/steps/{step_id}": StepPage(desk),
        "/tokens": TokensPage(desk),
    }
    run = RunPage(desk)
    acts: dict[str, Endpoint] = {
        "/decisions": Decisions(desk),
        "/feedback": Feedback(desk),
        "/runs/{run_id}/retry": run.retry,
        "/runs/{run_id}/regenerate": run.regenerate,
    }
    return [
        *_routes(desk, pages, "GET"),
        *_routes(desk, both, "GET", "POST"),
        *_routes(desk, acts, "POST"),
        Route("/live", live.stream),
        Route("/live/waiting", with_refusals(desk, live.waiting)),
        Route("/static/{version}/{name}", asset),
    ]


def _routes(desk: Desk, endpoints: dict[str, Endpoint], *methods: str) -> list[Route]:
    """Where these are; whatever stands in their way is told in words."""
    return [
        Route(path, with_refusals(desk, endpoint), methods=[*methods])
        for path, endpoint in endpoints.items()
    ]


def _run_pages(desk: Desk) -> dict[str, Endpoint]:
    """Runs, and the workflows they go by."""
    workflows = Workflows(desk)
    return {
        "/runs": Runs(desk),
        "/runs/{run_id}": RunPage(desk),
        "/runs/{run_id}/export.{ending}": RunFiles(desk),
        "/dags": workflows,
        "/dags/{slug:path}": workflows.one,
    }


def _record_pages(desk: Desk) -> dict[str, Endpoint]:
    """What was made, and what was done."""
    outputs, audit = Outputs(desk), Audit(desk)
    return {
        "/outputs": outputs,
        "/outputs/{output_id}": outputs.one,
        "/plans/{plan_id}/outputs": outputs.of_plan,
        "/audit": audit,
        "/audit.{form}": audit.file,
    }
