"""Pages that copy a plan or a run, with the results up to a step or the stages before one."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.request.caller import Answer
from waybook.plan.states import DONE_STEP
from waybook.run.copy import COPY_SUFFIX, MAX_NAME_LENGTH, earlier_stages
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm, error_message
from waybook.transport.http.dashboard.plans.plan_forms import is_number, refusal_status
from waybook.transport.http.dashboard.runs.run_stage_view import stage_name
from waybook.transport.http.html.forms import query_param, read_form


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Step or stage from which a copy can start again."""

    value: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyView:
    kind: str
    id: str
    original: str
    #: Typed name of the copy, and the value of the chosen start point.
    name: str
    chosen: str
    points: Sequence[StartPoint]
    #: Typed models, one per line; None for a plan.
    models: str | None = None
    error: str | None = None


def copy_name(name: str) -> str:
    """Return the default name of a copy."""
    return f"{name[: MAX_NAME_LENGTH - len(COPY_SUFFIX)]}{COPY_SUFFIX}"


@dataclass(frozen=True, slots=True)
class CopyPage(ABC):
    """Form that copies a plan or a run; a subclass adds the plan or the run."""

    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        """Render the form, or create the copy and redirect to it."""
        view = await self.view(request)
        if request.method != "POST":
            chosen = query_param(request, "from") or view.chosen
            return await self._render(request, replace(view, chosen=chosen))
        form = SubmittedForm(await read_form(request))
        models = None if view.models is None else form.text("models")
        view = replace(view, name=form.text("name"), chosen=form.text("from"), models=models)
        answer = await self.copy(request, view, form.text("key")[:64] or secrets.token_urlsafe(16))
        if answer.is_error:
            view = replace(view, error=error_message(answer))
            return await self._render(request, view, refusal_status(answer))
        path = f"/{view.kind}s/{answer.body[f'{view.kind}Id']}"
        return RedirectResponse(path, HTTPStatus.SEE_OTHER)

    async def _render(self, request: Request, view: CopyView, status: int = 200) -> Response:
        return await self.page_context.render_page(
            request, "copy", status_code=status, view=view, key=secrets.token_urlsafe(16)
        )

    @abstractmethod
    async def view(self, request: Request) -> CopyView:
        """Return the plan or run to copy, with the points from which the copy can start."""

    @abstractmethod
    async def copy(self, request: Request, view: CopyView, key: str) -> Answer:
        """Create the copy."""


class CopyPlanPage(CopyPage):
    __slots__ = ()

    async def view(self, request: Request) -> CopyView:
        """Return the plan; a copy can start after any finished step, or at the first step.

        Raises:
            NotFound: there is no such plan here.
        """
        ctx = await self.page_context.request_context(request)
        detail = await read_plan_detail(ctx, request.path_params["plan_id"], PlanInclude.NAMES)
        plan = detail.plan
        last = max((s.order for s in plan.steps if s.status in DONE_STEP), default=0)
        points = [
            StartPoint(str(step.order), f"step {step.order}, {detail.name_of(step)}")
            for step in plan.steps[: last + 1]
        ]
        return CopyView(
            kind="plan",
            id=plan.id,
            original=plan.name,
            name=copy_name(plan.name),
            chosen=points[-1].value if points else "1",
            points=points,
        )

    async def copy(self, request: Request, view: CopyView, key: str) -> Answer:
        """Create a plan that keeps the results of the steps before the chosen one."""
        order = int(view.chosen) if is_number(view.chosen) else 0
        arguments: dict[str, object] = {
            "copyOf": view.id,
            "upToStep": max(0, order - 1),
            "idempotencyKey": key,
        }
        if name := view.name.strip():
            arguments["name"] = name
        return await self.page_context.call_tool(request, "create_research_plan", arguments)


class CopyRunPage(CopyPage):
    __slots__ = ()

    async def view(self, request: Request) -> CopyView:
        """Return the run; a copy can start at a stage if all stages before it are complete.

        Raises:
            NotFound: there is no such run here.
        """
        ctx = await self.page_context.request_context(request)
        detail = await read_run_detail(ctx, request.path_params["run_id"], RunInclude.NOTHING)
        run, dag = detail.run, detail.compiled_dag
        ready = {slug for slug, stage in run.stages.items() if stage.feedback is not None}
        points = [
            StartPoint(slug, stage_name(dag, slug))
            for slug in dag.order
            if ready.issuperset(earlier_stages(dag, slug))
        ]
        started = [slug for slug in dag.order if slug in run.stages]
        return CopyView(
            kind="run",
            id=run.id,
            original=run.name,
            name=copy_name(run.name),
            chosen=points[-1].value,
            points=points,
            models="\n".join(run.stages[started[-1]].models),
        )

    async def copy(self, request: Request, view: CopyView, key: str) -> Answer:
        """Start a run that keeps the documents of the stages before the chosen one."""
        models = [model.strip() for model in (view.models or "").split("\n") if model.strip()]
        arguments: dict[str, object] = {
            "copyOf": view.id,
            "fromStage": view.chosen,
            "models": models,
            "idempotencyKey": key,
        }
        if name := view.name.strip():
            arguments["name"] = name
        return await self.page_context.call_tool(request, "start_run", arguments)
