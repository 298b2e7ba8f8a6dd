"""HTTP routes of all dashboard pages."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.routing import Route

from waybook.app.accounts.authentication import LinkKind
from waybook.app.dispatcher import Dispatcher
from waybook.app.operations.sharing import SHARED_PATH
from waybook.app.request.caller import Caller
from waybook.integrations.config import read_proxies
from waybook.notifications.delivery import ACTION_PATH, FEEDBACK_ACTION
from waybook.settings import LoadedSettings
from waybook.transport.http.dashboard import (
    agents,
    audit,
    bulk_approval,
    comments,
    costs,
    inbox,
    links,
    live,
    operations,
    outputs,
    overview,
    work_actions,
)
from waybook.transport.http.dashboard.page import Handler, page_endpoint
from waybook.transport.http.dashboard.plans import plan_page, step_page
from waybook.transport.http.dashboard.runs import run_page, run_work
from waybook.transport.http.html.assets import serve_asset
from waybook.transport.http.rate_limits import FailedCredentials

PAGES: Final[Mapping[str, Handler]] = {
    "/": overview.overview_page,
    "/plans": overview.plan_list,
    "/inbox": inbox.inbox_page,
    "/plans/{plan_id}/export.{ending}": outputs.export_plan,
    "/plans/{plan_id}": plan_page.plan_page,
    "/plans/{plan_id}/history": plan_page.plan_history,
    "/runs": overview.run_list,
    "/runs/{run_id}": run_page.run_page,
    "/runs/{run_id}/jobs": run_work.jobs_page,
    "/runs/{run_id}/documents": run_work.documents_page,
    "/runs/{run_id}/documents/{resource_id}": run_work.document_page,
    "/runs/{run_id}/steps/{stage}/{step_key}": run_work.step_page,
    "/runs/{run_id}/jobs/{job_id}": run_work.job_page,
    "/runs/{run_id}/export.{ending}": outputs.export_run,
    "/dags": work_actions.workflow_list,
    "/dags/{slug:path}": work_actions.workflow_page,
    "/agents": agents.agent_list,
    "/agents/{agent}": agents.agent_page,
    "/timeline": agents.timeline_page,
    "/cost": costs.cost_page,
    "/cost.csv": costs.cost_export,
    "/search": overview.search_page,
    "/research/{research_id}": overview.research_page,
    "/outputs": outputs.output_list,
    "/plans/{plan_id}/outputs": outputs.plan_output_list,
    "/outputs/{output_id}": outputs.output_page,
    "/audit": audit.audit_page,
    "/audit.{form}": audit.audit_export,
    "/calls": operations.calls_page,
}
FORMS: Final[Mapping[str, Handler]] = {
    "/plans/{plan_id}/edit": plan_page.edit_page,
    "/plans/{plan_id}/copy": partial(work_actions.copy_page, "plan"),
    "/runs/{run_id}/copy": partial(work_actions.copy_page, "run"),
    "/plans/{plan_id}/steps/{step_id}": step_page.step_page,
    "/plans/{plan_id}/cancel": partial(work_actions.cancel_page, "plan"),
    "/plans/{plan_id}/share": links.share_page,
    "/runs/{run_id}/cancel": partial(work_actions.cancel_page, "run"),
    "/tokens": operations.tokens_page,
    "/comments/{subject_id}": comments.comments_page,
}
ACTIONS: Final[Mapping[str, Handler]] = {
    "/rescue": overview.rescue,
    "/theme": operations.choose_theme,
    "/decisions": inbox.submit_decision,
    "/decisions/selected": bulk_approval.approve_selected,
    "/feedback": inbox.submit_feedback,
    "/caps": inbox.submit_cap,
}


def dashboard_routes(
    dispatcher: Dispatcher,
    caller: Callable[[Request], Awaitable[Caller]],
    loaded: LoadedSettings | None = None,
    *,
    is_development: bool = sys.flags.dev_mode,
) -> list[Route]:
    """Return the routes. The gallery of components is only in Python's development mode."""

    def routes(handlers: Mapping[str, Handler], *methods: str) -> list[Route]:
        return [
            Route(path, page_endpoint(dispatcher, caller, handler), methods=[*methods])
            for path, handler in handlers.items()
        ]

    # With several orgs, only the operator may see the server's settings and files.
    visible = None if loaded and loaded.settings.requires_auth else loaded
    data_dir = visible.settings.data_dir if visible else None
    proxies = read_proxies(loaded.settings.trusted_proxies if loaded else "")
    find = partial(links.find_by_secret, proxies, FailedCredentials())
    action = f"{ACTION_PATH}/{{secret}}"
    snapshot = f"{SHARED_PATH}/{{snapshot}}"
    # The first match wins, so paths that end in `new` come before paths that end in an id.
    first: dict[str, Handler] = {
        f"{action}/{FEEDBACK_ACTION}": partial(links.link_page, LinkKind.FEEDBACK, find),
        f"{action}/{{decision}}": partial(links.link_page, LinkKind.REVIEW, find),
        "/plans/new": partial(work_actions.new_plan_page, data_dir),
        "/runs/new": work_actions.start_run_page,
    }
    more: dict[str, Handler] = {
        snapshot: partial(links.snapshot_page, find),
        f"{snapshot}/file": partial(links.snapshot_download, find),
        "/health": partial(operations.health_page, visible),
        "/live/waiting": live.pending_count,
    }
    if is_development:
        more["/gallery"] = operations.gallery_page
    return [
        *routes(first, "GET", "POST"),
        *routes({**PAGES, **more}, "GET"),
        *routes(FORMS, "GET", "POST"),
        *routes(ACTIONS, "POST"),
        Route("/live", live.live_endpoint(dispatcher, caller)),
        Route("/static/{version}/{name}", serve_asset),
    ]
