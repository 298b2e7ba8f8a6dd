"""Full-text and semantic search over stored research, in one database round trip.

Full-text search ranks passages by BM25, in which words that are rare in the org weigh more.
Semantic search ranks passages by vector similarity: in the database with pgvector, or else in this
process with `app.request.search_backend`. `research.fusion` merges the two ranked lists.

The best query plan depends on the search terms, the filters and the number of passages, so
PostgreSQL plans these queries again for each set of parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from waybook.errors import Misconfigured
from waybook.research.embedding import Backend, Vector
from waybook.research.fusion import Hit, RankedPassage
from waybook.research.query import SearchQuery, Term
from waybook.store.driver.queries import AsJson, Row, Statement, Value, load
from waybook.store.research import artifacts
from waybook.store.research.artifacts import SEPARATOR
from waybook.store.research.embeddings import ORG_WEIGHT, encode_vector

SQL = load("research/search", full_text=RankedPassage, full_text_in_plan=RankedPassage)

MAX_RANKED = 50
#: Maximum number of sources that are named for a hit.
MAX_SOURCES = 3
#: A search ranks at most this many passages with some words of the query, and at most this many
#: passages with all words.
CANDIDATES = 2_000
#: The terms of a query are divided into light and heavy terms. The light terms are the most common
#: words of the query, and their weights add up to less than this. Passages with a heavy term are
#: ranked first.
_MAX_LIGHT_WEIGHT = 0.4
#: Without the full-text index, a search reads only this many passages, the newest ones.
MAX_UNINDEXED_SCAN = 5_000
SETTINGS = (
    "set local plan_cache_mode = force_custom_plan",
    # With the default page cost, PostgreSQL would also use a second index, which makes no search
    # faster.
    "set local random_page_cost = 1.1",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCapabilities:
    """Search features of the database server."""

    backend: Backend | None
    indexed: bool

    @property
    def vectors(self) -> bool:
        return self.backend is not None

    @property
    def describe(self) -> str:
        way = "full text and vectors" if self.vectors else "full text alone"
        reach = "" if self.indexed else f", words among the newest {MAX_UNINDEXED_SCAN:,} passages"
        return way + reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Search filters. Without filters, the search covers the whole org."""

    plan_id: str | None = None
    kinds: tuple[str, ...] = ()
    since: datetime | None = None
    #: An artifact must have all of these tags. Sources have no tags, so they do not match.
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVector:
    vector: Vector
    model: str
    org_id: UUID


def read_capabilities(rows: list[Row], wanted: str = "auto") -> SearchCapabilities:
    """Return the search features of the server. `wanted` is a backend, or "auto" for the best one.

    Raises:
        Misconfigured: the database lacks the wanted backend.
    """
    (row,) = rows
    best = Backend.PGVECTOR if row.has_pgvector else Backend.PORTABLE
    backend = best if wanted == "auto" else Backend(wanted)
    if backend is Backend.PGVECTOR and not row.has_pgvector:
        raise Misconfigured(
            "search_vectors is pgvector, but this PostgreSQL has no extension vector, version 0.8 "
            "or later: run create extension vector there and then waybook migrate, or set "
            "search_vectors to auto"
        )
    return SearchCapabilities(backend=backend, indexed=bool(row.indexed))


def search_statements(
    question: SearchQuery,
    query_vector: QueryVector | None,
    scope: Scope,
    abilities: SearchCapabilities,
) -> list[Statement | str]:
    """Return the full-text query of a search and, with pgvector, the semantic query.

    They must run in a transaction of their own, because they change its settings.
    """
    statements: list[Statement | str] = [*SETTINGS, _by_words(question, scope, abilities)]
    if query_vector is not None and abilities.backend is Backend.PGVECTOR:
        statements += [*artifacts.SETTINGS, _by_meaning(query_vector, scope)]
    return statements


def read_ranked(results: Sequence[list[RankedPassage]]) -> dict[str, list[RankedPassage]]:
    place = len(SETTINGS)
    ranked = {"words": results[place]}
    if len(results) > place + 1:
        ranked["meaning"] = [row._replace(measure=row.measure - ORG_WEIGHT) for row in results[-1]]
    return ranked


def hits_statement(hits: Sequence[Hit], start: int, most: int) -> Statement:
    ranked = [
        {"subject_id": hit.subject_id, "part": hit.part, "place": place}
        for place, hit in enumerate(hits)
    ]
    return SQL["hits"](ranked=AsJson(ranked), start=start, most=most, sources=MAX_SOURCES)


def _by_words(question: SearchQuery, scope: Scope, abilities: SearchCapabilities) -> Statement:
    heavy, light = question.split_terms(_MAX_LIGHT_WEIGHT)
    values: dict[str, Value] = {
        **filters(scope),
        "every": question.text,
        "heavy": " or ".join(map(_either, heavy)),
        "light": " or ".join(map(_either, light)),
        "terms": AsJson(
            [
                {"query": _either(term), "spellings": 2 if term.correction else 1}
                for term in question.terms
            ]
        ),
        "most": MAX_RANKED,
    }
    if abilities.indexed and scope.plan_id is None:
        return SQL["full_text"](candidates=CANDIDATES, **values)
    return SQL["full_text_in_plan"](plan_id=scope.plan_id, newest=MAX_UNINDEXED_SCAN, **values)


def _by_meaning(query_vector: QueryVector, scope: Scope) -> Statement:
    values: dict[str, Value] = {
        **filters(scope),
        "embedding": encode_vector(query_vector.vector, query_vector.org_id),
        "model": query_vector.model,
        "most": MAX_RANKED,
    }
    if scope.plan_id is None:
        return artifacts.SQL["nearest_vectors"](few=artifacts.MAX_EXACT_SCAN, **values)
    return artifacts.SQL["nearest_vectors_in_plan"](
        plan_id=scope.plan_id, newest=MAX_UNINDEXED_SCAN, **values
    )


def filters(scope: Scope) -> dict[str, Value]:
    return {
        "kinds": SEPARATOR.join(scope.kinds) or None,
        "since": scope.since,
        "tags": SEPARATOR.join(scope.tags) or None,
    }


def _either(term: Term) -> str:
    return f"{term.text} or {term.correction}" if term.correction else term.text
