"""Quality of search on two public test sets, compared with BM25.

Cranfield has 1,400 abstracts on aerodynamics and 225 questions. LoCoMo has ten long conversations;
each is stored in an org of its own, with one artifact per turn (one message), and the turns that
answer each question are known. The searches run on the embedded PostgreSQL, with the database role
and the SQL statements of a Waybook server. The peer is BM25 over whole documents, with the stems of
PostgreSQL and without stop words, for two usual pairs of parameters.

nDCG@10 rewards relevant documents among the first ten, and more so at the top; recall@10 is the
share of the relevant documents among the first ten. All relevant documents count the same. The
questions of each set are also asked in the other set ("foreign" questions), where no document
should be found.

The sets are in the public repositories xyxxyyxy/cranvectors and snap-research/LoCoMo:

    python benchmarks/search_quality.py --cranfield FOLDER --locomo FOLDER/data/locomo10.json
"""

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import log, log2
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple
from uuid import UUID

import psycopg
import uvloop

from limits import Check, finish
from retrieval import EMBEDDER, Search, make_search
from waybook.application import database_server, open_database
from waybook.cli.demo.environment import temporary_database
from waybook.research.embedding import Backend
from waybook.research.fusion import MIN_SCORE, Hit, fuse
from waybook.settings_reading import read_settings
from waybook.store.accounts.accounts import add_org
from waybook.store.driver.database import Database
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.migrate import migrate
from waybook.store.research import artifacts, search

FIRST: Final = 10
BATCH: Final = 200
#: Parameters of BM25: the defaults of most libraries, and those of Anserini.
PEERS: Final = {"BM25, k1 1.5, b 0.75": (1.5, 0.75), "BM25, k1 0.9, b 0.4": (0.9, 0.4)}
#: Maximum share of nDCG@10 that is lost by leaving out hits with low scores.
MAX_FLOOR_COST: Final = 0.01
#: Minimum share of foreign questions (of the other set) for which the search finds nothing.
MIN_EMPTY: Final = 0.5
#: Number of questions of a set that are asked in the other set.
FOREIGN_QUESTIONS: Final = 150


class Document(NamedTuple):
    title: str
    text: str


class Question(NamedTuple):
    """Question, with the ids of its relevant documents."""

    text: str
    relevant: frozenset[str]


class Collection(NamedTuple):
    documents: Mapping[str, Document]
    questions: Sequence[Question]


def read_cranfield(folder: Path) -> list[Collection]:
    documents = {}
    for record in ("\n" + (folder / "cran.all.1400").read_text("utf-8")).split("\n.I ")[1:]:
        number, *sections = re.split(r"(?m)^\.([TABW])\s*$", record)
        texts = defaultdict[str, str](str)
        for mark, text in zip(sections[::2], sections[1::2], strict=True):
            texts[mark] += " ".join(text.split())
        documents[number.strip()] = Document(texts["T"], texts["W"])
    relevant = defaultdict[int, set[str]](set)
    for line in (folder / "cranqrel").read_text("utf-8").splitlines():
        question, document, _ = line.split()
        relevant[int(question)].add(document)
    # The file of judgments refers to questions by position, not by their numbers.
    records = (folder / "cran.qry").read_text("utf-8").split(".W\n")[1:]
    questions = [
        Question(" ".join(text.split("\n.I ")[0].split()), frozenset(relevant[number]))
        for number, text in enumerate(records, 1)
    ]
    return [Collection(documents, questions)]


def read_locomo(path: Path) -> list[Collection]:
    """Read the conversations of LoCoMo, and those of their questions that a turn answers."""
    collections = []
    for sample in json.loads(path.read_text("utf-8")):
        sessions = [part for part in sample["conversation"].values() if isinstance(part, list)]
        documents = {
            turn["dia_id"]: Document(turn["speaker"], turn["text"])
            for session in sessions
            for turn in session
        }
        questions = [
            Question(item["question"], relevant)
            for item in sample["qa"]
            if (relevant := _answering(item, documents))
        ]
        collections.append(Collection(documents, questions))
    return collections


