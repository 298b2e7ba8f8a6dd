"""Pages of a run's stages, steps, jobs and documents."""

from collections import Counter, defaultdict
from typing import Any, Final

from starlette.responses import Response

from waybook.app.context.job import read_job_context
from waybook.app.queries.comments import Subject
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.runs.run_work import (
    JOB_STATES,
    DocumentVersion,
    read_document_sheet,
    read_run_job,
    read_run_jobs,
    read_run_step,
)
from waybook.dag.model import FAILED_JOB, JobStatus, JobType
from waybook.run.model import step_id
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.dashboard.runs.run_page import run_timeline
from waybook.transport.http.dashboard.texts import compare_texts, document_html
from waybook.transport.http.html.layout import (
    from_segment,
    run_document_url,
    run_step_url,
)

#: Headings of the list of documents with which a document can be compared.
_RELATIONS: Final = ("Versions", "Other models", "Same lineage")
_DOCUMENTS_PER_PAGE: Final = 100
MAX_INPUTS_LISTED: Final = 50
_MAX_PAGE: Final = 99_999


def _page_number(page: PageRequest) -> int:
    return min(max(1, page.number("page") or 1), _MAX_PAGE)


def _page_count(items: int, per_page: int) -> int:
    return max(1, -(-items // per_page))


async def step_page(page: PageRequest) -> Response:
    stage, key = from_segment(page.path("stage")), from_segment(page.path("step_key"))
    ctx, run_id = await page.context(), page.path("run_id")
    detail, listed, documents = await read_run_step(ctx, run_id, stage, key, _page_number(page))
    run, graph = detail.run, detail.compiled_dag.graphs[stage]
    steps, path = detail.stage_report(stage)["steps"] or (), run_step_url(run.id, stage, key)
    return await page.render(
        "run_step",
        path=path,
        detail=detail,
        run=run,
        stage=stage,
        step=graph.steps[key],
        report=next((step for step in steps if step["stepKey"] == key), None),
        listed=listed,
        # The failed jobs that are not retried automatically.
        failed_jobs=[job for job in listed.jobs if JobStatus(job.status) in FAILED_JOB],
        graph=graph,
        documents=documents,
        opened=run.steps.get(step_id(stage, key)),
        page_url=lambda number: f"{path}?page={number}#jobs",
    )


async def job_page(page: PageRequest) -> Response:
    ctx = await page.context()
    detail, job, attempts, documents = await read_run_job(
        ctx, page.path("run_id"), page.path("job_id")
    )
    run, step = detail.run, detail.compiled_dag.graphs[job.stage].steps[job.step_key]
    is_rendering = job.job_type == JobType.RENDER
    return await page.render(
        "run_job",
        thread_of=Subject(run_id=run.id, job_id=job.id),
        path=f"/runs/{run.id}/jobs/{job.id}",
        detail=detail,
        run=run,
        job=job,
        name=step.name or step.key,
        attempts=attempts,
        documents=documents,
        is_failed=JobStatus(job.status) in FAILED_JOB,
        materials=None if is_rendering else await read_job_context(ctx, run.id, job.id),
        max_inputs=MAX_INPUTS_LISTED,
    )


async def jobs_page(page: PageRequest) -> Response:
    run_id, number = page.path("run_id"), _page_number(page)
    filters = {"stage": page.query("stage"), "model": page.query("model")}
    filters["state"] = page.query("state")
    detail, listed = await read_run_jobs(await page.context(), run_id, number, **filters)
    stages = detail.run.stages.values()
    return await page.render(
        "run_jobs",
        path=f"/runs/{detail.run.id}/jobs",
        detail=detail,
        listed=listed,
        timeline=run_timeline(detail),
        filters=filters,
        states=dict.fromkeys(("all", *JOB_STATES)),
        url_with=lambda **changed: page.url_with(page=None, **changed),
        models=sorted({model for stage in stages for model in stage.models}),
        page_url=lambda number: page.url_with(page=number),
    )


async def documents_page(page: PageRequest) -> Response:
    ctx, include = await page.context(), RunInclude.BRIEF | RunInclude.DOCUMENTS
    detail = await read_run_detail(ctx, page.path("run_id"), include)
    pages = _page_count(len(detail.documents), _DOCUMENTS_PER_PAGE)
    number = min(_page_number(page), pages)
    first = (number - 1) * _DOCUMENTS_PER_PAGE
    return await page.render(
        "run_documents",
        path=f"/runs/{detail.run.id}/documents",
        detail=detail,
        documents=detail.documents[first : first + _DOCUMENTS_PER_PAGE],
        listed={"page": number, "pages": pages},
        page_url=lambda number: page.url_with(page=number),
    )


async def document_page(page: PageRequest) -> Response:
    """Show a document, alone or next to another version or another model's document."""
    sheet = await read_document_sheet(
        await page.context(), page.path("run_id"), page.path("resource_id"), page.query("with")
    )
    run, about, text = sheet.detail.run, sheet.about, sheet.text
    # The largest documents take seconds to render, so the cost depends on the size.
    other = sheet.other_text.markdown if sheet.other_text else ""
    cost = (len(text.markdown) + len(other)) // 50
    content: dict[str, Any] = await page.run_costly(
        cost,
        lambda: {
            "html": document_html(text.markdown),
            "other_html": document_html(other) if sheet.other_text else None,
            "changes": compare_texts(other, text.markdown) if sheet.other_text else None,
        },
    )
    groups, names = defaultdict[str, list[DocumentVersion]](list), Counter[tuple[str, str, int]]()
    for item in sheet.related:
        relation = "Same lineage"
        if (item.stage, item.document_key) == (about.stage, about.document_key):
            this, that = ((i.step_key, i.model, i.lineage, i.reviewer) for i in (item, about))
            relation = "Versions" if this == that else "Other models"
        groups[relation].append(item)
        names[item.document_key, item.model, item.version] += 1
    graph = sheet.detail.compiled_dag.graphs[about.stage]
    return await page.render(
        "run_document",
        path=run_document_url(run.id, about.resource_id),
        detail=sheet.detail,
        run=run,
        about=about,
        newest=groups["Versions"][0],
        step_name=graph.steps[about.step_key].name or about.step_key,
        inputs=sheet.inputs,
        choices={name: [item for item in groups[name] if item != about] for name in _RELATIONS},
        names=names,
        other=sheet.other,
        omitted=text.length - len(text.markdown),
        **content,
    )
