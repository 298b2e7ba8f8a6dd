"""How well search finds what is meant: by words, by vectors, and both fused.

The corpus beside this file has 257 notes on fifty topics and 196 questions, each with the note
that answers it: paraphrases that share few words with it, keywords, and keywords with slips. All
are asked on the embedded server, as the serving role, with the statements search uses.
`recall@3` is the share of questions whose note is among the first three; MRR the mean of one over
its place. What is fused must be the best of the three.

    python benchmarks/retrieval.py
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from waybook.cli.demo.place import a_place_for_once
from waybook.research.embedding import shipped_embedder
from waybook.research.fusion import Found, fuse
from waybook.research.question import read_question
from waybook.settings_reading import read_settings
from waybook.store import passages, search
from waybook.store.database import Database
from waybook.store.ids import new_id
from waybook.store.migrate import migrate
from waybook.store.search import Abilities, Meant, Scope
from waybook.store.tenants import LOCAL_ORG
from waybook.wiring import opened, server

LIMIT = 0.85
FIRST = 3
CORPUS = Path(__file__).with_name("retrieval")
EMBEDDER = shipped_embedder()
WAYS = {"words": "full text", "meaning": "vectors", "fused": "fused"}


def lines(name: str) -> list[dict[str, Any]]:
    """The lines of a file of the corpus."""
    return [json.loads(line) for line in (CORPUS / name).read_text("utf-8").splitlines()]


async def store(database: Database) -> dict[str, str]:
    """Store the notes; returns the id each got."""
    ids = {}
    for note in lines("passages.jsonl"):
        ids[note["id"]] = new_id()
        subject = passages.of_artifact(
            artifact_id=ids[note["id"]],
            plan_id=None,
            kind="note",
            title=note["title"],
            tags=(),
            text=note["text"],
            created_at=datetime(2030, 1, 1, tzinfo=UTC),
        )
        pieces = passages.cut([subject])
        made = [EMBEDDER.embed(piece.said) for piece in pieces]
        meanings = passages.Meanings(EMBEDDER.model, made)
        async with database.tenant(LOCAL_ORG) as tx:
            await tx.commit(*passages.index(pieces, meanings, LOCAL_ORG))
    return ids


async def ask(database: Database, query: str, abilities: Abilities) -> Mapping[str, list[str]]:
    """The ids found, by each way, best first."""
    question = read_question(query)
    vector = EMBEDDER.embed(question.meaning)
    meant = Meant(vector=vector, model=EMBEDDER.model, org_id=LOCAL_ORG)
    asked = search.search_statements(question, meant, Scope(), abilities)
    lists = search.read_ranked(await database.read(LOCAL_ORG, *asked))
    named = {way: _ids(found) for way, found in lists.items()}
    return {**named, "fused": [hit.subject_id for hit in fuse(lists)]}


def _ids(found: list[Found]) -> list[str]:
    return [passage.subject_id for passage in found]


async def main() -> None:
    """Ask everything, and compare the three ways."""
    with a_place_for_once() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with server(settings) as postgres:
            migrate(postgres.owner_dsn)
            async with opened(postgres, settings) as database:
                ids = await store(database)
                (rows,) = await database.read(LOCAL_ORG, search.abilities_statement())
                abilities = search.read_abilities(rows)
                places: dict[tuple[str, str], list[float]] = defaultdict(list)
                for line in lines("queries.jsonl"):
                    found = await ask(database, line["query"], abilities)
                    wanted = ids[line["relevant"][0]]
                    for way, order in found.items():
                        place = order.index(wanted) + 1 if wanted in order else float("inf")
                        for kind in ("all", line["kind"]):
                            places[way, kind].append(place)
    report(places)


def report(places: Mapping[tuple[str, str], list[float]]) -> None:
    """Print both measures for each way and kind, and fail below the limit."""
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


def recall(places: list[float]) -> float:
    return sum(place <= FIRST for place in places) / len(places)


def mrr(places: list[float]) -> float:
    return sum(1 / place for place in places) / len(places)


if __name__ == "__main__":
    uvloop.run(main())
