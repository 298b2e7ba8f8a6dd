"""Retrieval quality of full-text, vector and fused search.

The corpus next to this file has 257 notes on fifty topics and 196 questions, each with the note
that answers it: paraphrases that share few words with it, keywords, and keywords with typos. All
are asked on the embedded server, as the serving role, with the statements search uses. `recall@3`
is the share of questions whose note is among the first three; MRR is the mean reciprocal rank.
Fused search must be the best of the three.

Vectors are ranked in the process, from quantized rows. The result is compared with pgvector, in a
database created for it on a server whose superuser's URL is given; without a URL, with exact
ranking of floats instead. Recall@10 and MRR may differ by 0.02.

    python benchmarks/retrieval.py [--pgvector-url URL]
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import uvloop
from psycopg.conninfo import make_conninfo

from waybook.accounts.model import LOCAL_ORG
from waybook.app.request.portable_search import PortableSearch
from waybook.app.request.vector_cache import VectorCache
from waybook.bootstrap import database_server, open_database
from waybook.cli.demo.environment import temporary_database
from waybook.research.embedding import builtin_embedder, cosine_similarity
from waybook.research.fusion import RankedPassage, fuse
from waybook.research.query import parse_query
from waybook.settings_reading import read_settings
from waybook.store.driver.database import Database
from waybook.store.driver.queries import new_id
from waybook.store.maintenance.migrate import migrate
from waybook.store.research import artifacts, search
from waybook.store.research.artifacts import Backend
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities

LIMIT = 0.85
FIRST = 3
#: Maximum difference of recall@10 and MRR from those of the peer.
MAX_DIFFERENCE = 0.02
NEAREST = 10
CORPUS = Path(__file__).with_name("retrieval")
EMBEDDER = builtin_embedder()
WAYS = {"words": "full text", "meaning": "vectors", "fused": "fused"}
#: Ranks of the relevant notes, by search method and kind of question.
Places = Mapping[tuple[str, str], list[float]]
#: Function from a question to its ranked lists.
Ask = Callable[[str], Awaitable[dict[str, list[RankedPassage]]]]


def lines(name: str) -> list[dict[str, Any]]:
    """Return the lines of a file of the corpus."""
    return [json.loads(line) for line in (CORPUS / name).read_text("utf-8").splitlines()]


async def store(database: Database, backend: Backend) -> dict[str, str]:
    """Store the notes and return their ids."""
    ids = {}
    for note in lines("passages.jsonl"):
        ids[note["id"]] = new_id()
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
        made = [EMBEDDER.embed(piece.embedding_text) for piece in pieces]
        meanings = artifacts.Embeddings(EMBEDDER.model, made, backend)
        async with database.org_transaction(LOCAL_ORG) as tx:
            await tx.commit(*artifacts.index_statements(pieces, meanings, LOCAL_ORG))
    return ids


def asking(database: Database, abilities: SearchCapabilities) -> Ask:
    """Return a search function as Waybook uses it, with this backend."""
    cache = VectorCache()

    async def ask(query: str) -> dict[str, list[RankedPassage]]:
        question = parse_query(query)
        vector = EMBEDDER.embed(question.embedding_text)
        meant = QueryVector(vector=vector, model=EMBEDDER.model, org_id=LOCAL_ORG)
        asked = search.search_statements(question, meant, Scope(), abilities)
        if abilities.backend is Backend.PGVECTOR:
            return search.read_ranked(await database.read_org(LOCAL_ORG, *asked))
        portable = PortableSearch(cache, database, meant, Scope())
        results = await database.read_org(LOCAL_ORG, *asked, *await portable.begin())
        ranked = search.read_ranked(results[: len(asked)])
        return {**ranked, "meaning": await portable.finish(results[len(asked) :])}

    return ask


def exactly(ask: Ask, ids: Mapping[str, str]) -> Ask:
    """Return a search function with vectors ranked as floats and full-text search unchanged."""
    notes = {
        ids[note["id"]]: EMBEDDER.embed(artifacts.embedding_text(note["title"], note["text"]))
        for note in lines("passages.jsonl")
    }

    async def ask_exactly(query: str) -> dict[str, list[RankedPassage]]:
        vector = EMBEDDER.embed(parse_query(query).embedding_text)
        near = [
            RankedPassage(subject_id=one, part=1, measure=cosine_similarity(vector, made))
            for one, made in notes.items()
        ]
        best = sorted(near, key=lambda found: (-found.measure, found.subject_id))
        return {**await ask(query), "meaning": best[: search.MAX_RANKED]}

    return ask_exactly


async def places_of(ask: Ask, ids: Mapping[str, str]) -> Places:
    """Ask all questions and return the ranks of the relevant notes."""
    places: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in lines("queries.jsonl"):
        lists = await ask(line["query"])
        named = {way: [one.subject_id for one in found] for way, found in lists.items()}
        named["fused"] = [hit.subject_id for hit in fuse(lists)]
        wanted = ids[line["relevant"][0]]
        for way, order in named.items():
            place = order.index(wanted) + 1 if wanted in order else float("inf")
            for kind in ("all", line["kind"]):
                places[way, kind].append(place)
    return places


async def on_server(url: str | None, backend: Backend) -> tuple[Places, Places]:
    """Ask all questions on one server: with Waybook's search, and with exact vectors."""
    with temporary_database() as folder:
        named = {"database_url": url} if url else {"data_dir": str(folder)}
        settings = read_settings(named, {}).settings
        async with database_server(settings) as postgres:
            migrate(postgres.owner_dsn)
            async with open_database(postgres, settings) as database:
                ids = await store(database, backend)
                (rows,) = await database.read_org(LOCAL_ORG, search.capabilities_statement())
                ask = asking(database, search.read_capabilities(rows, backend))
                return await places_of(ask, ids), await places_of(exactly(ask, ids), ids)


