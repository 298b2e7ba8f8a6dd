"""Page of a run, and the forms that retry its jobs or regenerate its documents."""

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup
from starlette.responses import Response

from waybook.app.queries.audit import RUN, event_label
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.request.caller import Answer
from waybook.app.request.layout_worker import layout_cost
from waybook.transport.http.dashboard.cards import FeedbackCard
from waybook.transport.http.dashboard.page import (
    PageRequest,
    SubmittedForm,
    error_message,
    error_status,
    redirect,
)
from waybook.transport.http.dashboard.runs.run_map import run_map
from waybook.transport.http.dashboard.runs.run_stages import stage_name, stage_views
from waybook.transport.http.dashboard.timeline import run_timeline
from waybook.transport.http.html.forms import safe_return_path
from waybook.transport.http.html.fragments import mark_drawing

CONFIRMATIONS: Final = {
    "retry": "Failed jobs were reset and can be claimed again.",
    "regenerate": "Regeneration queued.",
}
#: Hidden fields that distinguish the forms of a page.
FORM_PLACES: Final = ("stage", "step", "document", "following")


async def retry(page: PageRequest) -> Response:
    form = await page.form()
    args = {"runId": page.path("run_id"), "stageSlug": form.text("stage")}
    if step := form.text("step"):
        args["stepKey"] = step
    return await _act(page, form, "retry_failed", args)


async def regenerate(page: PageRequest) -> Response:
    form = await page.form()
    following = form.text("following") == "true"
    args = {"documentId": form.text("document"), "following": following}
    return await _act(page, form, "regenerate_document", args)


async def _act(
    page: PageRequest, form: SubmittedForm, tool: str, args: Mapping[str, object]
) -> Response:
    run_id, action = page.path("run_id"), page.request.url.path.rpartition("/")[2]
    # All forms on a page have the same idempotency key, so add what the form is about.
    place = "/".join(filter(None, (run_id, *map(form.text, FORM_PLACES))))
    key = f"{form.text('key')[:64]}:{place}"[:200]
    answer = await page.call_tool(tool, {**args, "idempotencyKey": key})
    if answer.is_error:
        return await run_page(page, answer)
    path = safe_return_path(form.fields.get("back"), f"/runs/{quote(run_id, safe='')}")
    return redirect(f"{path}?done={action}")


async def run_page(page: PageRequest, refused: Answer | None = None) -> Response:
    detail = await read_run_detail(await page.context(), page.path("run_id"), RunInclude.PAGE)
    drawn = run_map(detail, page.query("map"), page.query("near"))
    svg = await page.picture(drawn.job)
    stages = await page.run_costly(
        layout_cost(detail.compiled_dag.dag), lambda: stage_views(detail)
    )
    text = detail.input_text
    if not isinstance(text, str):
        text = json.dumps(text, indent=2, ensure_ascii=False)
    return await page.render(
        "run",
        status=error_status(refused) if refused else 200,
        path=f"/runs/{detail.run.id}",
        detail=detail,
        stages=stages,
        counts={
            "completed": sum(stage.done for stage in stages),
            "failed": sum(stage.failed for stage in stages),
            "in_progress": sum(stage.running for stage in stages),
        },
        card=_feedback_card(detail),
        map=drawn,
        map_svg=Markup(mark_drawing(svg)),  # noqa: S704
        timeline=run_timeline(detail),
        input_text=text,
        history=[
            (event, event_label(event.event, event.action, RUN))
            for event in reversed(detail.history)
        ],
        refused=error_message(refused) if refused else None,
        **confirmation(page),
    )


def confirmation(page: PageRequest) -> dict[str, Any]:
    """Return the note after a submitted form, and the idempotency key of the page's forms."""
    note = CONFIRMATIONS.get(page.request.query_params.get("done", ""))
    return {"note": note, "key": secrets.token_urlsafe(16)}


def _feedback_card(detail: RunDetail) -> FeedbackCard | None:
    stage, dag = detail.run.stages.get(detail.awaiting or ""), detail.compiled_dag
    if stage is None:
        return None
    return FeedbackCard(
        run_id=detail.run.id,
        run_name=detail.run.name,
        stage_slug=stage.slug,
        stage_name=stage_name(dag, stage.slug),
        since=stage.completed_at or detail.now,
        following=tuple(stage_name(dag, slug) for slug in dag.dag.after(stage.slug)),
        models=", ".join(stage.models),
    )
