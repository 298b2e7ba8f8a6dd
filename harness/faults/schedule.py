"""Schedule of faults: a number of each kind, in an order that depends only on the seed."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from faults.cluster import POOLED, SERVERS


class Kind(StrEnum):
    SERVER_KILL = "server kill -9"
    SERVER_PAUSE = "server SIGSTOP"
    DATABASE_KILL = "database kill -9"
    TERMINATE = "pg_terminate_backend"
    POOLER_KILL = "pgbouncer kill -9"
    DISK_FULL = "disk full"
    CLOCK = "server clock ±2 h"
    HTTP_RESET = "reset agent→server"
    DATABASE_RESET = "reset server→database"
    HTTP_DELAY = "delay agent→server"
    DATABASE_DELAY = "delay server→database"
    HTTP_HALF_CLOSE = "half-close agent→server"
    DATABASE_HALF_CLOSE = "half-close server→database"
    HTTP_BLACK_HOLE = "black hole agent→server"
    DATABASE_BLACK_HOLE = "black hole server→database"
    HTTP_LOST_ANSWER = "lost answer agent→server"
    DATABASE_LOST_ANSWER = "lost commit answer server→database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Fault, with its server, its duration, and the pause after it."""

    kind: Kind
    server: str
    seconds: float
    pause_seconds: float
    #: Direction: True to close the direction to the target, or to set the clock forward; False for
    #: the opposite.
    forward: bool


#: For each kind of fault that lasts, the minimum and the maximum duration in seconds.
LASTING: Final[Mapping[Kind, tuple[float, float]]] = {
    Kind.SERVER_PAUSE: (0.5, 4.0),
    Kind.DISK_FULL: (3.0, 5.0),
    Kind.HTTP_DELAY: (1.0, 3.0),
    Kind.DATABASE_DELAY: (1.0, 3.0),
    Kind.HTTP_BLACK_HOLE: (1.0, 6.0),
    Kind.DATABASE_BLACK_HOLE: (1.0, 6.0),
    Kind.HTTP_LOST_ANSWER: (0.2, 0.5),
    Kind.DATABASE_LOST_ANSWER: (0.2, 0.5),
}

#: Number of faults of each kind in the mode `short`, which takes about two minutes.
SHORT: Final = Counter(
    {
        Kind.SERVER_KILL: 6,
        Kind.SERVER_PAUSE: 3,
        Kind.DATABASE_KILL: 4,
        Kind.TERMINATE: 6,
        Kind.POOLER_KILL: 3,
        Kind.DISK_FULL: 1,
        Kind.CLOCK: 2,
        Kind.HTTP_RESET: 6,
        Kind.DATABASE_RESET: 8,
        Kind.HTTP_DELAY: 2,
        Kind.DATABASE_DELAY: 2,
        Kind.HTTP_HALF_CLOSE: 4,
        Kind.DATABASE_HALF_CLOSE: 4,
        Kind.HTTP_BLACK_HOLE: 2,
        Kind.DATABASE_BLACK_HOLE: 2,
        Kind.HTTP_LOST_ANSWER: 10,
        Kind.DATABASE_LOST_ANSWER: 16,
    }
)
LONG: Final = Counter(
    {
        Kind.SERVER_KILL: 204,
        Kind.SERVER_PAUSE: 30,
        Kind.DATABASE_KILL: 52,
        Kind.TERMINATE: 60,
        Kind.POOLER_KILL: 30,
        Kind.DISK_FULL: 5,
        Kind.CLOCK: 20,
        Kind.HTTP_RESET: 80,
        Kind.DATABASE_RESET: 80,
        Kind.HTTP_DELAY: 20,
        Kind.DATABASE_DELAY: 20,
        Kind.HTTP_HALF_CLOSE: 40,
        Kind.DATABASE_HALF_CLOSE: 40,
        Kind.HTTP_BLACK_HOLE: 15,
        Kind.DATABASE_BLACK_HOLE: 15,
        Kind.HTTP_LOST_ANSWER: 150,
        Kind.DATABASE_LOST_ANSWER: 200,
    }
)
#: Number of faults of each kind in a test of half a minute that must find a planted bug.
PLANTED: Final = Counter(
    {
        Kind.SERVER_KILL: 1,
        Kind.TERMINATE: 2,
        Kind.HTTP_RESET: 2,
        Kind.DATABASE_RESET: 3,
        Kind.HTTP_LOST_ANSWER: 8,
        Kind.DATABASE_LOST_ANSWER: 16,
    }
)


def draw(counts: Mapping[Kind, int], rng: random.Random, pause_seconds: float) -> list[Fault]:
    """Return this many faults of each kind, in random order and with random parameters."""
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    rng.shuffle(kinds)
    return [
        Fault(
            kind=kind,
            server=POOLED if kind is Kind.POOLER_KILL else rng.choice(SERVERS),
            seconds=rng.uniform(*LASTING.get(kind, (0.0, 0.0))),
            pause_seconds=rng.uniform(0.2, 2.0) * pause_seconds,
            forward=rng.random() < 0.5,
        )
        for kind in kinds
    ]
