"""Page that creates a plan from a template or a list of steps, after a preview."""

import asyncio
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starlette.responses import Response

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
from waybook.plan.model import MAX_STEPS
from waybook.transport.http.dashboard.page import PageRequest, error_message, error_status, redirect
from waybook.transport.http.responses import http_status

#: Text that begins like this is a list, diagram or JSON document that can be imported.
_MARKED: Final = re.compile(
    r"^\s*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6})\s|graph\b|flowchart\b|```|[\[{])", re.MULTILINE
)
#: Error messages of the importers mention command-line options, which do not apply to the page.
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
    r"""Return the text with every line as a list item. A list or a document stays unchanged.

    >>> as_list("Read\n\nWrite"), as_list("1. Read\n2. Write")
    ('- Read\n- Write', '1. Read\n2. Write')
    """
    if _MARKED.search(text):
        return text
    return "\n".join(f"- {line.strip()}" for line in text.splitlines() if line.strip())
