"""The front page (the overview), lists of plans and runs with their filters, and the search.

The overview shows work that needs a person, has problems, is running, or has finished.
"""

import re
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.agent_names import find_agents
from waybook.app.queries.forecast import steps_forecast
from waybook.app.queries.overview import (
    MAX_ENTRIES,
    Hour,
    LastLook,
    read_away_summary,
    read_overview,
)
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.search import (
    ArtifactRow,
    HitKind,
    SearchGroup,
    read_research_item,
    search_everything,
)
from waybook.app.queries.work_list import (
    OPEN,
    ListOrder,
    PlanFilter,
    PlanSummary,
    RunFilter,
    list_and_count_runs,
    plan_summaries,
)
from waybook.app.request.request_context import RequestContext
from waybook.core.actions import Facts, Kind, action, offered
from waybook.core.shown import ENDED, TO_DO, Shown, shown
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.inbox import DECISION_TEXT
from waybook.transport.http.dashboard.page import (
    PageRequest,
    SubmittedForm,
    error_message,
    error_status,
    redirect,
)
from waybook.transport.http.dashboard.plans.plan_page import seen_revision
from waybook.transport.http.dashboard.texts import markdown_gist, to_rich_text
from waybook.transport.http.html.charts import Column
from waybook.transport.http.html.layout import error_page, from_segment, safe_return_path
from waybook.transport.http.responses import write_cookie
from waybook.transport.mcp.prompts import RESUME_PLAN

#: Order of plans in a list: those that need a person come first.
_NEED: Final = (Shown.NEEDS_YOU, Shown.FAILED, Shown.STALLED, Shown.RUNNING)
MAX_LISTED: Final = 200
COOKIE: Final = "waybook_look"
_COOKIE_SECONDS: Final = 180 * 86_400
#: Format of the cookie: two times in seconds since 1970. The overview was last shown at the second
#: time, and it then listed the work finished since the first time.
_TIMES: Final = re.compile(r"([0-9]{1,10})\.([0-9]{1,10})")


async def overview_page(page: PageRequest) -> Response:
    ctx, only_trouble = await page.context(), page.query("show") == "trouble"
    look = last_look(page.request)
    overview = await read_overview(ctx, look, most=MAX_LISTED if only_trouble else MAX_ENTRIES)
    # `overview.since` is a time from the cookie or, without a valid cookie, a default. Only a time
    # from the cookie is shown as the last visit.
    since_look = overview.since if overview.since in look else None
    reply = await page.render(
        "overview",
        overview=overview,
        throughput=_throughput,
        only_trouble=only_trouble,
        since_look=since_look,
        away=await read_away_summary(ctx, since_look) if since_look else None,
        decision_text=DECISION_TEXT,
        gist=markdown_gist,
        mcp=mcp_url(page.request),
        needs_token=ctx.caller.credential is not None,
    )
    since, looked_at = (int(at.timestamp()) if at else 0 for at in (since_look, overview.now))
    write_cookie(page.request, reply, COOKIE, f"{since}.{looked_at}", _COOKIE_SECONDS)
    return reply


def _throughput(hours: Sequence[Hour]) -> list[Column]:
    return [
        Column(f"{hour.start:%H:%M}", (("skip", hour.done), ("fail", hour.failed)), text)
        for hour in hours
        for text in [f"{hour.start:%H:%M}: {hour.done:,} done, {hour.failed:,} failed"]
    ]


async def rescue(page: PageRequest) -> Response:
    """Handle the buttons that let agents do work again.

    Each field `work` names a stage, as `run:ID:STAGE`, a step of a run, as `job:ID:STAGE/STEP` with
    the escapes of addresses, a document to regenerate, as `document:ID:` with `following` if later
    ones are too, or steps of a plan, as `plan:ID:REVISION:STEP,STEP`.
    Instead of steps, it may name an action, which is done for all steps that offer it; without a
    stage, all stages of a run are meant.
    """
    form, ctx, refused = await page.form(), await page.context(), None
    back = safe_return_path(form.fields.get("back"), "/")
    works = [work for work in form.fields.getlist("work") if isinstance(work, str)][:MAX_LISTED]
    for work in dict.fromkeys(works):
        for answer in [await page.call_tool(*call) for call in await _retries(ctx, form, work)]:
            refused = answer if answer.is_error else refused
    if refused:
        status, message = error_status(refused), error_message(refused)
        return error_page(page.request, status, message, back=back)
    done = "regenerate" if any(work.startswith("document:") for work in works) else "retry"
    done = "reassign" if form.text("reassign") else done
    return redirect(f"{back}{'&' if '?' in back else '?'}done={done}" if works else back)


