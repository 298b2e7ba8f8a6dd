"""Pages that show workflows, start a run, create a plan, and copy or cancel a plan or run."""

import asyncio
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
from markupsafe import Markup
from starlette.responses import Response

from waybook.app.queries.forecast import (
    read_finished_runs,
    read_known_models,
    start_preview,
    steps_forecast,
)
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.runs.workflows import (
    MODEL_COUNTS,
    documents_by_models,
    input_keys,
    list_workflows,
    read_workflow,
)
from waybook.app.queries.work_list import resolve_plan, resolve_run
from waybook.app.request.caller import Answer
from waybook.app.request.layout_worker import DrawingJob, Links, layout_cost
from waybook.core.actions import action
from waybook.core.ids import id_or_nil
from waybook.dag.diagram.model import diagram_from_structure, diagram_of_stage, diagram_of_stages
from waybook.dag.diagram.svg import Drawing
from waybook.dag.progress.structure import valid_structure
from waybook.errors import InvalidInput, NotFound, WaybookError
from waybook.importers.formats import decode, read_plan
from waybook.importers.steps import plan_arguments
from waybook.importers.templates import (
    PlanTemplate,
    builtin_templates,
    fill_template,
    find_template,
    templates_in,
)
from waybook.json_values import Body, Json
from waybook.plan.model import DONE_STEP, MAX_STEPS
from waybook.run.copy import COPY_SUFFIX, MAX_NAME_LENGTH, earlier_stages
from waybook.run.model import MAX_JOBS, MAX_MODELS, CompiledDag
from waybook.transport.http.dashboard.page import (
    PageRequest,
    SubmittedForm,
    error_message,
    error_status,
    is_number,
    redirect,
)
from waybook.transport.http.dashboard.plans.plan_page import seen_revision
from waybook.transport.http.html.layout import safe_return_path
from waybook.transport.http.responses import http_status


async def cancel_page(kind: str, page: PageRequest) -> Response:
    """Ask for a reason, then cancel the plan or run."""
    work_id, item = page.path(f"{kind}_id"), page.request.url.path.removesuffix("/cancel")
    reason, error, status = "", None, 200
    if page.is_post:
        form = await page.form()
        reason = form.text("reason").strip()
        if reason:
            tool, arguments = action(kind, "cancel").call(work_id, reason=reason)
            if kind == "plan":
                arguments |= seen_revision(form.fields)
            answer = await page.call_tool(tool, arguments)
            if not answer.is_error:
                back = safe_return_path(form.fields.get("back"), item)
                return redirect("/?done=cancel" if back == "/" else back)
            error, status = error_message(answer), error_status(answer)
        else:
            error, status = "Enter a reason. It is stored in the audit.", HTTPStatus.BAD_REQUEST
    resolve = resolve_plan if kind == "plan" else resolve_run
    return await page.render(
        "cancel",
        status=status,
        kind=kind,
        work=await resolve(await page.context(), id_or_nil(work_id)),
        reason=reason,
        error=error,
        back=safe_return_path(page.request.query_params.get("back"), item),
        item=item,
    )


async def _create(
    page: PageRequest, form: SubmittedForm, tool: str, arguments: Mapping[str, object]
) -> Answer:
    """Create a plan or run, but only once if the same form is submitted twice."""
    key = form.text("key")[:64] or secrets.token_urlsafe(16)
    return await page.call_tool(tool, {**arguments, "idempotencyKey": key})


async def copy_page(kind: str, page: PageRequest) -> Response:
    """Copy a plan or run, and keep the results before a chosen step or stage."""
    form = await page.form() if page.is_post else None
    chosen = form.text("from") if form else page.query("from")
    read = _plan_source if kind == "plan" else _run_source
    source = await read(page, chosen, form.text("models") if form else None)
    original = source["name"][: MAX_NAME_LENGTH - len(COPY_SUFFIX)]
    name = form.text("name") if form else f"{original}{COPY_SUFFIX}"
    error, status = None, 200
    if form and form.text("step") != "preview":
        arguments = {f"{kind}Id": source["id"], **source["arguments"]}
        if name.strip():
            arguments["name"] = name.strip()
        answer = await _create(page, form, f"copy_{kind}", arguments)
        if not answer.is_error:
            return redirect(f"/{kind}s/{answer.body[f'{kind}Id']}")
        error, status = error_message(answer), error_status(answer)
    return await page.render(
        "copy", status=status, kind=kind, source=source, name=name, error=error
    )


