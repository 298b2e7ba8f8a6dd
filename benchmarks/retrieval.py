"""Retrieval quality of full-text search, vector search, and fused search, which merges both.

The corpus in the folder `retrieval` has 257 notes on fifty topics and 196 questions, each with the
note that answers it. Questions are paraphrases that share few words with the note, keywords, or
keywords with typos. The searches run on the embedded PostgreSQL, with the database role and the SQL
statements of a Waybook server. `recall@3` is the share of questions whose note is among the first
three hits; MRR is the mean reciprocal rank. Fused search must be the best of the three.

Waybook ranks quantized vectors in the process. The result is compared with pgvector, in a temporary
database on the server of `--pgvector-url` (the URL of a superuser). Without that option, the result
is compared with an exact ranking of floats. Recall@10 and MRR of Waybook may be lower by up to
0.02.

    python benchmarks/retrieval.py [--pgvector-url URL]
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import uvloop
from psycopg.conninfo import make_conninfo

from waybook.accounts.model import LOCAL_ORG
from waybook.app.request.search_backend import PortableSearch, VectorCache
from waybook.application import database_server, open_database
from waybook.cli.demo.environment import temporary_database
from waybook.research.embedding import Backend, builtin_embedder, cosine_similarity
from waybook.research.fusion import MIN_SCORE, RankedPassage, fuse
from waybook.research.query import parse_query
from waybook.settings_reading import read_settings
from waybook.store.driver.database import Database
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.migrate import migrate
from waybook.store.research import artifacts, search
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities

#: Minimum recall@3 of fused search, which merges full-text search and vector search.
MIN_RECALL = 0.85
FIRST = 3
#: Maximum difference by which recall@10 and MRR may be lower than with pgvector or exact ranking.
MAX_DIFFERENCE = 0.02
NEAREST = 10
CORPUS = Path(__file__).with_name("retrieval")
EMBEDDER = builtin_embedder()
#: Search methods: the key of each method's ranked list, with the name of the method.
METHODS = {"words": "full text", "meaning": "vectors", "fused": "fused"}
#: Ranks of the relevant notes, by search method and kind of question.
Ranks = Mapping[tuple[str, str], list[float]]
#: Function that searches for a question, and returns the ranked list of each method.
Search = Callable[[str], Awaitable[dict[str, list[RankedPassage]]]]


def read_lines(name: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a file of the corpus."""
    return [json.loads(line) for line in (CORPUS / name).read_text("utf-8").splitlines()]


async def store(database: Database, backend: Backend) -> dict[str, str]:
    """Store the notes; return their ids."""
    ids = {}
    for note in read_lines("passages.jsonl"):
        ids[note["id"]] = new_uuid()
        subject = artifacts.index_artifact(
            artifact_id=ids[note["id"]],
            plan_id=None,
            kind="note",
            title=note["title"],
            tags=(),
            text=note["text"],
            created_at=datetime(2030, 1, 1, tzinfo=UTC),
        )
        pieces = artifacts.split_subjects([subject])
        vectors = [EMBEDDER.embed(piece.embedding_text) for piece in pieces]
        embeddings = artifacts.Embeddings(EMBEDDER.model, vectors, backend)
        async with database.org_transaction(LOCAL_ORG) as tx:
            await tx.commit(*artifacts.index_statements(pieces, embeddings, LOCAL_ORG))
    return ids


def make_search(
    database: Database, capabilities: SearchCapabilities, org_id: UUID = LOCAL_ORG
) -> Search:
    """Return a function that searches an org with this backend, as the product does."""
    cache = VectorCache()

    async def search_notes(query: str) -> dict[str, list[RankedPassage]]:
        question = parse_query(query)
        vector = EMBEDDER.embed(question.embedding_text)
        query_vector = QueryVector(vector=vector, model=EMBEDDER.model, org_id=org_id)
        statements = search.search_statements(question, query_vector, Scope(), capabilities)
        if capabilities.backend is Backend.PGVECTOR:
            return search.read_ranked(await database.read_org(org_id, *statements))
        portable = PortableSearch(cache, database, query_vector, Scope())
        results = await database.read_org(org_id, *statements, *await portable.begin())
        ranked = search.read_ranked(results[: len(statements)])
        return {**ranked, "meaning": await portable.finish(results[len(statements) :])}

    return search_notes


def make_exact_search(search_notes: Search, ids: Mapping[str, str]) -> Search:
    """Return a function that ranks vectors exactly, and uses the product's full-text search."""
    notes = {
        ids[note["id"]]: EMBEDDER.embed(artifacts.embedding_text(note["title"], note["text"]))
        for note in read_lines("passages.jsonl")
    }

    async def search_exactly(query: str) -> dict[str, list[RankedPassage]]:
        vector = EMBEDDER.embed(parse_query(query).embedding_text)
        ranked = [
            RankedPassage(subject_id=note_id, part=1, measure=cosine_similarity(vector, note))
            for note_id, note in notes.items()
        ]
        best = sorted(ranked, key=lambda passage: (-passage.measure, passage.subject_id))
        return {**await search_notes(query), "meaning": best[: search.MAX_RANKED]}

    return search_exactly


