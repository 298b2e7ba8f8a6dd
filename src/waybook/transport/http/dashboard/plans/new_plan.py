"""Page that creates a plan from a template or a list of steps, after a preview."""

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.errors import InvalidInput, WaybookError
from waybook.importers.formats import decode, read_plan
from waybook.importers.steps import plan_arguments
from waybook.importers.templates import (
    Parameter,
    PlanTemplate,
    builtin_templates,
    fill_template,
    find_template,
    templates_in,
)
from waybook.json_values import Body
from waybook.plan.model import MAX_STEPS
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm, error_message
from waybook.transport.http.dashboard.plans.plan_forms import refusal_status
from waybook.transport.http.html.forms import query_param, read_form
from waybook.transport.http.responses import http_status

#: Text that begins like this is a list, diagram or JSON document that can be imported.
_MARKED: Final = re.compile(
    r"^\s*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6})\s|graph\b|flowchart\b|```|[\[{])", re.MULTILINE
)
#: Error messages of the importers mention command-line options, which do not apply to the page.
_OPTION: Final = re.compile(r"; (?:--all imports done tasks too|name its --format)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanForm:
    name: str = ""
    goal: str = ""
    steps: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, template: PlanTemplate | None) -> Body:
        return self._from_steps() if template is None else self._from_template(template)

    def _from_template(self, template: PlanTemplate) -> Body:
        missing = [p.name for p in template.parameters if not self.values[p.name].strip()]
        if missing:
            raise InvalidInput(f"Enter a value for: {', '.join(missing)}.")
        return fill_template(template, self.values)

    def _from_steps(self) -> Body:
        if not self.steps.strip():
            raise InvalidInput("Enter the steps, one per line.")
        text = decode(as_list(self.steps).encode(errors="replace"))
        try:
            arguments = plan_arguments(read_plan(text))
        except InvalidInput as error:
            raise InvalidInput(f"Steps: {_OPTION.sub('', error.message)}") from error
        name, goal = self.name.strip(), self.goal.strip()
        typed: Body = {"name": name, "researchQuestion": goal}
        return {**arguments, **{key: text for key, text in typed.items() if text}}


def as_list(text: str) -> str:
    r"""Return the text with every line as a list item. A list or a document stays unchanged.

    >>> as_list("Read\n\nWrite"), as_list("1. Read\n2. Write")
    ('- Read\n- Write', '1. Read\n2. Write')
    """
    if _MARKED.search(text):
        return text
    return "\n".join(f"- {line.strip()}" for line in text.splitlines() if line.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlanView:
    templates: Mapping[str, PlanTemplate]
    template: PlanTemplate | None
    form: PlanForm
    max_steps: int = MAX_STEPS
    error: str | None = None
    #: Arguments of `create_research_plan` for the user to confirm. Empty before the confirmation.
    preview: Body | None = None


@dataclass(frozen=True, slots=True)
class NewPlanPage:
    page_context: PageContext
    #: Folder of saved templates. A server with several orgs has none, because orgs must not share
    #: templates.
    data_dir: Path | None

    async def __call__(self, request: Request) -> Response:
        await self.page_context.request_context(request)
        templates = builtin_templates()
        if self.data_dir:
            saved = await asyncio.to_thread(templates_in, self.data_dir / "templates")
            templates = dict(sorted({**templates, **saved}.items()))
        name = query_param(request, "template")
        template = find_template(name, templates) if name else None
        form = PlanForm(values={p.name: p.default or "" for p in _parameters(template)})
        view = NewPlanView(templates=templates, template=template, form=form)
        if request.method != "POST":
            return await self._render(request, view)
        submitted = SubmittedForm(await read_form(request))
        view = replace(view, form=_plan_form(submitted, template))
        try:
            arguments = view.form.arguments(template)
        except WaybookError as error:
            view = replace(view, error=error.message)
            return await self._render(request, view, http_status(error.code))
        match submitted.text("step"):
            case "create":
                return await self._create(request, view, arguments, submitted.text("key"))
            case "edit":
                return await self._render(request, view)
        return await self._render(request, replace(view, preview=arguments))

    async def _create(
        self, request: Request, view: NewPlanView, arguments: Body, key: str
    ) -> Response:
        key = key[:64] or secrets.token_urlsafe(16)
        answer = await self.page_context.call_tool(
            request, "create_research_plan", {**arguments, "idempotencyKey": key}
        )
        if answer.is_error:
            view = replace(view, error=error_message(answer))
            return await self._render(request, view, refusal_status(answer))
        return RedirectResponse(f"/plans/{answer.body['planId']}", HTTPStatus.SEE_OTHER)

    async def _render(self, request: Request, view: NewPlanView, status: int = 200) -> Response:
        return await self.page_context.render_page(
            request,
            "new_plan",
            status_code=status,
            view=view,
            # With this key, submitting the form twice creates only one plan.
            key=secrets.token_urlsafe(16),
        )


def _parameters(template: PlanTemplate | None) -> tuple[Parameter, ...]:
    return template.parameters if template else ()


def _plan_form(form: SubmittedForm, template: PlanTemplate | None) -> PlanForm:
    return PlanForm(
        name=form.text("name"),
        goal=form.text("goal"),
        steps=form.text("steps"),
        values={p.name: form.text(f"parameter:{p.name}") for p in _parameters(template)},
    )
