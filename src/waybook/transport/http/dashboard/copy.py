"""Pages that copy a plan or run and keep the results before a chosen step or stage."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.queries.plans.forecast import steps_forecast
from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.runs.forecast import start_preview
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.request.caller import Answer
from waybook.core.forecast import Forecast
from waybook.plan.model import DONE_STEP
from waybook.run.copy import COPY_SUFFIX, MAX_NAME_LENGTH, earlier_stages
from waybook.run.model import MAX_MODELS
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm, error_message
from waybook.transport.http.dashboard.plans.plan_forms import is_number, refusal_status
from waybook.transport.http.dashboard.runs.run_stage_view import stage_name
from waybook.transport.http.html.forms import query_param, read_form


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Step or stage at which the work of a copy can start."""

    value: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyInput:
    """Submitted values of the form that copies a plan or run."""

    name: str | None = None
    chosen: str | None = None
    models: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPreview:
    """Work that is left to do in the copy, with a forecast."""

    work: str
    forecast: Forecast | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyView:
    kind: str
    id: str
    original: str
    name: str
    chosen: str
    points: Sequence[StartPoint]
    models: str | None = None
    preview: CopyPreview | None = None
    error: str | None = None


def copy_name(name: str) -> str:
    return f"{name[: MAX_NAME_LENGTH - len(COPY_SUFFIX)]}{COPY_SUFFIX}"


@dataclass(frozen=True, slots=True)
class CopyPage(ABC):
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        if request.method != "POST":
            typed = CopyInput(chosen=query_param(request, "from"))
            return await self._render(request, await self.view(request, typed))
        form = SubmittedForm(await read_form(request))
        typed = CopyInput(
            name=form.text("name"), chosen=form.text("from"), models=form.text("models")
        )
        view = await self.view(request, typed)
        if form.text("step") == "preview":
            return await self._render(request, view)
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
    async def view(self, request: Request, typed: CopyInput) -> CopyView:
        """Return the plan or run to copy, the possible starting points, and the work left to do."""

    @abstractmethod
    async def copy(self, request: Request, view: CopyView, key: str) -> Answer: ...


class CopyPlanPage(CopyPage):
    __slots__ = ()

    async def view(self, request: Request, typed: CopyInput) -> CopyView:
        ctx = await self.page_context.request_context(request)
        include = PlanInclude.NAMES | PlanInclude.FINISHED_STEPS
        detail = await read_plan_detail(ctx, request.path_params["plan_id"], include)
        plan = detail.plan
        last = max((s.order for s in plan.steps if s.status in DONE_STEP), default=0)
        points = [
            StartPoint(str(step.order), f"step {step.order}, {detail.name_of(step)}")
            for step in plan.steps[: last + 1]
        ]
        chosen = typed.chosen or (points[-1].value if points else "1")
        return CopyView(
            kind="plan",
            id=plan.id,
            original=plan.name,
            name=copy_name(plan.name) if typed.name is None else typed.name,
            chosen=chosen,
            points=points,
            preview=_plan_preview(detail, int(chosen)) if _is_point(chosen, points) else None,
        )

    async def copy(self, request: Request, view: CopyView, key: str) -> Answer:
        order = int(view.chosen) if is_number(view.chosen) else 0
        arguments: dict[str, object] = {
            "planId": view.id,
            "upToStep": max(0, order - 1),
            "idempotencyKey": key,
        }
        if name := view.name.strip():
            arguments["name"] = name
        return await self.page_context.call_tool(request, "copy_plan", arguments)


class CopyRunPage(CopyPage):
    __slots__ = ()

    async def view(self, request: Request, typed: CopyInput) -> CopyView:
        ctx = await self.page_context.request_context(request)
        run_id = request.path_params["run_id"]
        detail = await read_run_detail(ctx, run_id, RunInclude.FINISHED_RUNS)
        run, dag = detail.run, detail.compiled_dag
        ready = {slug for slug, stage in run.stages.items() if stage.feedback is not None}
        points = [
            StartPoint(slug, stage_name(dag, slug))
            for slug in dag.order
            if ready.issuperset(earlier_stages(dag, slug))
        ]
        started = [slug for slug in dag.order if slug in run.stages]
        models = "\n".join(run.stages[started[-1]].models) if typed.models is None else typed.models
        chosen = typed.chosen or points[-1].value
        named, preview = _models(models), None
        if 1 <= len(named) <= MAX_MODELS and _is_point(chosen, points):
            work = partial(_run_preview, detail, chosen, named)
            preview = await self.page_context.run_layout(request, dag.dag, work)
        return CopyView(
            kind="run",
            id=run.id,
            original=run.name,
            name=copy_name(run.name) if typed.name is None else typed.name,
            chosen=chosen,
            points=points,
            models=models,
            preview=preview,
        )

    async def copy(self, request: Request, view: CopyView, key: str) -> Answer:
        arguments: dict[str, object] = {
            "runId": view.id,
            "fromStage": view.chosen,
            "models": _models(view.models or ""),
            "idempotencyKey": key,
        }
        if name := view.name.strip():
            arguments["name"] = name
        return await self.page_context.call_tool(request, "copy_run", arguments)


def _models(text: str) -> list[str]:
    return [model.strip() for model in text.split("\n") if model.strip()]


def _is_point(chosen: str, points: Sequence[StartPoint]) -> bool:
    return any(point.value == chosen for point in points)


def _plan_preview(detail: PlanDetail, first: int) -> CopyPreview:
    steps = detail.plan.steps
    left = [step for step in steps if step.status not in DONE_STEP or step.order >= first]
    return CopyPreview(
        work=f"{len(left)} of {len(steps)} steps",
        forecast=steps_forecast(left, detail.finished_steps),
        reason="too few finished steps so far.",
    )


def _run_preview(detail: RunDetail, first: str, models: Sequence[str]) -> CopyPreview:
    stages = detail.run.stages
    earlier = earlier_stages(detail.compiled_dag, first)
    preview = start_preview(
        detail.compiled_dag,
        models,
        detail.finished_runs,
        first=first,
        copied_models={slug: stages[slug].models for slug in earlier},
    )
    jobs, runs = preview.total, preview.runs
    if jobs.known is None:
        reason = "the number of jobs is not known in advance."
    elif runs:
        reason = f"only {runs} completed run{'' if runs == 1 else 's'} of this workflow so far."
    else:
        reason = "no completed runs of this workflow yet."
    count = len(preview.stages)
    return CopyPreview(
        work=f"{jobs.jobs_text} in {count} stage{'' if count == 1 else 's'}",
        forecast=preview.forecast,
        reason=reason,
    )
