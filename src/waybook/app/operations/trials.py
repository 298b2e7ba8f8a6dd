"""Self-tests of the server: a write, a search and a rendering, each rolled back."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.request.request_context import RequestContext
from waybook.app.request.search.portable_search import rank_packed
from waybook.app.request.search.search_backend import search_backend
from waybook.dag.templates.rendering import render
from waybook.errors import Unavailable, WaybookError
from waybook.json_values import Json
from waybook.research.embedding import Backend
from waybook.research.query import parse_query
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import new_id
from waybook.store.maintenance.migrate import attempt
from waybook.store.research import artifacts, embeddings, search
from waybook.store.research.artifacts import PassageDraft
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities, filters
from waybook.store.runs import jobs

#: Only this self-test uses this kind of artifact, so its search finds nothing else.
KIND = "waybook doctor"
TITLE = "Trial of the search"
TEXT = "A river carries sand from the mountains to the sea."
RANKED_BY = {
    Backend.PORTABLE: "ranked in this process",
    Backend.PGVECTOR: "ranked by pgvector",
}


async def try_everything(ctx: RequestContext) -> list[CheckResult]:
    return [
        await _tried("write", _write, ctx, "see the message, and PostgreSQL's log"),
        await _tried("search", _search, ctx, "see PostgreSQL's log; search_vectors = portable"),
        await _tried("render", _render, ctx, "see the message, and PostgreSQL's log"),
    ]


async def about_quarantine(ctx: RequestContext, *, everywhere: bool) -> CheckResult:
    """Check for passages that were left out of the index of semantic search."""
    database, left_out = ctx.services.database, 0
    orgs = await database.list_org_ids() if everywhere else [ctx.caller.org_id]
    for org_id in orgs:
        ((row,),) = await database.read_org(org_id, embeddings.count_statement())
        left_out += row.passages
    if not left_out:
        return CheckResult("indexing", CheckState.OK, "no passage is left out")
    message = (
        f"{left_out} passages are left out for a day: storing their vectors broke the connection"
    )
    todo = "see PostgreSQL's log; if pgvector does not run there: search_vectors = portable"
    return CheckResult("indexing", CheckState.WARN, message, todo)


async def _tried(
    name: str,
    trial: Callable[[RequestContext, Transaction], Awaitable[str]],
    ctx: RequestContext,
    todo: str,
) -> CheckResult:
    try:
        # This transaction is never committed, so the test leaves no data.
        async with ctx.services.database.org_transaction(ctx.caller.org_id) as tx:
            return CheckResult(name, CheckState.OK, await trial(ctx, tx))
    except WaybookError as error:
        return CheckResult(name, CheckState.FAIL, f"does not work: {error.message}", todo)


async def _write(ctx: RequestContext, tx: Transaction) -> str:
    pieces = _pieces()
    await attempt(tx, *artifacts.index_statements(pieces, None, ctx.caller.org_id))
    return "a passage was stored, and rolled back"


async def _search(ctx: RequestContext, tx: Transaction) -> str:
    library, org_id = search_backend(ctx.services), ctx.caller.org_id
    able = await library.capabilities(ctx.services.database, org_id)
    pieces = _pieces()
    meanings = await library.embed_passages(pieces, able)
    await attempt(tx, *artifacts.index_statements(pieces, meanings, org_id))
    wanted = pieces[0].subject.id
    if meanings is None:
        await _find(tx, None, SearchCapabilities(backend=None, indexed=able.indexed), wanted)
        return "full text alone (the embeddings endpoint does not answer)"
    query_vector = QueryVector(vector=meanings.vectors[0], model=meanings.model, org_id=org_id)
    await _find(tx, query_vector, able, wanted)
    return f"{able.describe}, {RANKED_BY[meanings.backend]}"


async def _find(
    tx: Transaction, query_vector: QueryVector | None, able: SearchCapabilities, wanted: str
) -> None:
    """Raise Unavailable unless every search method finds the test passage."""
    scope = Scope(kinds=(KIND,))
    question = await asyncio.to_thread(parse_query, TEXT)
    statements = search.search_statements(question, query_vector, scope, able)
    ranked = search.read_ranked(await attempt(tx, *statements))
    if query_vector is not None and able.backend is Backend.PORTABLE:
        few = embeddings.few_fitting_statement(query_vector.model, **filters(scope))
        (rows,) = await attempt(tx, few)
        packed = embeddings.read_few_fitting(rows) or b""
        ranked["meaning"] = await asyncio.to_thread(
            rank_packed, packed, query_vector.vector, search.MAX_RANKED
        )
    for by, passages in ranked.items():
        if wanted not in {passage.subject_id for passage in passages}:
            raise Unavailable(f"the search by {by} did not find a stored test passage")


async def _render(_: RequestContext, tx: Transaction) -> str:
    await attempt(tx, jobs.runs_to_render_statement(1))
    place: dict[str, Json] = {"document": {"title": TITLE}, "content": TEXT, "text": TEXT}
    rendered = await asyncio.to_thread(render, None, place)
    if TEXT not in rendered.html:
        raise Unavailable("the text is missing from a rendered test document")
    return "a document was rendered"


def _pieces() -> list[PassageDraft]:
    subject = artifacts.index_artifact(
        artifact_id=new_id(),
        plan_id=None,
        kind=KIND,
        title=TITLE,
        tags=(),
        text=TEXT,
        created_at=datetime.fromtimestamp(0, UTC),
    )
    return artifacts.split_subjects([subject])
