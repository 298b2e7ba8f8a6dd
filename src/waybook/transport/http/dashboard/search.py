"""Search page, entries of the command palette, and the page of an artifact or source."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

from starlette.responses import Response

from waybook.app.queries.search import (
    ArtifactRow,
    HitKind,
    SearchGroup,
    SearchHit,
    read_research_item,
    search_everything,
)
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.layout import run_document_url, to_rich_text

_MAX_HITS: Final = 10
_MAX_OPTIONS: Final = 4

HEADINGS: Final = {
    HitKind.PLAN: "Plans",
    HitKind.RUN: "Runs",
    HitKind.STEP: "Steps",
    HitKind.RESULT: "Results",
    HitKind.DOCUMENT: "Documents",
    HitKind.RESEARCH: "Research",
    HitKind.WORKFLOW: "Workflows",
}


#: Names and paths of the commands of the palette.
COMMANDS: Final = (
    ("Go to overview", "/"),
    ("Go to inbox", "/inbox"),
    ("Open plan list", "/plans"),
    ("Open run list", "/runs"),
    ("Create a plan", "/plans/new"),
    ("Start a run", "/runs/new"),
    ("Open workflows", "/dags"),
    ("Open outputs", "/outputs"),
    ("Open agents", "/agents"),
    ("Open cost", "/cost"),
    ("Open audit", "/audit"),
    ("Open tool calls", "/calls"),
    ("Open server health", "/health"),
    ("Manage users and tokens", "/tokens"),
)


async def search_page(page: PageRequest) -> Response:
    text, error = page.query("q") or "", None
    is_palette = page.query("part") == "options"
    groups: Sequence[SearchGroup] = ()
    try:
        groups = await search_everything(
            await page.context(),
            text,
            limit=_MAX_OPTIONS if is_palette else _MAX_HITS,
            # Search by meaning only for the results page. The palette searches while the user
            # types, and there the search by meaning does not help.
            semantic=not is_palette,
        )
    except InvalidInput as refused:
        error = refused.message
    return await page.render(
        "search",
        status=400 if error else 200,
        text=text,
        groups=groups,
        error=error,
        headings=HEADINGS,
        url_of=_hit_url,
        commands=_matching_commands(text) if is_palette else (),
        everything=f"/search?{urlencode({'q': text})}" if text else "/search",
    )


async def research_page(page: PageRequest) -> Response:
    """Show a stored artifact or source."""
    item, sources = await read_research_item(await page.context(), page.path("research_id"))
    artifact = item if isinstance(item, ArtifactRow) else None
    content = to_rich_text(artifact.content) if artifact else None
    return await page.render(
        "research", item=item, artifact=artifact, sources=sources, content=content
    )


def _hit_url(hit: SearchHit) -> str:
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


def _matching_commands(text: str) -> list[tuple[str, str]]:
    """Return the palette commands whose words begin with the words of the text.

    >>> [name for name, _ in _matching_commands("inb")]
    ['Go to inbox']
    """
    wanted = text.lower().split()
    return [
        (name, path)
        for name, path in COMMANDS
        if all(any(word.startswith(part) for word in name.lower().split()) for part in wanted)
    ]
