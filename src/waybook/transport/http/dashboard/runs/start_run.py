"""Page that starts a run of a workflow: a form, then a confirmation with a forecast."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.queries.runs.forecast import (
    StartPreview,
    read_finished_runs,
    read_known_models,
    start_preview,
)
from waybook.app.queries.runs.workflows import input_keys, list_workflows, read_workflow
from waybook.json_values import Json
from waybook.run.model import MAX_JOBS, MAX_MODELS, CompiledDag
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm, error_message
from waybook.transport.http.dashboard.plans.plan_forms import refusal_status
from waybook.transport.http.dashboard.runs.run_stage_view import stage_name
from waybook.transport.http.html.forms import query_param, read_form

FREE_INPUT: Final = "input"
MAX_INPUT_FIELDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForm:
    name: str = ""
    models: tuple[str, ...] = ()
    inputs: Mapping[str, str]

    @property
    def fault(self) -> str | None:
        if not self.name.strip():
            return "Enter a name for the run."
        if not self.models:
            return "Choose or enter at least one model."
        if len(self.models) > MAX_MODELS:
            return f"{len(self.models)} models are named, and a run takes at most {MAX_MODELS}."
        if not any(text.strip() for text in self.inputs.values()):
            return "Enter the input: what the run is about."
        return None

    @property
    def run_input(self) -> Json:
        filled = {key: text for key, text in self.inputs.items() if text.strip()}
        if len(filled) != 1:
            return dict(filled)
        (text,) = filled.values()
        return _json_or_text(text) if FREE_INPUT in filled else text


def _json_or_text(text: str) -> Json:
    if not text.lstrip().startswith("{"):
        return text
    try:
        value: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value


def run_form(form: SubmittedForm, keys: Sequence[str]) -> RunForm:
    checked = [str(value) for value in form.fields.getlist("model")]
    listed = form.text("models").split("\n")
    models = dict.fromkeys(filter(None, (model.strip() for model in (*checked, *listed))))
    return RunForm(
        name=form.text("name"),
        models=tuple(models),
        inputs={key: form.text(f"input:{key}") for key in keys},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRunView:
    compiled_dag: CompiledDag
    form: RunForm
    known_models: Sequence[str]
    max_models: int = MAX_MODELS
    max_jobs: int = MAX_JOBS
    error: str | None = None
    #: Expected jobs and forecast for the user to confirm. Empty before the confirmation.
    preview: StartPreview | None = None

    @property
    def other_models(self) -> list[str]:
        return [model for model in self.form.models if model not in self.known_models]


@dataclass(frozen=True, slots=True)
class StartRunPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        slug = query_param(request, "dag")
        ctx = await self.page_context.request_context(request)
        if slug is None:
            return await self.page_context.render_page(
                request, "workflows", workflows=await list_workflows(ctx), named=stage_name
            )
        compiled_dag = (await read_workflow(ctx, slug)).compiled_dag
        keys = input_keys(compiled_dag)[:MAX_INPUT_FIELDS] or (FREE_INPUT,)
        view = StartRunView(
            compiled_dag=compiled_dag,
            form=RunForm(inputs=dict.fromkeys(keys, "")),
            known_models=await read_known_models(ctx),
        )
        if request.method != "POST":
            return await self._render(request, view)
        form = SubmittedForm(await read_form(request))
        view = replace(view, form=run_form(form, keys))
        if fault := view.form.fault:
            return await self._render(request, replace(view, error=fault), HTTPStatus.BAD_REQUEST)
        match form.text("step"):
            case "start":
                return await self._start(request, view, form.text("key"))
            case "edit":
                return await self._render(request, view)
        return await self._confirm(request, view)

    async def _confirm(self, request: Request, view: StartRunView) -> Response:
        ctx, compiled_dag = await self.page_context.request_context(request), view.compiled_dag
        history = await read_finished_runs(ctx, compiled_dag.dag.slug)
        count = partial(start_preview, compiled_dag, view.form.models, history)
        preview = await self.page_context.run_layout(request, compiled_dag.dag, count)
        if stage := preview.too_large:
            error = (
                f"The stage {stage_name(compiled_dag, stage)} would have {preview.stages[stage]} "
                f"jobs with these models, and a stage may have at most {MAX_JOBS:,}. Use fewer "
                "models."
            )
            return await self._render(request, replace(view, error=error), HTTPStatus.BAD_REQUEST)
        return await self._render(request, replace(view, preview=preview))

    async def _start(self, request: Request, view: StartRunView, key: str) -> Response:
        form = view.form
        answer = await self.page_context.call_tool(
            request,
            "start_run",
            {
                "dagSlug": view.compiled_dag.dag.slug,
                "name": form.name.strip(),
                "models": [*form.models],
                "input": form.run_input,
                "idempotencyKey": key[:64] or secrets.token_urlsafe(16),
            },
        )
        if answer.is_error:
            view = replace(view, error=error_message(answer))
            return await self._render(request, view, refusal_status(answer))
        return RedirectResponse(f"/runs/{answer.body['runId']}", HTTPStatus.SEE_OTHER)

    async def _render(self, request: Request, view: StartRunView, status: int = 200) -> Response:
        return await self.page_context.render_page(
            request,
            "start_run",
            status_code=status,
            view=view,
            named=stage_name,
            # With this key, submitting the form twice starts only one run.
            key=secrets.token_urlsafe(16),
        )