async def _retries(
    ctx: RequestContext, form: SubmittedForm, work: str
) -> list[tuple[str, dict[str, object]]]:
    """Return the tool calls for a field `work`."""
    kind, work_id, rest, *_ = *work.split(":", 2), "", ""
    if kind == "run":
        stages, act = [rest], action(Kind.RUN, "retry")
        if rest in {"", act.name}:
            failed = (await read_run_detail(ctx, work_id, RunInclude.NOTHING)).run.failed_steps
            stages = [*dict.fromkeys(step.stage for step in failed)]
        # All forms of the page share an idempotency key, so the run and the stage are added to it.
        key = f"{form.text('key')[:64]}:{work_id}"
        keyed = {slug: f"{key}:{slug}"[:200] for slug in stages}
        return [act.call(work_id, stageSlug=s, idempotencyKey=k) for s, k in keyed.items()]
    if kind == "job":
        stage, _, step = map(from_segment, rest.partition("/"))
        key = f"{form.text('key')[:64]}:{work_id}:{rest}"[:200]
        call = action(Kind.JOB, "retry").call
        return [call(work_id, stageSlug=stage, stepKey=step, idempotencyKey=key)]
    if kind == "document":
        key = f"{form.text('key')[:64]}:{work}"[:200]
        arguments = {"documentId": work_id, "following": bool(rest), "idempotencyKey": key}
        return [("regenerate_document", arguments)]
    revision, _, rest = rest.partition(":")
    steps, name = rest.split(","), rest if rest == "reassign" else "retry"
    if rest == name:
        detail = await read_plan_detail(ctx, work_id, PlanInclude.NONE)
        steps = [step.id for step in detail.plan.steps if name in offered(detail.facts_of(step))]
    tool, arguments = action(Kind.PLAN, name).call(work_id, *steps)
    return [(tool, {**arguments, **seen_revision(FormData({"revision": revision}))})]


def last_look(request: Request) -> LastLook:
    match = _TIMES.fullmatch(request.cookies.get(COOKIE, ""))
    if match is None:
        return LastLook()
    since, looked_at = (
        datetime.fromtimestamp(int(text), UTC) if int(text) else None for text in match.groups()
    )
    return LastLook(since, looked_at)


ALL: Final = "all"
#: States by which plans and runs can be filtered.
_STATES: Final = (Shown.TODO, Shown.RUNNING, Shown.NEEDS_YOU, Shown.STALLED, Shown.DONE,
                  Shown.FAILED, Shown.CANCELED)  # fmt: skip
_ENDED_RUN: Final = frozenset({Shown.DONE, Shown.CANCELED})


def _wanted(page: PageRequest, usual: str) -> tuple[str, Shown | None]:
    """Return the state in the address, and its filter, which `open` and `all` do not have."""
    state = page.query("state") or usual
    wanted = None if state in {OPEN, ALL} else shown(state)
    if wanted not in {None, *_STATES}:
        raise InvalidInput(f"“{state[:40]}” is not a state", argument="state")
    return wanted or state, wanted


def _tabs(
    counts: Mapping[Shown, int], minimums: Container[Shown], ended: Container[Shown], state: str
) -> dict[str, str]:
    """Return the number of plans or runs in each state. A number with + is a minimum.

    The chosen state is listed even if nothing is in this state.
    """
    tabs = {}
    for name in (OPEN, ALL, *_STATES):
        of = [s for s in counts if name in {ALL, s} or (name == OPEN and s not in ended)]
        if of or name in {OPEN, ALL, state}:
            tabs[name] = f"{sum(counts[s] for s in of):,}" + "+" * any(s in minimums for s in of)
    return tabs


async def plan_list(page: PageRequest) -> Response:
    ctx, params = await page.context(), page.request.query_params
    state, wanted = _wanted(page, OPEN)
    text, mine, sort = params.get("q", "").strip(), "mine" in params, page.query("sort")
    before = params.get("before") or None
    results = await plan_summaries(
        ctx,
        PlanFilter(
            order=ListOrder.CREATION,
            state=wanted,
            all=state == ALL,
            text=text,
            creator=ctx.caller.user if mine else None,
            before=before,
        ),
        history=True,
    )
    return await page.render(
        "plans",
        filters={"state": state, "text": text, "mine": mine, "sort": sort or ""},
        plans=results.plans if sort else sorted(results.plans, key=_need),
        filtered=bool(text or mine or before or state not in {OPEN, ALL}),
        url_with=page.url_with,
        results=results,
        counts=_tabs(results.counts, results.minimums, ENDED, state),
        **page.list_links("before", results.last.id if results.last else None),
        left=lambda plan: steps_forecast(
            plan.progress.total - plan.progress.done - plan.progress.failed, results.history
        ),
        resume=lambda plan_id: RESUME_PLAN.format(planId=plan_id).strip(),
        mcp=mcp_url(page.request),
        needs_token=ctx.caller.credential is not None,
    )