def _answering(item: Mapping[str, Any], documents: Mapping[str, Document]) -> frozenset[str]:
    turns = re.findall(r"D\d+:\d+", " ".join(item["evidence"]))
    return frozenset(turn for turn in turns if turn in documents)


class Peer:
    """BM25 ranking of whole documents by their stems."""

    def __init__(self, connection: "psycopg.Connection[Any]", collection: Collection) -> None:
        """Count the stems of the documents and of the questions."""
        self._counts: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._lengths: dict[str, int] = {}
        for document_id, document in collection.documents.items():
            stems = _stems(connection, f"{document.title} {document.text}")
            self._lengths[document_id] = stems.total()
            for stem, count in stems.items():
                self._counts[stem].append((document_id, count))
        self._questions = [_stems(connection, item.text) for item in collection.questions]

    def rank(self, k1: float, b: float) -> list[list[str]]:
        """Return the documents for each question, best first."""
        size, mean = len(self._lengths), fmean(self._lengths.values())
        ranked = []
        for stems in self._questions:
            scores: dict[str, float] = defaultdict(float)
            for stem in stems:
                documents = self._counts.get(stem, [])
                rarity = log(1 + (size - len(documents) + 0.5) / (len(documents) + 0.5))
                for document_id, count in documents:
                    relative = 1 - b + b * self._lengths[document_id] / mean
                    scores[document_id] += rarity * count * (k1 + 1) / (count + k1 * relative)
            ranked.append(sorted(scores, key=lambda item: (-scores[item], item)))
        return ranked


def _stems(connection: "psycopg.Connection[Any]", text: str) -> Counter[str]:
    statement = "select lexeme, cardinality(positions) from unnest(to_tsvector('english', %s))"
    return Counter(dict(connection.execute(statement, (text,)).fetchall()))


async def store(database: Database, org_id: UUID, collection: Collection) -> dict[str, str]:
    """Store each document as an artifact of an org; return the document id of each artifact."""
    ids = {new_uuid(): document_id for document_id in collection.documents}
    for start in range(0, len(ids), BATCH):
        subjects = [
            artifacts.index_artifact(
                artifact_id=artifact_id,
                plan_id=None,
                kind="note",
                title=collection.documents[document_id].title,
                tags=(),
                text=collection.documents[document_id].text,
                created_at=datetime(2030, 1, 1, tzinfo=UTC),
            )
            for artifact_id, document_id in [*ids.items()][start : start + BATCH]
        ]
        pieces = artifacts.split_subjects(subjects)
        vectors = [EMBEDDER.embed(piece.embedding_text) for piece in pieces]
        embeddings = artifacts.Embeddings(EMBEDDER.model, vectors, Backend.PORTABLE)
        async with database.org_transaction(org_id) as tx:
            await tx.commit(*artifacts.index_statements(pieces, embeddings, org_id))
    return ids


class Figures(NamedTuple):
    """Mean nDCG@10 and mean recall@10 of rankings."""

    ndcg: float
    recall: float


def measure(orders: Sequence[Sequence[str]], questions: Sequence[Question]) -> Figures:
    """Return the figures for the rankings of all questions."""
    pairs = [*zip(orders, questions, strict=True)]
    return Figures(
        fmean(_ndcg(order, item.relevant) for order, item in pairs),
        fmean(len(item.relevant & {*order[:FIRST]}) / len(item.relevant) for order, item in pairs),
    )


def _ndcg(order: Sequence[str], relevant: frozenset[str]) -> float:
    gains = [1 / log2(place + 2) for place in range(FIRST)]
    total = sum(gain for gain, item in zip(gains, order, strict=False) if item in relevant)
    return total / sum(gains[: len(relevant)])


class Measured(NamedTuple):
    """Results for a test set: rankings for its questions, and numbers of hits for foreign ones."""

    questions: list[Question]
    orders: dict[str, list[list[str]]]
    foreign: list[int]

    def figures(self) -> dict[str, Figures]:
        """Return the figures of each search method."""
        return {name: measure(orders, self.questions) for name, orders in self.orders.items()}


