"""Searching what agents stored: by words and by meaning, both in one message.

By words: passages that have words of the question, ranked by how much of it they cover. By
meaning: passages whose vectors are nearest, ranked by pgvector where that is used, else in the
process by `usecases.portable_search`. Each comes back as a ranked list; `research.fusion` makes
one of them.

Which way is best depends on the values, on how many passages an org has and which filters are
set; so the server is told to plan each time, as it does not for anything else here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from waybook.research.embedding import Vector
from waybook.research.fusion import RankedPassage
from waybook.research.query import SearchQuery, Term
from waybook.store.driver.queries import AsJson, Ids, Rows, Statement, Value, load
from waybook.store.research import artifacts
from waybook.store.research.artifacts import SEPARATOR, Backend

SQL = load("research/search")

#: How long each ranked list may be.
MAX_RANKED = 50
#: How many passages with some of the words are looked at more closely.
CANDIDATES = 2_000
#: How many passages are looked at where no index can be asked: the newest of the org or the plan.
MAX_UNINDEXED_SCAN = 5_000
#: The share of a question that words must cover. Next to meaning, little is worth nothing: a
#: passage that shares one common word would push down one that says the same in other words.
MIN_TERM_WEIGHT_WITH_VECTORS = 0.4
MIN_TERM_WEIGHT = 0.2

#: In one transaction, before anything is searched.
SETTINGS = (
    "set local plan_cache_mode = force_custom_plan",
    # Else the index of words is crossed with that of the org, which tells nothing new.
    "set local random_page_cost = 1.1",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCapabilities:
    """What the server can do for search; it stays so while the program runs."""

    #: None if search goes by full text alone.
    backend: Backend | None
    #: Whether the index of words can be used, or the newest passages are looked at one by one.
    indexed: bool

    @property
    def vectors(self) -> bool:
        """Whether search goes by meaning too."""
        return self.backend is not None

    @property
    def describe(self) -> str:
        """In words, for whoever asks how search works here."""
        way = "full text and vectors" if self.vectors else "full text alone"
        reach = "" if self.indexed else f", words among the newest {MAX_UNINDEXED_SCAN:,} passages"
        return way + reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look: everywhere in the org, or less."""

    plan_id: str | None = None
    kinds: tuple[str, ...] = ()
    since: datetime | None = None
    #: All of these an artifact must have; a source has none.
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVector:
    """What a question means, as a vector of some model, and in which org it is asked."""

    vector: Vector
    model: str
    org_id: UUID


def capabilities_statement() -> Statement:
    """Ask what the server can do for search."""
    return SQL["search_capabilities"]()


def read_capabilities(rows: Sequence[Sequence[Any]], wanted: str = "auto") -> SearchCapabilities:
    """Return what the server can do, with the backend that is wanted: auto, or one by name."""
    ((has_pgvector, indexed),) = rows
    best = Backend.PGVECTOR if has_pgvector else Backend.PORTABLE
    backend = best if wanted == "auto" else Backend(wanted)
    return SearchCapabilities(backend=backend, indexed=bool(indexed))


def search_statements(
    question: SearchQuery, meant: QueryVector | None, scope: Scope, abilities: SearchCapabilities
) -> list[Statement | str]:
    """Rank passages by words, then by meaning with pgvector: one message, for `read_ranked`.

    Send them in a transaction of their own: they leave settings behind until its end.
    """
    beside = abilities.vectors and meant is not None
    by_words = _by_words(question, scope, abilities, beside=beside)
    asked: list[Statement | str] = [*SETTINGS, by_words]
    if meant is not None and abilities.backend is Backend.PGVECTOR:
        asked += [*artifacts.SETTINGS, _by_meaning(meant, scope)]
    return asked


def read_ranked(results: Sequence[Sequence[Sequence[Any]]]) -> dict[str, list[RankedPassage]]:
    """The ranked lists, by what ranked them; that by meaning only if pgvector made one."""
    place = len(SETTINGS)
    ranked = {"words": [_found(row) for row in results[place]]}
    if len(results) > place + 1:
        ranked["meaning"] = [_found(row, at_home=artifacts.ORG_WEIGHT) for row in results[-1]]
    return ranked


def _found(row: Sequence[Any], *, at_home: float = 0) -> RankedPassage:
    return RankedPassage(subject_id=row[0], part=row[1], measure=row[2] - at_home)


def hits_statement(found: Iterable[tuple[str, int]]) -> Statement:
    """What these subjects are, each with the passage that stands for it; at least one."""
    return SQL["hits"](rows=Rows([*found]))


def plan_exists_statement(plan_id: str | None) -> Statement:
    """Whether there is such a plan; none is always there."""
    return SQL["plan_exists"](plan_id=plan_id)


def sources_statement(artifact_ids: Iterable[str]) -> Statement:
    """Where these artifacts came from."""
    return SQL["sources_of"](ids=Ids(artifact_ids))


def _by_words(
    question: SearchQuery, scope: Scope, abilities: SearchCapabilities, *, beside: bool
) -> Statement:
    least = MIN_TERM_WEIGHT_WITH_VECTORS if beside else MIN_TERM_WEIGHT
    asked: dict[str, Value] = {
        **filters(scope),
        "every": question.text,
        "some": " or ".join(_either(term) for term in question.required_terms(least)),
        "terms": AsJson([{"query": _either(t), "weight": t.weight} for t in question.terms]),
        "least": least,
        "most": MAX_RANKED,
    }
    if abilities.indexed and scope.plan_id is None:
        return SQL["full_text"](candidates=CANDIDATES, **asked)
    return SQL["full_text_in_plan"](plan_id=scope.plan_id, newest=MAX_UNINDEXED_SCAN, **asked)


def _by_meaning(meant: QueryVector, scope: Scope) -> Statement:
    asked: dict[str, Value] = {
        **filters(scope),
        "embedding": artifacts.encode_vector(meant.vector, meant.org_id),
        "model": meant.model,
        "most": MAX_RANKED,
    }
    if scope.plan_id is None:
        return artifacts.nearest_statement(**asked)
    return artifacts.nearest_in_plan_statement(
        plan_id=scope.plan_id, newest=MAX_UNINDEXED_SCAN, **asked
    )


def filters(scope: Scope) -> dict[str, Value]:
    """Return the values of `passage_fits`, each None where the scope sets no limit."""
    return {
        "kinds": SEPARATOR.join(scope.kinds) or None,
        "since": scope.since,
        "tags": SEPARATOR.join(scope.tags) or None,
    }


def _either(term: Term) -> str:
    return f"{term.text} or {term.correction}" if term.correction else term.text
