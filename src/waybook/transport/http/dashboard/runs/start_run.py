"""List of workflows, page of a workflow, and the page that starts a run of it."""

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

import orjson
from markupsafe import Markup
from starlette.responses import Response

from waybook.app.queries.forecast import (
    read_finished_runs,
    read_known_models,
    start_preview,
)
from waybook.app.queries.runs.workflows import (
    MODEL_COUNTS,
    documents_by_models,
    input_keys,
    list_workflows,
    read_workflow,
)
from waybook.app.request.layout_worker import DrawingJob, Links, layout_cost
from waybook.dag.diagram.model import diagram_from_structure, diagram_of_stage, diagram_of_stages
from waybook.dag.diagram.svg import Drawing
from waybook.dag.progress.structure import valid_structure
from waybook.errors import InvalidInput, NotFound
from waybook.json_values import Json
from waybook.run.model import MAX_JOBS, MAX_MODELS, CompiledDag
from waybook.transport.http.dashboard.page import (
    PageRequest,
    SubmittedForm,
    error_message,
    error_status,
    is_number,
    redirect,
)
from waybook.transport.http.dashboard.runs.run_page import reason_for_no_forecast

#: Maximum number of steps in a drawing.
_MAX_DRAWN_STEPS: Final = 500
STEPS_PER_PAGE: Final = 100
_FREE_INPUT: Final = "input"
_MAX_INPUT_FIELDS: Final = 20


async def workflow_list(page: PageRequest) -> Response:
    workflows = await list_workflows(await page.context())
    return await page.render("workflows", workflows=workflows)


