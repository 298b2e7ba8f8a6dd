"""Search among 200,000 artifacts of ten orgs: beside a read by key, and beside itself unguarded.

The same statements are sent three ways in turn: as the serving role, under row-level security; as
the superuser, through views that name the org plainly and guard nothing; and, for measure, a read
of one passage by its key. What row-level security costs must be little, and it must cost no hit:
the nearest found with it are compared with those found without, and with the truth, which is
found by comparing all.

    python benchmarks/search_scale.py [--passages 200000] [--questions 60]
"""

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import uvloop
from psycopg.conninfo import make_conninfo

from waybook.cli.demo.place import a_place_for_once
from waybook.postgres.supervisor import attach
from waybook.research.embedding import shipped_embedder
from waybook.research.fusion import Found, fuse
from waybook.research.question import Question, read_question
from waybook.research.table import shipped_table
from waybook.store.database import ConnectionPool, Database
from waybook.store.migrate import migrate
from waybook.store.passages import said
from waybook.store.search import (
    Abilities,
    Meant,
    Scope,
    abilities_statement,
    found_statement,
    read_abilities,
    read_ranked,
    search_statements,
)
from waybook.store.vectors import written

LIMIT = 1.5
ORGS = 10
TOPICS = 500
SAMPLES = 40
KINDS = ("note", "finding", "quote")
ZIPF = list(itertools.accumulate(1 / rank for rank in range(1, TOPICS * 30 + 1)))
NEAREST = 10
QUERIES = Path(__file__).with_suffix(".sql").read_text()
EMBEDDER = shipped_embedder()


# Filling