async def rank_notes(search_notes: Search, ids: Mapping[str, str]) -> Ranks:
    """Search for all questions; return the ranks of the relevant notes."""
    ranks: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in read_lines("queries.jsonl"):
        lists = await search_notes(line["query"])
        ordered = {method: [p.subject_id for p in passages] for method, passages in lists.items()}
        ordered["fused"] = [hit.subject_id for hit in fuse(lists) if hit.score >= MIN_SCORE]
        wanted = ids[line["relevant"][0]]
        for method, order in ordered.items():
            rank = order.index(wanted) + 1 if wanted in order else float("inf")
            for kind in ("all", line["kind"]):
                ranks[method, kind].append(rank)
    return ranks


async def on_server(url: str | None, backend: Backend) -> tuple[Ranks, Ranks]:
    """Return the ranks of the relevant notes in the product's search, and with exact vectors."""
    with temporary_database() as folder:
        options = {"database_url": url} if url else {"data_dir": str(folder)}
        settings = read_settings(options, {}).settings
        async with database_server(settings) as postgres:
            migrate(postgres.owner_dsn)
            async with open_database(postgres, settings) as database:
                ids = await store(database, backend)
                (rows,) = await database.read_org(LOCAL_ORG, search.SQL["search_capabilities"]())
                search_notes = make_search(database, search.read_capabilities(rows, backend))
                exact_search = make_exact_search(search_notes, ids)
                return await rank_notes(search_notes, ids), await rank_notes(exact_search, ids)


async def with_pgvector(url: str) -> Ranks:
    """Return the ranks of the relevant notes by a search on a server with pgvector."""
    name = f"waybook_bench_{new_uuid().replace('-', '')}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        try:
            dsn = make_conninfo(url, dbname=name)
            with psycopg.connect(dsn, autocommit=True) as inside:
                inside.execute("create extension vector")
                inside.execute("alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof")
            ranks, _ = await on_server(dsn, Backend.PGVECTOR)
            return ranks
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


async def main(url: str | None) -> None:
    """Compare the search methods, and the product's vectors with pgvector or an exact ranking."""
    ranks, exact = await on_server(None, Backend.PORTABLE)
    report(ranks)
    if url:
        compare(ranks, await with_pgvector(url), "pgvector")
    else:
        print("pgvector was not measured: pass --pgvector-url with a server that has it")
        compare(ranks, exact, "exact floats")


def report(ranks: Ranks) -> None:
    """Print recall@3 and MRR of each method and kind of question.

    Raises:
        AssertionError: fused search is below the limit or not the best method.
    """
    kinds = [*dict.fromkeys(kind for _, kind in ranks)]
    print(f"{'recall@3 / MRR':16}" + "".join(f"{kind:>18}" for kind in kinds))
    for method, label in METHODS.items():
        cells = (
            f"{recall(ranks[method, kind]):.3f} / {mrr(ranks[method, kind]):.3f}" for kind in kinds
        )
        print(f"{label:16}" + "".join(f"{cell:>18}" for cell in cells))
    fused = recall(ranks["fused", "all"]), mrr(ranks["fused", "all"])
    print(f"{'limit':16}{MIN_RECALL:10.2f}")
    assert fused[0] >= MIN_RECALL, f"recall@3 is {fused[0]:.3f}; the limit is {MIN_RECALL}"
    for method in ("words", "meaning"):
        alone = recall(ranks[method, "all"]), mrr(ranks[method, "all"])
        assert all(a > b for a, b in zip(fused, alone, strict=True)), (
            f"{method} alone is better than fused search"
        )


def compare(portable: Ranks, other: Ranks, label: str) -> None:
    """Print recall@10 and MRR of the product's search and of the search to compare it with.

    Raises:
        AssertionError: the product's search is worse by more than the limit.
    """
    print(f"\n{f'recall@{NEAREST} / MRR':16}{'portable':>18}{label:>18}")
    for method in ("meaning", "fused"):
        both = [
            (recall(ranks[method, "all"], NEAREST), mrr(ranks[method, "all"]))
            for ranks in (portable, other)
        ]
        cells = "".join(f"{f'{share:.3f} / {mean:.3f}':>18}" for share, mean in both)
        print(f"{METHODS[method]:16}{cells}")
        for own, expected in zip(*both, strict=True):
            assert own >= expected - MAX_DIFFERENCE, (
                f"{method}: {own:.3f} is more than {MAX_DIFFERENCE} below {expected:.3f} of {label}"
            )


def recall(ranks: list[float], first: int = FIRST) -> float:
    return sum(rank <= first for rank in ranks) / len(ranks)


def mrr(ranks: list[float]) -> float:
    return sum(1 / rank for rank in ranks) / len(ranks)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pgvector-url")
    uvloop.run(main(parser.parse_args().pgvector_url))
