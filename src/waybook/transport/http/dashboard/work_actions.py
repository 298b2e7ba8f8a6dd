"""Pages that create a plan, and pages that copy or cancel a plan or run."""

import asyncio
import re
import secrets
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeAlias

from starlette.responses import Response

from waybook.app.queries.forecast import start_preview, steps_forecast
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.work_list import resolve_plan, resolve_run
from waybook.app.request.layout_worker import layout_cost
from waybook.core.ids import id_or_nil
from waybook.dag.model import RunState
from waybook.errors import InvalidInput, WaybookError
from waybook.importers.formats import decode, read_plan
from waybook.importers.steps import plan_arguments
from waybook.importers.templates import (
    PlanTemplate,
    builtin_templates,
    fill_template,
    find_template,
    templates_in,
)
from waybook.json_values import Body
from waybook.plan.model import DONE_STEP, MAX_STEPS
from waybook.run.copy import COPY_SUFFIX, MAX_NAME_LENGTH, earlier_stages
from waybook.run.model import MAX_MODELS
from waybook.transport.http.dashboard.page import (
    PageRequest,
    error_message,
    error_status,
    is_number,
    redirect,
)
from waybook.transport.http.dashboard.plans.plan_page import modification_arguments
from waybook.transport.http.dashboard.runs.run_page import reason_for_no_forecast
from waybook.transport.http.request_checks import safe_return_path
from waybook.transport.http.responses import http_status


async def cancel_page(kind: str, page: PageRequest) -> Response:
    """Ask for a reason, then cancel the plan or run."""
    work_id, item = page.path(f"{kind}_id"), page.request.url.path.removesuffix("/cancel")
    reason, error, status = "", None, 200
    if page.is_post:
        form = await page.form()
        reason = form.text("reason").strip()
        if reason:
            if kind == "plan":
                modification = {"action": "cancel_plan", "reason": reason}
                arguments = modification_arguments(work_id, form.fields, modification)
                answer = await page.call_tool("modify_plan", arguments)
            else:
                arguments = {"runId": work_id, "reason": reason}
                answer = await page.call_tool("cancel_run", arguments)
            if not answer.is_error:
                back = safe_return_path(form.fields.get("back"), item)
                return redirect("/?done=cancel" if back == "/" else back)
            error, status = error_message(answer), error_status(answer)
        else:
            error, status = "Enter a reason. It is stored in the audit.", HTTPStatus.BAD_REQUEST
    ctx, revision = await page.context(), None
    if kind == "plan":
        plan = await resolve_plan(ctx, id_or_nil(work_id))
        name, state, is_open, revision = plan.name, str(plan.state), plan.is_open, plan.revision
    else:
        run = await resolve_run(ctx, id_or_nil(work_id))
        name, state = run.name, str(run.state)
        is_open = run.state not in {RunState.COMPLETED, RunState.CANCELED}
    return await page.render(
        "cancel",
        status=status,
        kind=kind,
        name=name,
        state=state,
        is_open=is_open,
        revision=revision,
        reason=reason,
        error=error,
        back=safe_return_path(page.request.query_params.get("back"), item),
        item=item,
    )


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
        key = form.text("key")[:64] or secrets.token_urlsafe(16)
        arguments = {f"{kind}Id": source["id"], **source["arguments"], "idempotencyKey": key}
        if name.strip():
            arguments["name"] = name.strip()
        answer = await page.call_tool(f"copy_{kind}", arguments)
        if not answer.is_error:
            return redirect(f"/{kind}s/{answer.body[f'{kind}Id']}")
        error, status = error_message(answer), error_status(answer)
    return await page.render(
        "copy",
        status=status,
        kind=kind,
        source=source,
        name=name,
        error=error,
        key=secrets.token_urlsafe(16),
    )


#: Template values of the plan or run to copy. `points` has the name of each step or stage at which
#: the copy can start. `arguments` has the arguments of the tool. `work` describes the remaining
#: work of the copy; None means that the submitted values are not valid.
Source: TypeAlias = dict[str, Any]


async def _plan_source(page: PageRequest, chosen: str | None, _: str | None) -> Source:
    include = PlanInclude.NAMES | PlanInclude.FINISHED_STEPS
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
        "forecast": steps_forecast(left, detail.finished_steps),
        "no_forecast_reason": "too few finished steps so far.",
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
        "no_forecast_reason": reason_for_no_forecast(preview),
    }


#: Beginning of a list, diagram or JSON document, which an importer reads.
_MARKED: Final = re.compile(
    r"^\s*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6})\s|graph\b|flowchart\b|```|[\[{])", re.MULTILINE
)
#: Command-line options in error messages of the importers. The page leaves them out.
_OPTION: Final = re.compile(r"; (?:--all imports done tasks too|name its --format)")


async def new_plan_page(data_dir: Path | None, page: PageRequest) -> Response:
    """Show the form, a preview of the plan, or the plan that was created.

    `data_dir` has the saved templates. A server with several orgs has none, because orgs must not
    share templates.
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
            key = form.text("key")[:64] or secrets.token_urlsafe(16)
            arguments = {**preview, "idempotencyKey": key}
            answer = await page.call_tool("create_research_plan", arguments)
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
        # With this key, submitting the form twice creates only one plan.
        key=secrets.token_urlsafe(16),
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
