"""Pages that ask for a reason and then cancel a plan or run."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.queries.plans.plan_list import resolve_plan
from waybook.app.queries.runs.run_list import resolve_run
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.dag.statuses import RunState
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm, error_message
from waybook.transport.http.dashboard.plans.plan_forms import modification_arguments, refusal_status
from waybook.transport.http.html.forms import read_form, safe_return_path


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelView:
    """The plan or run to cancel, and the reason that the user typed."""

    kind: str
    id: str
    name: str
    status: str
    is_open: bool
    revision: int | None = None
    reason: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CancelPage(ABC):
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        if request.method != "POST":
            return await self._page(request)
        form = SubmittedForm(await read_form(request))
        reason = _reason(form)
        if not reason:
            error = "Enter a reason. It is stored in the audit."
            return await self._page(request, error=error, status=HTTPStatus.BAD_REQUEST)
        tool, arguments = self.tool_call(request, form)
        answer = await self.page_context.call_tool(request, tool, arguments)
        if answer.is_error:
            status, error = refusal_status(answer), error_message(answer)
            return await self._page(request, reason=reason, error=error, status=status)
        back = safe_return_path(form.fields.get("back"), self.item_path(request))
        return RedirectResponse("/?done=cancel" if back == "/" else back, HTTPStatus.SEE_OTHER)

    async def _page(
        self, request: Request, *, reason: str = "", error: str | None = None, status: int = 200
    ) -> Response:
        view = await self.view(await self.page_context.request_context(request), request)
        return await self.page_context.render_page(
            request,
            "cancel",
            status_code=status,
            view=replace(view, reason=reason, error=error),
            back=safe_return_path(request.query_params.get("back"), self.item_path(request)),
            item=self.item_path(request),
        )

    def item_path(self, request: Request) -> str:
        return request.url.path.removesuffix("/cancel")

    @abstractmethod
    def tool_call(self, request: Request, form: SubmittedForm) -> tuple[str, dict[str, object]]: ...

    @abstractmethod
    async def view(self, ctx: RequestContext, request: Request) -> CancelView: ...


def _reason(form: SubmittedForm) -> str:
    return form.text("reason").strip()


class CancelPlanPage(CancelPage):
    __slots__ = ()

    def tool_call(self, request: Request, form: SubmittedForm) -> tuple[str, dict[str, object]]:
        modification: dict[str, object] = {"action": "cancel_plan", "reason": _reason(form)}
        plan_id = request.path_params["plan_id"]
        return "modify_plan", modification_arguments(plan_id, form.fields, modification)

    async def view(self, ctx: RequestContext, request: Request) -> CancelView:
        plan = await resolve_plan(ctx, id_or_nil(request.path_params["plan_id"]))
        return CancelView(
            kind="plan",
            id=plan.id,
            name=plan.name,
            status=plan.state,
            is_open=plan.is_open,
            revision=plan.revision,
        )


class CancelRunPage(CancelPage):
    __slots__ = ()

    def tool_call(self, request: Request, form: SubmittedForm) -> tuple[str, dict[str, object]]:
        return "cancel_run", {"runId": request.path_params["run_id"], "reason": _reason(form)}

    async def view(self, ctx: RequestContext, request: Request) -> CancelView:
        run = await resolve_run(ctx, id_or_nil(request.path_params["run_id"]))
        return CancelView(
            kind="run",
            id=run.id,
            name=run.name,
            status=run.state,
            is_open=run.state not in {RunState.COMPLETED, RunState.CANCELED},
        )
