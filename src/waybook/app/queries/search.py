"""Searches stored research, plans and runs by words, and research also by meaning.

Search by meaning needs an embedding model and its vectors of the stored research.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, cast

from waybook.app.request.definition_cache import builtin_dags
from waybook.app.request.reply import fit_views, next_call
from waybook.app.request.request_context import RequestContext, not_found, uuid_or_nil
from waybook.app.request.search_backend import PortableSearch, search_backend
from waybook.core.ids import is_id, normalize_id
from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.json_values import Body, Json, fields_of, format_time, non_empty
from waybook.research.embedding import Backend, StaticEmbedder
from waybook.research.excerpts import (
    Piece,
    SearchWords,
    mark_words,
    matching_sentence,
    parse_words,
)
from waybook.research.fusion import MIN_SCORE, WEIGHTS, Hit, MatchReason, fuse
from waybook.research.passages import json_to_text
from waybook.research.query import SearchQuery, Snippet, build_snippet, parse_query
from waybook.store import text_search
from waybook.store.agents import NameRow, names_statement
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Ids, Row, Statement, first_value
from waybook.store.research import artifacts, search
from waybook.store.research.artifacts import ArtifactRow
from waybook.store.research.search import QueryVector, Scope
from waybook.store.text_search import TextQuery


class SearchResults(NamedTuple):
    question: SearchQuery
    hits: list[Hit]
    #: Hits whose score is high enough. For embedding models that are not built in, these are all
    #: hits, because the scale of their scores is unknown.
    fitting_hits: list[Hit]
    method: str


async def run_search(
    ctx: RequestContext,
    text: str,
    scope: Scope,
    *extra_statements: Statement,
    semantic: bool = True,
) -> tuple[SearchResults, Results]:
    """Return the hits for a text, best first, and the results of `extra_statements`."""
    library, org_id = search_backend(ctx.services), ctx.caller.org_id
    able = await library.capabilities(ctx.services.database, org_id)
    question = await asyncio.to_thread(parse_query, text)
    wants_vectors = able.vectors and semantic
    made = await library.embed_texts([question.embedding_text]) if wants_vectors else None
    query_vector = (
        QueryVector(vector=made[0], model=library.model.name, org_id=org_id) if made else None
    )
    statements = search.search_statements(question, query_vector, scope, able)
    if query_vector is not None and able.backend is Backend.PORTABLE:
        portable = PortableSearch(library.cache, ctx.services.database, query_vector, scope)
        more = await portable.begin()
        results = await ctx.read(*extra_statements, *statements, *more)
        split = len(results) - len(more)
        ranked = search.read_ranked(results[len(extra_statements) : split])
        ranked["meaning"] = await portable.finish(results[split:])
    else:
        results = await ctx.read(*extra_statements, *statements)
        ranked = search.read_ranked(results[len(extra_statements) :])
    down = wants_vectors and query_vector is None
    how = "full text alone (the embeddings endpoint does not answer)" if down else able.describe
    builtin = query_vector is None or query_vector.model == StaticEmbedder.model
    hits, floor = fuse(ranked), MIN_SCORE if builtin else 0
    fitting_hits = [hit for hit in hits if hit.score >= floor]
    search_results = SearchResults(question, hits, fitting_hits, how)
    return search_results, results[: len(extra_statements)]


MAX_QUERY_LENGTH: Final = 1_000
_MAX_HITS_BYTES: Final = 42_000
_MAX_MATCHED_WORDS: Final = 12


async def search_research(
    ctx: RequestContext, query: str, scope: Scope, *, limit: int, cursor: int = 0
) -> Body:
    """Return the hits from position `cursor` on, as a reply of the tool `search_sources`."""
    exists = search.SQL["plan_exists"](plan_id=scope.plan_id)
    results, (there,) = await run_search(ctx, query, scope, exists)
    if not first_value(there):
        raise not_found("plan")
    hits = results.fitting_hits
    rows: Sequence[Row] = ()
    if hits:
        (rows,) = await ctx.read(search.hits_statement(hits, cursor, limit))
    by_id = {hit.subject_id: hit for hit in hits}
    found = [
        _view(
            results.question,
            [by_id[item] for item in (row.id, *(row.matching_sources or ()))],
            row,
        )
        for row in rows
    ]
    views = fit_views(found, _MAX_HITS_BYTES)
    upto = cursor + len(views)
    return non_empty(
        hits=views,
        searched=results.method,
        message=None if hits else "No stored research fits this query.",
        nextCursor=upto if rows and upto < rows[0].hits else None,
        next=_next_of_hits(query, scope, views),
    )


def _view(question: SearchQuery, hits: list[Hit], row: Row) -> Body:
    shown = build_snippet(row.body, question)
    # For each search method, keep the best reason why the artifact or a source was found.
    reasons = sorted((reason for hit in hits for reason in hit.why), key=lambda r: -r.rank)
    best = {reason.by: reason for reason in reasons}
    return non_empty(
        **fields_of(row, "id subject kind title version plan_id step_id url created_at created_by"),
        tags=row.tags or None,
        superseded=row.superseded or None,
        snippet=shown.highlight(),
        why=[_why(best[by], shown) for by in WEIGHTS if by in best],
        sources=[_source_of_hit(source) for source in row.sources or ()] or None,
        moreSources=row.source_count - len(row.sources or ()) or None,
        read={"tool": "get_artifact", "args": {"artifactId": row.id}},
    )


def _source_of_hit(source: Json) -> Body:
    """Return a source with its time in UTC, not in the time zone of the database."""
    body = cast("Body", source)
    at = body.get("retrievedAt")
    if at is None:
        return body
    return {**body, "retrievedAt": format_time(datetime.fromisoformat(str(at)).astimezone(UTC))}


def _why(reason: MatchReason, shown: Snippet) -> Json:
    if reason.by == "meaning":
        return {"by": reason.by, "rank": reason.rank, "nearness": round(reason.score, 3)}
    words = dict.fromkeys(shown.text[start:end].lower() for start, end in shown.marks)
    return {
        "by": reason.by,
        "rank": reason.rank,
        "covers": round(min(reason.score, 1), 3),
        "words": cast("Json", [*words][:_MAX_MATCHED_WORDS]),
    }


def _next_of_hits(query: str, scope: Scope, views: list[Json]) -> Json:
    if views:
        best = cast("Body", views[0])
        return next_call("get_artifact", "Read the best hit in full.", artifactId=best["id"])
    if scope != Scope():
        return next_call("search_sources", "Search again without filters.", query=query)
    return next_call("store_research", "Store what you find out about this.")


__all__ = ["ArtifactRow", "Piece", "Scope"]

MAX_TEXT_LENGTH: Final = 500
MAX_NAME_LENGTH: Final = 200
_MAX_PREFIXES: Final = 60


class HitKind(StrEnum):
    PLAN = "plan"
    RUN = "run"
    STEP = "step"
    RESULT = "result"
    DOCUMENT = "document"
    RESEARCH = "research"
    WORKFLOW = "workflow"
    JOB = "job"


#: Kinds of hits, in the order in which a text search returns its results.
_STORED_KINDS = (HitKind.PLAN, HitKind.RUN, HitKind.STEP, HitKind.RESULT, HitKind.DOCUMENT)


class SearchHit(NamedTuple):
    kind: HitKind
    id: str
    name: tuple[Piece, ...]
    #: Name of the plan or run that contains the hit, kind of research, or slug of the workflow.
    place: str | None
    excerpt: tuple[Piece, ...]
    at: datetime | None
    plan_id: str | None = None
    step_id: str | None = None
    run_id: str | None = None
    job_id: str | None = None
    resource_id: str | None = None


class SearchGroup(NamedTuple):
    kind: HitKind
    hits: tuple[SearchHit, ...]
    has_more: bool


async def search_everything(
    ctx: RequestContext, text: str, *, limit: int, semantic: bool
) -> list[SearchGroup]:
    """Return the best hits of each kind for a text."""
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidInput(
            f"a search has at most {MAX_TEXT_LENGTH} characters; this one has {len(text):,}"
        )
    wanted = parse_words(text)
    if not wanted.words:
        return []
    library = search_backend(ctx.services)
    able = await library.capabilities(ctx.services.database, ctx.caller.org_id)
    statements = text_search.text_search_statements(
        text_query(text), limit + 1, indexed=able.indexed
    )
    workflows, *results = await ctx.read(text_search.SQL["workflows"](), *statements)
    groups = {
        kind: [_stored_hit(kind, row, wanted) for row in rows]
        for kind, rows in zip(_STORED_KINDS, text_search.read_hits(results), strict=True)
    }
    groups[HitKind.RESEARCH] = await _research(ctx, text, wanted, limit + 1, semantic=semantic)
    groups[HitKind.WORKFLOW] = _workflows(workflows, wanted)
    if identified := text_query(text).id:
        (rows,) = await ctx.read(names_statement({identified}))
        groups[HitKind.JOB] = [_job(row) for row in rows if row.kind == "job"]
    return [
        SearchGroup(kind=kind, hits=tuple(hits[:limit]), has_more=len(hits) > limit)
        for kind, hits in groups.items()
        if hits
    ]


_PREFIX = re.compile(r"[^\W_]+$")
#: Search operators. If a text contains an operator, its last word is not matched as a prefix.
_SYNTAX = re.compile(r'["]|(?:^|\s)-|\bor\b', re.IGNORECASE)


def text_query(text: str) -> TextQuery:
    """Split a search text into the parts that the SQL statements of a search need.

    >>> query = text_query("glacial lak")
    >>> query.before_last, query.last, query.beginnings
    ('glacial ', 'lak:*', 'glacial:* & lak:*')
    """
    words = re.findall(r"[^\W_]+", text)[:_MAX_PREFIXES]
    last = None if _SYNTAX.search(text) else _PREFIX.search(text)
    return TextQuery(
        text=text,
        before_last=text[: last.start()] if last else None,
        last=f"{last[0]}:*" if last else None,
        beginnings=" & ".join(f"{word}:*" for word in words) if last else None,
        id=usual if is_id(usual := normalize_id(text)) else None,
    )


def _stored_hit(kind: HitKind, row: Row, wanted: SearchWords) -> SearchHit:
    return SearchHit(
        kind=kind,
        id=row.id,
        name=_name(row.name, wanted),
        place=row.place,
        excerpt=matching_sentence(json_to_text(row.body), wanted),
        at=row.at,
        plan_id=row.plan_id,
        step_id=row.step_id,
        run_id=row.run_id,
        job_id=row.job_id,
        resource_id=row.resource_id,
    )


def _job(row: NameRow) -> SearchHit:
    name = (Piece(row.name, is_match=False),)
    return SearchHit(HitKind.JOB, row.id, name, None, (), None, run_id=row.work_id, job_id=row.id)


def _name(name: str, wanted: SearchWords) -> tuple[Piece, ...]:
    short = name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1].rstrip()}…"
    return mark_words(short, wanted)


async def _research(
    ctx: RequestContext, text: str, wanted: SearchWords, most: int, *, semantic: bool
) -> list[SearchHit]:
    results, _ = await run_search(ctx, text, Scope(), semantic=semantic)
    if not results.fitting_hits:
        return []
    statement = search.hits_statement(results.fitting_hits, 0, most)
    rows: Sequence[Row] = (await ctx.read(statement))[0]
    return [
        SearchHit(
            kind=HitKind.RESEARCH,
            id=row.id,
            name=_name(row.title, wanted),
            place="source" if row.subject == "source" else row.kind,
            excerpt=matching_sentence(row.body, wanted),
            at=row.created_at,
            plan_id=row.plan_id,
            step_id=row.step_id,
        )
        for row in rows
    ]


def _workflows(rows: Iterable[Row], wanted: SearchWords) -> list[SearchHit]:
    """Return workflows for which each wanted word begins a word of the name or slug."""
    named = {slug: (dag.dag.name or slug, None) for slug, dag in builtin_dags().items()}
    stored = {row.slug: (row.name or row.slug, row.at) for row in rows}
    everything: dict[str, tuple[str, datetime | None]] = {**named, **stored}
    return [
        SearchHit(
            kind=HitKind.WORKFLOW, id=slug, name=_name(name, wanted), place=slug, excerpt=(), at=at
        )
        for slug, (name, at) in sorted(everything.items())
        if all(
            any(word.startswith(part) for word in parse_words(f"{name} {slug}").words)
            for part in wanted.words
        )
    ]


MAX_CITATIONS: Final = 20


async def read_research_item(ctx: RequestContext, item_id: str) -> tuple[Row, Sequence[Row]]:
    """Return an artifact and its sources, or a source with the artifacts that cite it."""
    item_id = uuid_or_nil(item_id)
    artifact_rows, sources, source_rows = await ctx.read(
        artifacts.SQL["artifact"](artifact_id=item_id),
        search.SQL["sources_of"](ids=Ids([item_id])),
        artifacts.SQL["source"](source_id=item_id, most=MAX_CITATIONS),
    )
    if not artifact_rows and not source_rows:
        raise NotFound(
            "there is no artifact or source with this id here",
            next_call=NextCall("search_sources", {}, "Search for it; every hit has its id."),
        )
    return (artifact_rows or source_rows)[0], sources