async def with_pgvector(url: str) -> Places:
    """Ask all questions in a database created for it on a server with pgvector."""
    name = f"waybook_bench_{new_id().replace('-', '')}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        try:
            dsn = make_conninfo(url, dbname=name)
            with psycopg.connect(dsn, autocommit=True) as inside:
                inside.execute("create extension vector")
                inside.execute("alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof")
            places, _ = await on_server(dsn, Backend.PGVECTOR)
            return places
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


async def main(url: str | None) -> None:
    """Ask all questions, compare the three methods, and compare the vectors with the peer."""
    places, exact = await on_server(None, Backend.PORTABLE)
    report(places)
    if url:
        compare(places, await with_pgvector(url), "pgvector")
    else:
        print("pgvector was not asked: name a server that has it with --pgvector-url")
        compare(places, exact, "exact floats")


def report(places: Places) -> None:
    """Print both measures for each method and kind, and fail below the limit."""
    kinds = [*dict.fromkeys(kind for _, kind in places)]
    print(f"{'recall@3 / MRR':16}" + "".join(f"{kind:>18}" for kind in kinds))
    for way, label in WAYS.items():
        cells = (
            f"{recall(places[way, kind]):.3f} / {mrr(places[way, kind]):.3f}" for kind in kinds
        )
        print(f"{label:16}" + "".join(f"{cell:>18}" for cell in cells))
    fused = recall(places["fused", "all"]), mrr(places["fused", "all"])
    print(f"{'limit':16}{LIMIT:10.2f}")
    assert fused[0] >= LIMIT, f"recall@3 is {fused[0]:.3f}, at least {LIMIT} is promised"
    for way in ("words", "meaning"):
        alone = recall(places[way, "all"]), mrr(places[way, "all"])
        assert all(a > b for a, b in zip(fused, alone, strict=True)), f"{way} alone does better"


def compare(ours: Places, theirs: Places, peer: str) -> None:
    """Print recall@10 and MRR of both, and fail if ours are too far below the peer's."""
    print(f"\n{f'recall@{NEAREST} / MRR':16}{'portable':>18}{peer:>18}")
    for way in ("meaning", "fused"):
        both = [(recall(one[way, "all"], NEAREST), mrr(one[way, "all"])) for one in (ours, theirs)]
        cells = "".join(f"{f'{found:.3f} / {mean:.3f}':>18}" for found, mean in both)
        print(f"{WAYS[way]:16}{cells}")
        for mine, other in zip(*both, strict=True):
            assert mine >= other - MAX_DIFFERENCE, f"{way}: {mine:.3f} beside {other:.3f}"


def recall(places: list[float], first: int = FIRST) -> float:
    return sum(place <= first for place in places) / len(places)


def mrr(places: list[float]) -> float:
    return sum(1 / place for place in places) / len(places)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pgvector-url")
    uvloop.run(main(parser.parse_args().pgvector_url))
