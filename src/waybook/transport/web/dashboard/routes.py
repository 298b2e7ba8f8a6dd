"""Where the pages are."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.routing import Route

from waybook.doorway import Doorway
from waybook.transport.web.dashboard.assets import asset
from waybook.transport.web.dashboard.decisions import Decisions
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.feedback import Feedback
from waybook.transport.web.dashboard.inbox import Inbox
from waybook.transport.web.dashboard.plan import PlanPage
from waybook.transport.web.dashboard.plan_files import PlanFiles
from waybook.transport.web.dashboard.plans import Plans
from waybook.transport.web.dashboard.refused import with_refusals
from waybook.transport.web.dashboard.step import StepPage
from waybook.usecases.exchange import Caller


def dashboard_routes(
    doorway: Doorway, caller: Callable[[Request], Awaitable[Caller]]
) -> list[Route]:
    """Every page, for whoever the caller turns out to be."""
    desk = Desk(doorway, caller)
    return [
        Route("/", with_refusals(desk, Plans(desk))),
        Route("/inbox", with_refusals(desk, Inbox(desk))),
        Route("/decisions", with_refusals(desk, Decisions(desk)), methods=["POST"]),
        Route("/feedback", with_refusals(desk, Feedback(desk)), methods=["POST"]),
        Route("/plans/{plan_id}", with_refusals(desk, PlanPage(desk)), methods=["GET", "POST"]),
        Route(
            "/plans/{plan_id}/steps/{step_id}",
            with_refusals(desk, StepPage(desk)),
            methods=["GET", "POST"],
        ),
        Route("/plans/{plan_id}/export.{ending}", with_refusals(desk, PlanFiles(desk))),
        Route("/static/{version}/{name}", asset),
    ]