#: Template values of the plan or run to copy. `points` has the name of each step or stage at which
#: the copy can start. `arguments` has the arguments of the tool. `work` describes the remaining
#: work of the copy; None means that the submitted values are not valid.
Source: TypeAlias = dict[str, Any]


async def _plan_source(page: PageRequest, chosen: str | None, _: str | None) -> Source:
    include = PlanInclude.NAMES | PlanInclude.FINISHED_PLANS
    detail = await read_plan_detail(await page.context(), page.path("plan_id"), include)
    plan, steps = detail.plan, detail.plan.steps
    last = max((step.order for step in steps if step.status in DONE_STEP), default=0)
    points = {
        str(step.order): f"step {step.order}, {detail.name_of(step)}" for step in steps[: last + 1]
    }
    chosen = chosen or next(reversed(points), "1")
    first = int(chosen) if is_number(chosen) else 0
    left = [step for step in steps if step.status not in DONE_STEP or step.order >= first]
    return {
        "id": plan.id,
        "name": plan.name,
        "points": points,
        "chosen": chosen,
        "arguments": {"upToStep": max(0, first - 1)},
        "models": None,
        "work": f"{len(left)} of {len(steps)} steps" if chosen in points else None,
        "forecast": steps_forecast(len(left), detail.finished_plans),
    }


async def _run_source(page: PageRequest, chosen: str | None, models: str | None) -> Source:
    ctx, include = await page.context(), RunInclude.FINISHED_RUNS
    detail = await read_run_detail(ctx, page.path("run_id"), include)
    run, dag = detail.run, detail.compiled_dag
    ready = {slug for slug, stage in run.stages.items() if stage.feedback is not None}
    points = {
        slug: dag.stage_name(slug)
        for slug in dag.order
        if ready.issuperset(earlier_stages(dag, slug))
    }
    if models is None:
        started = [slug for slug in dag.order if slug in run.stages]
        models = "\n".join(run.stages[started[-1]].models)
    first = chosen or next(reversed(points))
    named = [model.strip() for model in models.split("\n") if model.strip()]
    source = {
        "id": run.id,
        "name": run.name,
        "points": points,
        "chosen": first,
        "arguments": {"fromStage": first, "models": named},
        "models": models,
        "work": None,
    }
    if not 1 <= len(named) <= MAX_MODELS or first not in points:
        return source
    copied = {slug: run.stages[slug].models for slug in earlier_stages(dag, first)}
    count = partial(start_preview, dag, named, detail.finished_runs, first=first)
    preview = await page.run_costly(layout_cost(dag.dag), partial(count, copied_models=copied))
    stages = len(preview.stages)
    return {
        **source,
        "work": f"{preview.total.jobs_text} in {stages} stage{'' if stages == 1 else 's'}",
        "forecast": preview.forecast,
    }


#: Matches the beginning of a list, diagram or JSON document, which an importer can read.
_MARKED: Final = re.compile(
    r"^\s*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6})\s|graph\b|flowchart\b|```|[\[{])", re.MULTILINE
)
#: Command-line options in error messages of the importers. The page leaves them out.
_OPTION: Final = re.compile(r"; (?:--all imports done tasks too|name its --format)")


