"""Tools that store, search and read research."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from waybook.app.queries.search import MAX_QUERY_LENGTH, read_research_item, search_research
from waybook.app.request import arguments as arg
from waybook.app.request.access import plan_of_step
from waybook.app.request.locks.locking import (
    LockedPlan,
    OpenTransaction,
    PlanProposal,
    Proposal,
    Written,
    update,
)
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import NIL_UUID, RequestContext, ToolReply
from waybook.app.request.search_backend import search_backend
from waybook.app.request.tool import Tool
from waybook.json_values import Body, Json, fields_of, non_empty
from waybook.plan.model import StepId
from waybook.plan.research import (
    ExistingResearch,
    Research,
    ResearchSource,
    StoredResearch,
    store_standalone,
)
from waybook.plan.research import store_research as decide_storing
from waybook.research.packet import escaped_size, truncate
from waybook.research.passages import json_to_text, source_hash, source_id
from waybook.store.driver.queries import Ids, Row, Statement
from waybook.store.plans import writer
from waybook.store.research import artifacts
from waybook.store.research.artifacts import ArtifactRow, PassageDraft
from waybook.store.research.search import Scope

MAX_SOURCES = 50
MAX_TAGS = 20


def visible_line(text: object) -> object:
    """Replace invisible characters with spaces, because names are compared exactly."""
    if not isinstance(text, str) or text.isprintable():
        return arg.fill_blank(text)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()) or arg.BLANK


def _time_or_none(value: object, parse: ValidatorFunctionWrapHandler) -> datetime | None:
    """Return a time in UTC, or None for a text that is not a time, such as "yesterday"."""
    try:
        at: datetime = parse(value)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValidationError, OverflowError):
        if isinstance(value, str):
            return None
        raise


Word = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True),
    BeforeValidator(visible_line),
]
Tag = Annotated[
    str,
    StringConstraints(min_length=1, max_length=60, strip_whitespace=True),
    BeforeValidator(visible_line),
]


class SourceArgument(arg.Nested):
    url: arg.Text | None = arg.optional("address")
    title: Annotated[
        str, StringConstraints(min_length=1, max_length=500), BeforeValidator(arg.fill_blank)
    ] = Field(description="its title")
    quote: arg.Text | None = arg.optional("quote")
    retrieved_at: Annotated[datetime | None, WrapValidator(_time_or_none)] = arg.optional(
        "ISO 8601 time of reading; else ignored"
    )

    def origin(self) -> ResearchSource:
        content_hash = source_hash(url=self.url, title=self.title, quote=self.quote)
        return ResearchSource(
            id=source_id(content_hash),
            content_hash=content_hash,
            url=self.url,
            title=self.title,
            quote=self.quote,
            retrieved_at=self.retrieved_at,
        )


class _StoreResearch(arg.MutatingArguments):
    kind: Word = Field(description="such as note or finding")
    title: Word = Field(description="reuse kind and title for the next version")
    content: arg.SomeJson = Field(description="text or JSON")
    plan_id: arg.PlanIdField | None = arg.optional("the plan")
    step_id: arg.StepIdField | None = arg.optional("the step")
    sources: arg.ListOf[SourceArgument] | None = arg.optional("its sources", max_length=MAX_SOURCES)
    tags: arg.ListOf[Tag] | None = arg.optional("to filter searches", max_length=MAX_TAGS)
    metadata: arg.AnyJson = arg.optional("text or JSON to keep")


@Tool(
    title="Store research",
    description="Store what you found, with its sources. Every plan can search it.",
    reply={"artifactId": "string", "version": "integer"},
)
async def store_research(ctx: RequestContext, args: _StoreResearch) -> ToolReply:
    """Store research, as a new version if its kind and title exist. Searches find it at once."""
    arg.check_result_size(content=args.content, metadata=args.metadata)
    new = _NewResearch(args)
    research = new.research
    await new.embed(ctx)
    name = {"kind": research.kind, "title": research.title}
    if args.plan_id is None and args.step_id is None:
        opened = OpenTransaction(
            ctx, artifacts.SQL["lock_name"](**name), artifacts.SQL["latest_standalone"](**name)
        )

        async def decide() -> Proposal[Written]:
            before = artifacts.read_existing(opened.results[1])
            stored, entry = store_standalone(research, before, opened.context)
            context = opened.write_context
            written = writer.store_standalone(stored.artifact_id, entry, context) if entry else []
            written += new.index_statements(stored, before, None, opened.now)
            return Proposal(Written(written), new.reply(stored))

        return await update(opened, decide)
    step_id = StepId(args.step_id) if args.step_id else None
    plan_id = args.plan_id or await plan_of_step(ctx, args.step_id or "")
    source_ids = Ids([origin.id for origin in research.origins])
    existing = (
        artifacts.SQL["latest_in_plan"](plan_id=plan_id, **name),
        artifacts.SQL["known_sources"](plan_id=plan_id, ids=source_ids),
    )
    locked = LockedPlan(ctx, *existing, plan_id=plan_id, step_id=step_id, review=False)

    async def decide_in_plan() -> PlanProposal:
        before = artifacts.read_existing(*locked.results)
        decision = decide_storing(locked.plan, step_id, research, before, locked.context)
        body = new.reply(decision.reply, locked.plan.id, step_id)
        more = new.index_statements(decision.reply, before, locked.plan.id, locked.now)
        return Proposal(decision, body, [*more])

    return await update(locked, decide_in_plan)


class _NewResearch:
    """Research to store, with the data for the search index, computed before any lock is taken."""

    def __init__(self, args: _StoreResearch) -> None:
        origins = [source.origin() for source in args.sources or ()]
        self.research = Research(
            kind=args.kind,
            title=args.title,
            content=args.content,
            tags=tuple(dict.fromkeys(args.tags or ())),
            metadata=args.metadata,
            origins=tuple({origin.id: origin for origin in reversed(origins)}.values())[::-1],
        )

    async def embed(self, ctx: RequestContext) -> None:
        library, self._org_id = search_backend(ctx.services), ctx.caller.org_id
        self._able = await library.capabilities(ctx.services.database, self._org_id)
        pieces = self._pieces(NIL_UUID, None, datetime.fromtimestamp(0, UTC))
        self._embeddings = await library.embed_passages(pieces, self._able)

    def index_statements(
        self, stored: StoredResearch, before: ExistingResearch, plan_id: str | None, now: datetime
    ) -> Iterator[Statement]:
        if stored.unchanged:
            return
        if before.artifact_id is not None:
            yield from artifacts.unindex_statements(before.artifact_id)
        pieces = self._pieces(stored.artifact_id, plan_id, now)
        yield from artifacts.index_statements(pieces, self._embeddings, self._org_id)

    def _pieces(self, artifact_id: str, plan_id: str | None, now: datetime) -> list[PassageDraft]:
        research = self.research
        artifact = artifacts.index_artifact(
            artifact_id=artifact_id,
            plan_id=plan_id,
            kind=research.kind,
            title=research.title,
            tags=research.tags,
            text=json_to_text(research.content),
            created_at=now,
        )
        sources = (artifacts.index_source(origin, now) for origin in research.origins)
        return artifacts.split_subjects([artifact, *sources])

    def reply(
        self, stored: StoredResearch, plan_id: str | None = None, step_id: str | None = None
    ) -> Body:
        research, indexed = self.research, self._able.describe
        if self._able.vectors and not self._embeddings:
            indexed = "full text; vectors follow when the embeddings endpoint answers"
        return non_empty(
            artifactId=stored.artifact_id,
            kind=research.kind,
            title=research.title,
            version=stored.version,
            unchanged=stored.unchanged or None,
            planId=plan_id,
            stepId=step_id,
            sourceIds=[origin.id for origin in research.origins],
            indexed=indexed,
            next=next_call("search_sources", "Find it by words or meaning.", query=research.title),
        )


_MAX_DAYS = 36_500


#: Kind or tag to filter by, normalized like the kinds and tags of stored research.
_Filter = Annotated[arg.Id, StringConstraints(strip_whitespace=True), BeforeValidator(visible_line)]


class SearchSources(arg.ReadArguments):
    query: Annotated[str, AfterValidator(lambda text: text[:MAX_QUERY_LENGTH])] = Field(
        min_length=1, description="words or a question"
    )
    plan_id: arg.PlanIdField | None = arg.optional("only of this plan")
    kinds: arg.ListOf[_Filter] | None = arg.optional("only of these kinds", max_length=20)
    tags: arg.ListOf[_Filter] | None = arg.optional("only with all these tags", max_length=20)
    within_days: Annotated[float, arg.clamped(0, _MAX_DAYS)] | None = arg.optional(
        "stored in the last days"
    )
    limit: Annotated[int, arg.clamped(1, 50)] = arg.optional("default 10", default=10)
    cursor: arg.Offset = arg.optional("nextCursor of the last reply", default=0)


@Tool(
    title="Search stored research",
    description=(
        "Search the stored research of all plans by words and meaning. Each hit names the call "
        "that reads it in full."
    ),
    reply={"hits": "array", "searched": "string"},
    reads_only=True,
)
async def search_sources(ctx: RequestContext, args: SearchSources) -> Body:
    since, database = None, ctx.services.database
    if args.within_days is not None:
        now = database.now() or await database.read_now(ctx.caller.org_id)
        since = now - timedelta(days=args.within_days)
    scope = Scope(
        plan_id=args.plan_id or None,
        kinds=tuple(args.kinds or ()),
        since=since,
        tags=tuple(args.tags or ()),
    )
    return await search_research(ctx, args.query, scope, limit=args.limit, cursor=args.cursor)


_MAX_CONTENT_BYTES = 30_000
_MAX_METADATA_BYTES = 12_000
_MAX_DETAIL_CONTENT_BYTES = 120_000
_MAX_DETAIL_METADATA_BYTES = 120_000


class _GetArtifact(arg.ReadArguments):
    artifact_id: arg.Id = Field(description="id of an artifact or source")
    offset: arg.Offset = arg.optional("continue at this character", default=0)
    detail: arg.DetailField = False


@Tool(
    title="Read an artifact",
    description=(
        "Read a stored artifact and its sources. left: how much follows; continue at offset."
    ),
    reply={"title": "string"},
    reads_only=True,
)
async def get_artifact(ctx: RequestContext, args: _GetArtifact) -> Body:
    row, sources = await read_research_item(ctx, args.artifact_id)
    if isinstance(row, ArtifactRow):
        return _artifact(row, sources, args)
    citations = row.citations or []
    return non_empty(
        sourceId=row.id,
        **fields_of(row, "title url quote retrieved_at created_at created_by"),
        artifacts=[
            non_empty(
                artifactId=citation["id"],
                kind=citation["kind"],
                title=citation["title"],
                planId=citation["plan_id"],
            )
            for citation in citations
        ],
        next=next_call("get_artifact", "Read what cites it.", artifactId=citations[0]["id"])
        if citations
        else next_call("list_active_plans", "List the open plans that could use it."),
    )


def _artifact(row: ArtifactRow, sources: Sequence[Row], args: _GetArtifact) -> Body:
    text = (
        row.content if isinstance(row.content, str) else json.dumps(row.content, ensure_ascii=False)
    )
    most = _MAX_DETAIL_CONTENT_BYTES if args.detail else _MAX_CONTENT_BYTES
    piece: Body = {"content": row.content, "left": 0}
    if args.offset or escaped_size(text) > most:
        cut = truncate(text[args.offset :], most)
        piece = {"content": cut, "left": max(0, len(text) - args.offset - len(cut))}
    # Text stored by a user must not become an argument of a suggested call.
    following = next_call("list_active_plans", "List the open plans that could use it.")
    if piece["left"]:
        upto = args.offset + len(str(piece["content"]))
        why = "Read the next part."
        following = next_call("get_artifact", why, artifactId=row.id, offset=upto)
    elif row.plan_id is not None:
        why = "Read the plan it belongs to."
        following = next_call("get_research_context", why, planId=row.plan_id)
    views = [
        non_empty(sourceId=source.id, **fields_of(source, "url title quote retrieved_at"))
        for source in sources
    ]
    return non_empty(
        artifactId=row.id,
        **fields_of(row, "plan_id step_id kind title version created_at created_by"),
        superseded=row.superseded or None,
        tags=row.tags or None,
        **_fit_metadata(row.metadata, views, args),
        earlierVersion=row.earlier,
        laterVersion=row.later,
        **piece,
        next=following,
    )


def _fit_metadata(metadata: Json, sources: list[Body], args: _GetArtifact) -> Body:
    """Return metadata and sources up to a size limit, and the call that returns the rest."""
    if args.offset and not args.detail:
        return {}
    included_sources: list[Body] = []
    left = _MAX_DETAIL_METADATA_BYTES if args.detail else _MAX_METADATA_BYTES
    for source in sources:
        left -= len(json.dumps(source))
        if left < 0:
            break
        included_sources.append(source)
    fits = left > 0 and len(json.dumps(metadata)) <= left
    fields = non_empty(metadata=metadata if fits else None, sources=cast("Json", included_sources))
    if len(included_sources) < len(sources) or (metadata is not None and not fits):
        left_out = sources[len(included_sources) :]
        rest: Body = {"artifactId": args.artifact_id, "detail": True}
        if args.detail and left_out:
            rest = {"artifactId": left_out[0]["sourceId"]}
        why = f"{len(left_out)} sources were left out"
        if not fits and metadata is not None:
            why += ", and the metadata"
        fields["cut"] = next_call("get_artifact", why, **rest)
    return fields
