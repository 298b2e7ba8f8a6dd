"""An artifact or source of the stored research, as its page shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.errors import NextCall, NotFound
from waybook.json_values import Json
from waybook.store.research import artifacts, search
from waybook.store.research.artifacts import ArtifactRow, CitedSourceRow
from waybook.store.research.search import SourceRow

MAX_CITATIONS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchItem:
    """An artifact with its sources, or a source with the artifacts that cite it."""

    artifact: ArtifactRow | None = None
    sources: Sequence[SourceRow] = ()
    source: CitedSourceRow | None = None

    @property
    def title(self) -> str:
        return self.artifact.title if self.artifact else self.source.title if self.source else ""

    @property
    def citations(self) -> Sequence[dict[str, Json]]:
        return self.source.citations or () if self.source else ()


async def read_research_item(ctx: RequestContext, item_id: str) -> ResearchItem:
    item_id = id_or_nil(item_id)
    artifact_rows, cited, source_rows = await ctx.read(
        artifacts.artifact_statement(item_id),
        search.sources_statement([item_id]),
        artifacts.source_statement(item_id, MAX_CITATIONS),
    )
    if artifact_rows:
        return ResearchItem(artifact=artifact_rows[0], sources=cited)
    if source_rows:
        return ResearchItem(source=source_rows[0])
    raise NotFound(
        "there is no artifact or source with this id here",
        next_call=NextCall("search_sources", {"query": "words or a question"}, "Search for it."),
    )