async def new_plan_page(data_dir: Path | None, page: PageRequest) -> Response:
    """Show the form, a preview of the plan, or the plan that was created.

    `data_dir` has the saved templates. A server with several orgs offers no templates, because orgs
    must not share them.
    """
    await page.context()
    templates = builtin_templates()
    if data_dir:
        saved = await asyncio.to_thread(templates_in, data_dir / "templates")
        templates = dict(sorted({**templates, **saved}.items()))
    name = page.query("template")
    template = find_template(name, templates) if name else None
    parameters = template.parameters if template else ()
    typed = dict.fromkeys(("name", "goal", "steps", "sequential"), "")
    values = {parameter.name: parameter.default or "" for parameter in parameters}
    preview: Body | None = None
    error, status = None, 200
    if page.is_post:
        form = await page.form()
        typed = {field: form.text(field) for field in typed}
        values = {name: form.text(f"parameter:{name}") for name in values}
        try:
            preview = _arguments(template, typed, values)
        except WaybookError as refused:
            error, status = refused.message, http_status(refused.code)
        step = form.text("step")
        if preview and step == "create":
            answer = await _create(page, form, "create_research_plan", preview)
            if not answer.is_error:
                return redirect(f"/plans/{answer.body['planId']}")
            error, status = error_message(answer), error_status(answer)
        if step in {"create", "edit"}:
            preview = None
    return await page.render(
        "new_plan",
        status=status,
        templates=[*templates],
        template=template,
        typed=typed,
        parameter_values=values,
        max_steps=MAX_STEPS,
        error=error,
        preview=preview,
    )


def _arguments(
    template: PlanTemplate | None, typed: Mapping[str, str], values: Mapping[str, str]
) -> Body:
    """Return the arguments of `create_research_plan` for the submitted form."""
    if template is not None:
        missing = [name for name, value in values.items() if not value.strip()]
        if missing:
            raise InvalidInput(f"Enter a value for: {', '.join(missing)}.")
        return fill_template(template, values)
    if not typed["steps"].strip():
        raise InvalidInput("Enter the steps, one per line.")
    text = decode(as_list(typed["steps"]).encode(errors="replace"))
    try:
        arguments = plan_arguments(read_plan(text))
    except InvalidInput as error:
        raise InvalidInput(f"Steps: {_OPTION.sub('', error.message)}") from error
    entered: Body = {
        "name": typed["name"].strip(),
        "researchQuestion": typed["goal"].strip(),
        "sequential": bool(typed["sequential"]),
    }
    return {**arguments, **{name: value for name, value in entered.items() if value}}


def as_list(text: str) -> str:
    r"""Return plain lines as a Markdown list. A list, diagram or document stays unchanged.

    >>> as_list("Read\n\nWrite"), as_list("1. Read\n2. Write")
    ('- Read\n- Write', '1. Read\n2. Write')
    """
    if _MARKED.search(text):
        return text
    return "\n".join(f"- {line.strip()}" for line in text.splitlines() if line.strip())


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
        listed = (*map(str, form.fields.getlist("model")), *form.text("models").split("\n"))
        models = [*dict.fromkeys(filter(None, (model.strip() for model in listed)))]
        name = form.text("name")
        inputs = {key: form.text(f"input:{key}") for key in keys}
        error = _fault(name, models, inputs)
        status = HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK
        step = form.text("step")
        if not error and step == "start":
            named = {"dagSlug": dag.dag.slug, "name": name.strip(), "models": models}
            answer = await _create(page, form, "start_run", {**named, "input": _run_input(inputs)})
            if not answer.is_error:
                return redirect(f"/runs/{answer.body['runId']}")
            error, status = error_message(answer), error_status(answer)
        elif not error and step != "edit":
            history = await read_finished_runs(ctx, dag.dag.slug)
            count = partial(start_preview, dag, models, history)
            preview = await page.run_costly(layout_cost(dag.dag), count)
            if stage := preview.too_large:
                too_many = f"{dag.stage_name(stage)} would have {preview.stages[stage]} jobs"
                error = (
                    f"The stage {too_many} with these models, and a stage may have at most "
                    f"{MAX_JOBS:,}. Use fewer models."
                )
                status, preview = HTTPStatus.BAD_REQUEST, None
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
    )


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
        with suppress(orjson.JSONDecodeError):
            value: Json = orjson.loads(text)
            return value
    return text
