"""store_research: keep what was found out, and where it came from."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, cast
from uuid import UUID

from pydantic import AfterValidator, Field, StringConstraints

from waybook.errors import InvalidInput
from waybook.plan.model import StepId
from waybook.plan.research import Before, Kept, Origin, Research, store_apart, store_research
from waybook.record.moment import Json
from waybook.research.passages import readable
from waybook.research.sources import source_hash, source_id
from waybook.store import artifacts, ledger, passages
from waybook.store.passages import Meanings, Piece
from waybook.store.search import Abilities
from waybook.store.sql import Statement
from waybook.usecases.arguments import AnyJson, Id, Line, Loose, Mutating, Nested, limit_result
from waybook.usecases.call import NOBODY, Body, Call, known
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RESEARCH, Tool
from waybook.usecases.views import following, told

MOST_SOURCES = 50
MOST_TAGS = 20


def plain_word(text: str) -> str:
    """A text of a line: what is compared letter by letter must be seen letter by letter."""
    if not text.isprintable():
        raise ValueError("must be of printable characters")
    return text


def in_utc(at: datetime) -> datetime:
    """A moment; one without a zone is taken for UTC."""
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a moment between the years 1 and 9999") from None


Word = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True),
    AfterValidator(plain_word),
]
Tag = Annotated[
    str,
    StringConstraints(min_length=1, max_length=60, strip_whitespace=True),
    AfterValidator(plain_word),
]
Query = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Moment = Annotated[datetime, AfterValidator(in_utc)]


class AskedSource(Nested):
    url: Line | None = None
    title: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    quote: Annotated[str, StringConstraints(min_length=1, max_length=5_000)] | None = None
    retrieved_at: Moment | None = None


class StoreResearch(Mutating):
    kind: Word = Field(description="your word: note, finding, quote …")
    title: Word
    content: AnyJson = Field(description="text or JSON")
    plan_id: Id | None = None
    step_id: Id | None = None
    sources: Loose[list[AskedSource]] | None = Field(None, max_length=MOST_SOURCES)
    tags: Loose[list[Tag]] | None = Field(None, max_length=MOST_TAGS)
    metadata: Loose[dict[str, AnyJson]] | None = None


async def store(call: Call, asked: StoreResearch) -> Body:
    """Keep it as the next version of its name, findable by the very next search."""
    research = _research(asked)
    indexing = await _indexing(call, research)
    if asked.plan_id is None and asked.step_id is None:
        return await _apart(call, research, indexing)
    return await _in_plan(call, asked, research, indexing)


async def _in_plan(call: Call, asked: StoreResearch, research: Research, how: "Indexing") -> Body:
    step_id = StepId(asked.step_id.lower()) if asked.step_id else None
    plan_id = known(asked.plan_id) if asked.plan_id else await call.plan_of(asked.step_id or "")
    asking = artifacts.before_in_plan_statements(
        plan_id, research.kind, research.title, [origin.id for origin in research.origins]
    )
    async with call.locked(*asking, plan_id=plan_id, step_id=asked.step_id, review=False) as held:
        before = artifacts.read_before(*held.found)
        decision = store_research(held.plan, step_id, research, before, held.moment)
        body = _reply(research, decision.reply, how, held.plan.id, step_id)
        more = how.statements(decision.reply, before, held.plan.id, held.moment.now)
        return await held.write(decision, body, *more)


async def _apart(call: Call, research: Research, how: "Indexing") -> Body:
    async with call.open(
        *artifacts.before_apart_statements(research.kind, research.title)
    ) as opened:
        before = artifacts.read_before(opened.found[1])
        kept, entry = store_apart(research, before, opened.moment)
        written = ledger.store_apart(kept.artifact_id, entry, opened.hand()) if entry else []
        written += how.statements(kept, before, None, opened.now)
        return await opened.write(written, _reply(research, kept, how))


@dataclass(frozen=True, slots=True)
class Indexing:
    """How research is made findable. Its vectors are made before anything is locked."""

    research: Research
    org_id: UUID
    able: Abilities
    meanings: Meanings | None

    @property
    def told(self) -> str:
        """In words, for who stored it."""
        if self.meanings or not self.able.vectors:
            return self.able.told
        return "full text; vectors follow when the embeddings endpoint answers"

    def statements(
        self, kept: Kept, before: Before, plan_id: str | None, now: datetime
    ) -> Iterator[Statement]:
        """Let search know this version, and pass by the one before it."""
        if kept.unchanged:
            return
        if before.artifact_id is not None:
            yield passages.forget_statement(before.artifact_id)
        pieces = _pieces(self.research, kept.artifact_id, plan_id, now)
        yield from passages.index(pieces, self.meanings, self.org_id)


async def _indexing(call: Call, research: Research) -> Indexing:
    library, org_id = call.house.library, call.caller.org_id
    able = await library.abilities(call.house.database, org_id)
    pieces = _pieces(research, NOBODY, None, datetime.fromtimestamp(0, UTC))
    return Indexing(research, org_id, able, await library.meanings(pieces, able))


def _pieces(
    research: Research, artifact_id: str, plan_id: str | None, now: datetime
) -> list[Piece]:
    artifact = passages.of_artifact(
        artifact_id=artifact_id,
        plan_id=plan_id,
        kind=research.kind,
        title=research.title,
        tags=research.tags,
        text=readable(research.content),
        created_at=now,
    )
    return passages.cut([artifact, *(passages.of_source(o, now) for o in research.origins)])


def _research(asked: StoreResearch) -> Research:
    if asked.content is None or asked.content == "":
        raise InvalidInput("content: there is nothing in it", argument="content")
    limit_result(content=asked.content, metadata=asked.metadata)
    origins = [_origin(source) for source in asked.sources or ()]
    return Research(
        kind=asked.kind,
        title=asked.title,
        content=asked.content,
        tags=tuple(dict.fromkeys(asked.tags or ())),
        metadata=cast("Json", asked.metadata),
        origins=tuple({origin.id: origin for origin in reversed(origins)}.values())[::-1],
    )


def _origin(asked: AskedSource) -> Origin:
    told = source_hash(url=asked.url, title=asked.title, quote=asked.quote)
    return Origin(
        id=source_id(told),
        content_hash=told,
        url=asked.url,
        title=asked.title,
        quote=asked.quote,
        retrieved_at=asked.retrieved_at,
    )


def _reply(
    research: Research,
    kept: Kept,
    how: Indexing,
    plan_id: str | None = None,
    step_id: str | None = None,
) -> Body:
    return told(
        artifactId=kept.artifact_id,
        kind=research.kind,
        title=research.title,
        version=kept.version,
        unchanged=kept.unchanged or None,
        planId=plan_id,
        stepId=step_id,
        sourceIds=[origin.id for origin in research.origins],
        indexed=how.told,
        next=following("search_sources", "find it again by words or meaning", query=research.title),
    )


TOOL = Tool(
    name="store_research",
    title="Store research",
    description=(
        "Keep what you found out, with its sources: searchable at once, by every later plan. The "
        "same kind and title again is the next version."
    ),
    arguments=StoreResearch,
    output_schema=output_schema(artifactId="string", version="integer"),
    run=store,
    profiles=RESEARCH,
)
