"""Search page, entries of the command palette, and the page of an artifact or source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.search import (
    HitKind,
    SearchGroup,
    SearchHit,
    read_research_item,
    search_everything,
)
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.html.forms import query_param
from waybook.transport.http.html.layout import to_rich_text
from waybook.transport.http.html.run_urls import run_document_url

OPTIONS: Final = "options"
MAX_HITS: Final = 10
MAX_OPTIONS: Final = 4

HEADINGS: Final = {
    HitKind.PLAN: "Plans",
    HitKind.RUN: "Runs",
    HitKind.STEP: "Steps",
    HitKind.RESULT: "Results",
    HitKind.DOCUMENT: "Documents",
    HitKind.RESEARCH: "Research",
    HitKind.WORKFLOW: "Workflows",
}


class Command(NamedTuple):
    name: str
    path: str


COMMANDS: Final = (
    Command("Go to overview", "/"),
    Command("Go to inbox", "/inbox"),
    Command("Open plan list", "/plans"),
    Command("Open run list", "/runs"),
    Command("Create a plan", "/plans/new"),
    Command("Start a run", "/runs/new"),
    Command("Open workflows", "/dags"),
    Command("Open outputs", "/outputs"),
    Command("Open agents", "/agents"),
    Command("Open cost", "/cost"),
    Command("Open audit", "/audit"),
    Command("Open tool calls", "/calls"),
    Command("Open server health", "/health"),
    Command("Manage users and tokens", "/tokens"),
)


@dataclass(frozen=True, slots=True)
class SearchPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        text = query_param(request, "q") or ""
        is_palette = query_param(request, "part") == OPTIONS
        try:
            groups = await search_everything(
                await self.page_context.request_context(request),
                text,
                limit=MAX_OPTIONS if is_palette else MAX_HITS,
                # Search by meaning only for the results page, because it does not help while a user
                # types.
                semantic=not is_palette,
            )
            error = None
        except InvalidInput as refused:
            groups, error = list[SearchGroup](), refused.message
        return await self.page_context.render_page(
            request,
            "search",
            status_code=400 if error else 200,
            text=text,
            groups=groups,
            error=error,
            headings=HEADINGS,
            url_of=hit_url,
            commands=matching_commands(text) if is_palette else (),
            everything=f"/search?{urlencode({'q': text})}" if text else "/search",
        )

    async def research(self, request: Request) -> Response:
        ctx = await self.page_context.request_context(request)
        item = await read_research_item(ctx, request.path_params["research_id"])
        content = to_rich_text(item.artifact.content) if item.artifact else None
        return await self.page_context.render_page(request, "research", item=item, content=content)


def hit_url(hit: SearchHit) -> str:
    if hit.kind is HitKind.DOCUMENT and hit.run_id and hit.resource_id:
        return run_document_url(hit.run_id, hit.resource_id)
    step = f"/plans/{hit.plan_id}/steps/{hit.step_id}"
    return {
        HitKind.PLAN: f"/plans/{hit.id}",
        HitKind.RUN: f"/runs/{hit.id}",
        HitKind.STEP: step,
        HitKind.RESULT: f"{step}#result",
        # Link to the job that produced the document, because the document may have no page.
        HitKind.DOCUMENT: f"/runs/{hit.run_id}/jobs/{hit.job_id}",
        HitKind.RESEARCH: f"/research/{hit.id}",
        HitKind.WORKFLOW: f"/dags/{quote(hit.id, safe='')}",
    }[hit.kind]


def matching_commands(text: str) -> Sequence[Command]:
    """Return the palette commands whose words begin with the words of the text.

    >>> [command.name for command in matching_commands("inb")]
    ['Go to inbox']
    """
    wanted = text.lower().split()

    def fits(command: Command) -> bool:
        words = command.name.lower().split()
        return all(any(word.startswith(part) for word in words) for part in wanted)

    return [command for command in COMMANDS if fits(command)]