async def workflow_page(page: PageRequest) -> Response:
    version = _number(page.query("version"))
    workflow = await read_workflow(await page.context(), page.path("slug"), version)
    dag, chosen = workflow.compiled_dag, page.query("stage")
    if chosen is not None and chosen not in dag.stages:
        raise NotFound(f"this workflow has no stage {chosen!r}")
    urls = {slug: page.url_with(stage=slug, page=None) for slug in dag.order}
    job = _map_job(dag, chosen, urls)
    steps = {slug: stage.recipe.steps for slug, stage in dag.stages.items()}
    previous = following = None
    if chosen is not None:
        last = max(1, -(-len(steps[chosen]) // STEPS_PER_PAGE))
        number = min(max(_number(page.query("page")) or 1, 1), last)
        first = (number - 1) * STEPS_PER_PAGE
        steps = {chosen: steps[chosen][first : first + STEPS_PER_PAGE]}
        previous = page.url_with(page=number - 1) if number > 1 else None
        following = page.url_with(page=number + 1) if number < last else None
    elif sum(map(len, steps.values())) > _MAX_DRAWN_STEPS:
        steps = {}
    expected = await page.run_costly(layout_cost(dag.dag), partial(documents_by_models, dag))
    return await page.render(
        "workflow",
        workflow=workflow,
        chart=dag,
        stage_urls=urls,
        steps=steps,
        chosen=chosen,
        previous=previous,
        next=following,
        all_stages_url=page.url_with(stage=None, page=None) if chosen is not None else None,
        drawn=Markup(await page.picture(job)) if job else None,  # noqa: S704
        counts=MODEL_COUNTS,
        expected=expected,
    )


def _map_job(dag: CompiledDag, chosen: str | None, urls: Mapping[str, str]) -> DrawingJob | None:
    """Return the drawing of the chosen stage, or None if the stage has too many steps.

    Without a chosen stage, draw all steps or, if there are too many steps, only the stages.
    """
    structure = valid_structure(dag.dag, dag.graphs)
    counts = {slug: len(stage.recipe.steps) for slug, stage in dag.stages.items()}
    if chosen is not None:
        drawing = Drawing(diagram_of_stage(structure, chosen))
        return DrawingJob(drawing) if counts[chosen] <= _MAX_DRAWN_STEPS else None
    if sum(counts.values()) > _MAX_DRAWN_STEPS:
        links = Links(by_step=tuple((("", slug), url) for slug, url in urls.items()))
        return DrawingJob(Drawing(diagram_of_stages(structure)), links=links)
    links = Links(by_stage=tuple((s, f"#stage-{place}") for place, s in enumerate(dag.order, 1)))
    return DrawingJob(Drawing(diagram_from_structure(structure)), links=links)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not is_number(text):
        raise InvalidInput("version must be a number")
    return int(text)


async def start_run_page(page: PageRequest) -> Response:
    """Show a form, then a confirmation with a forecast; then start the run."""
    slug = page.query("dag")
    if slug is None:
        return await workflow_list(page)
    ctx = await page.context()
    dag = (await read_workflow(ctx, slug)).compiled_dag
    keys = input_keys(dag)[:_MAX_INPUT_FIELDS] or (_FREE_INPUT,)
    name, models, inputs = "", list[str](), dict.fromkeys(keys, "")
    preview, error, status = None, None, 200
    if page.is_post:
        form = await page.form()
        name, models = form.text("name"), _submitted_models(form)
        inputs = {key: form.text(f"input:{key}") for key in keys}
        error = _fault(name, models, inputs)
        status = HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK
        step = form.text("step")
        if not error and step == "start":
            arguments = {
                "dagSlug": dag.dag.slug,
                "name": name.strip(),
                "models": models,
                "input": _run_input(inputs),
                "idempotencyKey": form.text("key")[:64] or secrets.token_urlsafe(16),
            }
            answer = await page.call_tool("start_run", arguments)
            if not answer.is_error:
                return redirect(f"/runs/{answer.body['runId']}")
            error, status = error_message(answer), error_status(answer)
        elif not error and step != "edit":
            history = await read_finished_runs(ctx, dag.dag.slug)
            count = partial(start_preview, dag, models, history)
            preview = await page.run_costly(layout_cost(dag.dag), count)
            if stage := preview.too_large:
                error, status, preview = _too_large(dag, stage, preview.stages[stage]), 400, None
    known = await read_known_models(ctx)
    return await page.render(
        "start_run",
        status=status,
        compiled_dag=dag,
        name=name,
        models=models,
        inputs=inputs,
        known_models=known,
        other_models=[model for model in models if model not in known],
        max_models=MAX_MODELS,
        max_jobs=MAX_JOBS,
        error=error,
        preview=preview,
        no_forecast_reason=reason_for_no_forecast(preview) if preview else "",
        # With this key, submitting the form twice starts only one run.
        key=secrets.token_urlsafe(16),
    )


def _submitted_models(form: SubmittedForm) -> list[str]:
    checked = [str(value) for value in form.fields.getlist("model")]
    listed = form.text("models").split("\n")
    return [*dict.fromkeys(filter(None, (model.strip() for model in (*checked, *listed))))]


def _fault(name: str, models: Sequence[str], inputs: Mapping[str, str]) -> str | None:
    if not name.strip():
        return "Enter a name for the run."
    if not models:
        return "Choose or enter at least one model."
    if len(models) > MAX_MODELS:
        return f"{len(models)} models are named, and a run takes at most {MAX_MODELS}."
    if not any(text.strip() for text in inputs.values()):
        return "Enter the input: what the run is about."
    return None


def _run_input(inputs: Mapping[str, str]) -> Json:
    filled = {key: text for key, text in inputs.items() if text.strip()}
    if len(filled) != 1:
        return dict(filled)
    (text,) = filled.values()
    if _FREE_INPUT in filled and text.lstrip().startswith("{"):
        try:
            value: Json = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
        return value
    return text


def _too_large(dag: CompiledDag, slug: str, jobs: object) -> str:
    return (
        f"The stage {dag.stage_name(slug)} would have {jobs} jobs "
        f"with these models, and a stage may have at most {MAX_JOBS:,}. Use fewer models."
    )