async def measure_set(
    dsn: str, database: Database, collections: Sequence[Collection], foreign: Sequence[str]
) -> Measured:
    """Store each collection in an org; search it for its own questions and for foreign ones."""
    measured = Measured([], defaultdict(list), [])
    capabilities = search.SearchCapabilities(backend=Backend.PORTABLE, indexed=True)
    for number, collection in enumerate(collections):
        org_id = UUID(new_uuid())
        add_org(dsn, org_id, f"set-{org_id}")
        ids = await store(database, org_id, collection)
        search_org = make_search(database, capabilities, org_id)
        for item in collection.questions:
            measured.questions.append(item)
            for method, order in (await _orders(search_org, item.text)).items():
                measured.orders[method].append([*dict.fromkeys(ids[item_id] for item_id in order)])
        for text in foreign[number :: len(collections)]:
            measured.foreign.append(len((await _orders(search_org, text))["fused"]))
        with psycopg.connect(dsn) as connection:
            peer = Peer(connection, collection)
        for name, (k1, b) in PEERS.items():
            measured.orders[name] += peer.rank(k1, b)
    return measured


async def _orders(search_org: Search, text: str) -> dict[str, list[str]]:
    lists = await search_org(text)
    hits: list[Hit] = fuse(lists)
    return {
        "words": [passage.subject_id for passage in lists["words"]],
        "vectors": [passage.subject_id for passage in lists["meaning"]],
        "fused": [hit.subject_id for hit in hits if hit.score >= MIN_SCORE],
        "fused, without a floor": [hit.subject_id for hit in hits],
    }


def make_checks(name: str, measured: Measured) -> list[Check]:
    """Return the checks of a test set.

    Fused search must be at least as good as full-text search, vector search and BM25. Leaving
    out hits with low scores may reduce the quality only slightly, and must leave many foreign
    questions without hits.
    """
    figures = measured.figures()
    fused, unlimited = figures["fused"].ndcg, figures["fused, without a floor"].ndcg
    checks = [
        Check(
            name=f"{name}, nDCG@10, fused : {other}", rounds=[fused / figures[other].ndcg], limit=1
        )
        for other in ("words", "vectors", *PEERS)
    ]
    empty = fmean(hits == 0 for hits in measured.foreign)
    return [
        *checks,
        Check(
            name=f"{name}, share of nDCG@10 that the floor costs",
            rounds=[1 - fused / unlimited],
            direction="<=",
            limit=MAX_FLOOR_COST,
        ),
        Check(name=f"{name}, foreign questions without a hit", rounds=[empty], limit=MIN_EMPTY),
    ]


async def main(cranfield: Path, locomo: Path) -> None:
    """Measure both test sets, and compare the results with the limits."""
    sets = {"Cranfield": read_cranfield(cranfield), "LoCoMo": read_locomo(locomo)}
    texts = {
        name: [item.text for part in parts for item in part.questions]
        for name, parts in sets.items()
    }
    measured = {}
    with temporary_database() as folder:
        settings = read_settings({"data_dir": str(folder)}, {}).settings
        async with database_server(settings) as postgres:
            migrate(postgres.owner_dsn)
            async with open_database(postgres, settings) as database:
                for name, parts in sets.items():
                    (other,) = texts.keys() - {name}
                    foreign = texts[other][:: len(texts[other]) // FOREIGN_QUESTIONS]
                    measured[name] = await measure_set(postgres.owner_dsn, database, parts, foreign)
    figures = {name: result.figures() for name, result in measured.items()}
    for name, methods in figures.items():
        print(f"{name + ', nDCG@10 / recall@10':34}")
        for method, values in methods.items():
            print(f"  {method:32}{values.ndcg:.3f} / {values.recall:.3f}")
    checks = [check for name, result in measured.items() for check in make_checks(name, result)]
    rows = {
        method: {name: figures[name][method]._asdict() for name in sets}
        for method in next(iter(figures.values()))
    }
    counts = {name: len(result.questions) for name, result in measured.items()}
    finish("search_quality", checks, rows=rows, questions=counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cranfield", type=Path, required=True, help="folder with cran.qry")
    parser.add_argument("--locomo", type=Path, required=True, help="the file locomo10.json")
    options = parser.parse_args()
    uvloop.run(main(options.cranfield, options.locomo))