def _need(plan: PlanSummary) -> int:
    state = Shown.STALLED if plan.progress.failed and plan.shown in TO_DO else plan.shown
    return _NEED.index(state) if state in _NEED else len(_NEED)


def mcp_url(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers['host']}/mcp"


async def run_list(page: PageRequest) -> Response:
    state, wanted = _wanted(page, ALL)
    filters = RunFilter(
        state=OPEN if state == OPEN else wanted,
        dag=page.query("dag"),
        text=page.query("q") or "",
        before=page.query("before"),
        order=ListOrder.CREATION,
    )
    runs, has_more, rows = await list_and_count_runs(await page.context(), filters)
    counts = {shown(row.state): row.runs for row in rows if row.runs}
    minimums = {shown(row.state) for row in rows if row.is_minimum}
    return await page.render(
        "runs",
        runs=runs,
        states=_tabs(counts, minimums, _ENDED_RUN, state),
        url_with=page.url_with,
        filters=filters,
        **page.list_links("before", runs[-1].id if has_more else None),
    )


#: Kinds of hits whose actions the palette offers.
_ACTED_ON: Final = frozenset({HitKind.PLAN, HitKind.RUN, HitKind.STEP, HitKind.RESULT})
_MAX_HITS: Final = 10
_MAX_OPTIONS: Final = 4


async def search_page(page: PageRequest) -> Response:
    text, error = page.query("q") or "", None
    is_palette = page.query("part") == "options"
    groups: Sequence[SearchGroup] = ()
    try:
        groups = await search_everything(
            await page.context(),
            text,
            limit=_MAX_OPTIONS if is_palette else _MAX_HITS,
            # Search by meaning only for the results page. The command palette searches while a
            # person types, when a search by meaning does not help.
            semantic=not is_palette,
        )
    except InvalidInput as refused:
        error = refused.message
    ctx = await page.context()
    asked, best = text, await best_match(ctx, groups)
    verb, _, rest = text.strip().partition(" ")
    if is_palette and rest and not groups and not error:
        # The text may be an action and a part of a name, such as “retry rivers”.
        best = await best_match(ctx, await search_everything(ctx, rest, limit=1, semantic=False))
        asked = verb
    return await page.render(
        "search",
        status=400 if error else 200,
        text=text,
        groups=groups,
        error=error,
        is_match=_is_match,
        best=best if is_palette else None,
        chosen=asked if asked != text else "",
        agents=await find_agents(ctx, text, _MAX_OPTIONS) if is_palette else (),
        everything=f"/search?{urlencode({'q': text})}" if text else "/search",
    )


class BestMatch(NamedTuple):
    """The plan, run or step that fits a search best, with what its actions need."""

    name: str
    url: str
    facts: Facts
    #: Beginning of the field `work` of the form that retries it.
    work: str
    #: Prompt with which an agent resumes the plan.
    resume: str | None = None


async def best_match(ctx: RequestContext, groups: Sequence[SearchGroup]) -> BestMatch | None:
    hit = next((group.hits[0] for group in groups if group.kind in _ACTED_ON), None)
    if hit is None:
        return None
    if hit.kind is HitKind.RUN:
        run = await read_run_detail(ctx, hit.id, RunInclude.NOTHING)
        return BestMatch(run.run.name, f"/runs/{hit.id}", run.facts, f"run:{hit.id}:")
    detail = await read_plan_detail(ctx, str(hit.plan_id), PlanInclude.NAMES)
    plan, url = detail.plan, f"/plans/{hit.plan_id}"
    work = f"plan:{plan.id}:{plan.revision}:"
    if hit.kind is HitKind.PLAN:
        resume = None if detail.is_closed else RESUME_PLAN.format(planId=plan.id).strip()
        return BestMatch(plan.name, url, detail.facts, work, resume)
    step = next(step for step in plan.steps if step.id == hit.step_id)
    own = f"{url}/steps/{step.id}"
    return BestMatch(detail.name_of(step), own, detail.facts_of(step), work + step.id)


async def research_page(page: PageRequest) -> Response:
    item, sources = await read_research_item(await page.context(), page.path("research_id"))
    artifact = item if isinstance(item, ArtifactRow) else None
    content = to_rich_text(artifact.content) if artifact else None
    return await page.render(
        "research", item=item, artifact=artifact, sources=sources, content=content
    )


def _is_match(name: str, text: str) -> bool:
    """Return whether each word of the text begins a word of the name.

    >>> _is_match("Go to inbox", "inb"), _is_match("Go to inbox", "to box")
    (True, False)
    """
    words = name.lower().split()
    return all(any(word.startswith(part) for word in words) for part in text.lower().split())