def named(name: str) -> str:
    """A statement of the file beside this one."""
    lines = QUERIES.split(f"-- name: {name}\n")[1].split("-- name:")[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


@cache
def words() -> list[str]:
    """Ordinary words, the most frequent first."""
    known = shipped_table().numbers
    return [word for word in known if word.isalpha() and len(word) > 3][: TOPICS * 30]


@contextmanager
def told(what: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    print(f"  {what:32}{time.perf_counter() - started:8.1f} s", flush=True)


def text(topic: list[str], chance: random.Random) -> tuple[str, str]:
    """A title and forty words, half of them of a topic, half as words are distributed."""
    picked = chance.choices(topic, k=20) + chance.choices(words(), cum_weights=ZIPF, k=20)
    chance.shuffle(picked)
    return " ".join(chance.sample(topic, 4)), " ".join(picked)


def topics() -> list[list[str]]:
    """Thirty words each."""
    shuffled = random.Random(1).sample(words(), TOPICS * 30)  # noqa: S311 - not for secrets
    return [shuffled[30 * n : 30 * n + 30] for n in range(TOPICS)]


def fill(dsn: str, passages: int) -> None:
    """Fill the tables, then build the indexes."""
    values = {"orgs": ORGS, "topics": TOPICS, "samples": SAMPLES, "model": EMBEDDER.model}
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("set maintenance_work_mem = '1GB'")
        for part in ("orgs", "clear_indexes", "samples", "homes"):
            admin.execute(named(part), values)
        for part, rows in (("passages", texts(passages)), ("sample", samples()), ("home", homes())):
            with told(part), admin.cursor().copy(copying(part)) as copy:
                for row in rows:
                    copy.write_row(row)
        admin.execute("analyze")
        for part in ("vectors", "artifacts", "indexes", "bare"):
            for line in named(part).split(";")[:-1]:
                with told(" ".join(line.split()[:3])):
                    admin.execute(line, values if "%(" in line else None)


def copying(part: str) -> str:
    return named("passages") if part == "passages" else f"copy {part} from stdin"


def texts(count: int) -> Iterator[tuple[object, ...]]:
    """The passages. Topics and orgs go round at different speeds, so that each has all."""
    chance, about, owners = random.Random(2), topics(), orgs()  # noqa: S311 - not for secrets
    for number in range(count):
        title, body = text(about[number % TOPICS], chance)
        org, at = owners[number // TOPICS % ORGS], datetime.fromtimestamp(number, UTC)
        yield org, "artifact", uuid4(), 1, KINDS[number % 3], title, body, at


def samples() -> Iterator[tuple[object, ...]]:
    """Vectors of some texts of each topic: all of them would take minutes."""
    chance = random.Random(3)  # noqa: S311 - not for secrets
    for number, topic in enumerate(topics()):
        for n in range(SAMPLES):
            vector = EMBEDDER.embed(said(*text(topic, chance)))
            yield number, n, str([round(x, 5) for x in vector])


def homes() -> Iterator[tuple[object, ...]]:
    """The directions of the orgs, as they stand behind the vectors."""
    return ((org, written((), org)) for org in orgs())


def orgs() -> list[UUID]:
    return [UUID(f"00000000-0000-7000-8000-{100 + n:012}") for n in range(ORGS)]


# Asking


def questions(count: int) -> list[Question]:
    """Each of a topic: three of its words, and one that is common."""
    chance, about = random.Random(4), topics()  # noqa: S311 - not for secrets
    common = words()[200:2_000]
    asked = ([*chance.sample(chance.choice(about), 3), chance.choice(common)] for _ in range(count))
    return [read_question(" ".join(words)) for words in asked]


async def ask(
    database: Database, org: UUID, question: Question, abilities: Abilities
) -> tuple[dict[str, list[Found]], float]:
    """Search, and how long it took: question to fused list."""
    started = time.perf_counter()
    meant = Meant(vector=EMBEDDER.embed(question.meaning), model=EMBEDDER.model, org_id=org)
    lists = read_ranked(
        await database.read(org, *search_statements(question, meant, Scope(), abilities))
    )
    fuse(lists)
    return lists, time.perf_counter() - started


async def read_by_key(database: Database, org: UUID, found: Found) -> float:
    """How long it takes to read one passage by its key."""
    started = time.perf_counter()
    (rows,) = await database.read(org, found_statement([(found.subject_id, found.part)]))
    assert len(rows) == 1
    return time.perf_counter() - started


def true_nearest(admin: psycopg.Connection, org: UUID, question: Question) -> set[str]:
    """The nearest, found by comparing all."""
    embedding = written(EMBEDDER.embed(question.meaning), org)
    asked = {"org": org, "embedding": embedding, "most": NEAREST}
    return {row[0] for row in admin.execute(named("truth"), asked)}


def nearest(lists: dict[str, list[Found]]) -> set[str]:
    return {found.subject_id for found in lists["meaning"][:NEAREST]}


async def main(passages: int, count: int) -> None:
    """Fill, ask in turns, and compare."""
    with a_place_for_once() as folder, attach(folder) as postgres:
        migrate(postgres.owner_dsn)
        fill(postgres.admin_dsn, passages)
        bare_dsn = make_conninfo(postgres.admin_dsn, options="-c search_path=bare,public")
        with (
            closing(Database(ConnectionPool(postgres.app_dsn, size=1))) as guarded,
            closing(Database(ConnectionPool(bare_dsn, size=1))) as unguarded,
            psycopg.connect(postgres.admin_dsn, autocommit=True) as admin,
        ):
            await compare(guarded, unguarded, admin, questions(count))


async def compare(
    guarded: Database, unguarded: Database, admin: psycopg.Connection, asked: list[Question]
) -> None:
    """Ask everything both ways, in turns, after a round for warming up."""
    abilities = read_abilities((await guarded.read(orgs()[0], abilities_statement()))[0])
    times: dict[str, list[float]] = {"guarded": [], "bare": [], "key": []}
    hits: dict[str, list[int]] = {"guarded": [], "bare": []}
    found_by_words = []
    for turn in range(2):
        for number, question in enumerate(asked):
            org = orgs()[number % ORGS]
            # Whoever asks first fetches the pages for both, so they take turns at that too.
            both = [(guarded, "guarded"), (unguarded, "bare")]
            answers = {
                name: await ask(database, org, question, abilities)
                for database, name in (both if number // ORGS % 2 else both[::-1])
            }
            (with_guard, took), (without, took_bare) = answers["guarded"], answers["bare"]
            key = await read_by_key(guarded, org, with_guard["meaning"][0])
            if not turn:
                continue
            for name, seconds in zip(times, (took, took_bare, key), strict=True):
                times[name].append(seconds * 1e3)
            truth = true_nearest(admin, org, question)
            hits["guarded"].append(len(truth & nearest(with_guard)))
            hits["bare"].append(len(truth & nearest(without)))
            found_by_words.append(with_guard["words"] == without["words"])
    assert all(found_by_words), "row-level security changed what was found by words"
    report(times, {name: sum(n) / NEAREST / len(n) for name, n in hits.items()})


def report(times: dict[str, list[float]], recall: dict[str, float]) -> None:
    """Print the medians and the recall, and fail beyond the limits."""
    middle = {name: statistics.median(all_of) for name, all_of in times.items()}
    ratio = middle["guarded"] / middle["bare"]
    print(f"{'fused search, 10 orgs':34}{'p50 ms':>10}{'p95 ms':>10}{f'recall@{NEAREST}':>12}")
    for name, label in (("bare", "without row-level security"), ("guarded", "Waybook")):
        slow = statistics.quantiles(times[name], n=20)[-1]
        print(f"{label:34}{middle[name]:10.2f}{slow:10.2f}{recall[name]:12.3f}")
    print(f"{'one passage by its key':34}{middle['key']:10.2f}")
    print(f"{'ratio':34}{ratio:10.2f}   limit {LIMIT}")
    assert ratio <= LIMIT, f"{ratio:.2f} times as slow as unguarded, at most {LIMIT} is promised"
    assert recall["guarded"] == recall["bare"], "row-level security lost hits"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--questions", type=int, default=60)
    arguments = parser.parse_args()
    uvloop.run(main(arguments.passages, arguments.questions))
