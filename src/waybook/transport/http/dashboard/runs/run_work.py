"""Pages of a run's stages, steps, jobs and documents."""

import secrets
from dataclasses import dataclass
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from waybook.app.context.job import read_job_materials
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.runs.run_work import (
    JOB_STATES,
    JobFilter,
    read_run_job,
    read_run_jobs,
    read_run_step,
)
from waybook.dag.model import JobType
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.runs.run_stage_view import stage_name, stage_view
from waybook.transport.http.dashboard.runs.run_timeline import run_timeline
from waybook.transport.http.dashboard.runs.run_view import CONFIRMATIONS, documents_view
from waybook.transport.http.dashboard.runs.run_work_view import run_job_view, run_step_view
from waybook.transport.http.html.forms import current_url_with, query_param
from waybook.transport.http.html.run_urls import from_segment, run_stage_url, run_step_url

STEPS_PER_PAGE = 60


def page_number(request: Request, name: str = "page") -> int:
    text = request.query_params.get(name, "")
    # A page number has at most five digits.
    return max(1, int(text[:5])) if text.isascii() and text.isdecimal() else 1


def _numbered(path: str, number: int) -> str:
    return f"{path}?page={number}#jobs"


@dataclass(frozen=True, slots=True)
class RunStepPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        named = request.path_params
        ctx = await self.page_context.request_context(request)
        stage, key = from_segment(named["stage"]), from_segment(named["step_key"])
        sheet = await read_run_step(ctx, named["run_id"], stage, key, page_number(request))
        path = run_step_url(sheet.detail.run.id, stage, key)
        return await self.page_context.render_page(
            request,
            "run_step",
            path=path,
            view=run_step_view(sheet, partial(_numbered, path)),
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            key=secrets.token_urlsafe(16),
        )


@dataclass(frozen=True, slots=True)
class RunJobPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        named = request.path_params
        ctx = await self.page_context.request_context(request)
        sheet = await read_run_job(ctx, named["run_id"], named["job_id"])
        run, job = sheet.detail.run, sheet.job
        is_rendering = job.job_type == JobType.RENDER
        materials = None if is_rendering else await read_job_materials(ctx, run.id, job.id)
        return await self.page_context.render_page(
            request,
            "run_job",
            path=f"/runs/{run.id}/jobs/{job.id}",
            view=run_job_view(sheet, materials),
            run=run,
            job=job,
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            key=secrets.token_urlsafe(16),
        )


@dataclass(frozen=True, slots=True)
class RunStagePage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        ctx = await self.page_context.request_context(request)
        include = RunInclude.DOCUMENTS | RunInclude.JOB_COUNTS | RunInclude.FAILURES
        detail = await read_run_detail(ctx, request.path_params["run_id"], include)
        slug = from_segment(request.path_params["stage"])
        if slug not in detail.compiled_dag.stages:
            raise HTTPException(404)
        number, path = page_number(request), run_stage_url(detail.run.id, slug)
        stage = stage_view(detail, slug, number, STEPS_PER_PAGE)
        return await self.page_context.render_page(
            request,
            "run_stage",
            path=path,
            detail=detail,
            stage=stage,
            page=number,
            pages=max(1, -(-stage.total // STEPS_PER_PAGE)),
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            key=secrets.token_urlsafe(16),
        )


@dataclass(frozen=True, slots=True)
class RunJobsPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        ctx = await self.page_context.request_context(request)
        state = query_param(request, "state")
        filter_ = JobFilter(
            stage=query_param(request, "stage"),
            model=query_param(request, "model"),
            state=state if state in JOB_STATES else None,
            page=page_number(request),
        )
        detail, listed = await read_run_jobs(ctx, request.path_params["run_id"], filter_)
        run, dag = detail.run, detail.compiled_dag
        return await self.page_context.render_page(
            request,
            "run_jobs",
            path=f"/runs/{run.id}/jobs",
            detail=detail,
            listed=listed,
            timeline=run_timeline(detail),
            filters=filter_,
            states=tuple(JOB_STATES),
            stages=[(slug, stage_name(dag, slug)) for slug in dag.order if slug in run.stages],
            models=sorted({model for stage in run.stages.values() for model in stage.models}),
            page_url=partial(_other_page, request),
        )


def _other_page(request: Request, number: int) -> str:
    return current_url_with(request, page=number)


@dataclass(frozen=True, slots=True)
class RunDocumentsPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        ctx = await self.page_context.request_context(request)
        run_id = request.path_params["run_id"]
        detail = await read_run_detail(ctx, run_id, RunInclude.DOCUMENTS)
        path = f"/runs/{detail.run.id}/documents"
        return await self.page_context.render_page(
            request,
            "run_documents",
            path=path,
            view=documents_view(detail, page_number(request)),
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            key=secrets.token_urlsafe(16),
        )
