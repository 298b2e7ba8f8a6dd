"""Systems that `run.py` compares: Waybook, bare SQL functions, and other durable engines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
ENVIRONMENTS: Final = ROOT / ".bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """System to compare with Waybook, and limits for Waybook's rate as a multiple of its rate."""

    key: str
    label: str
    driver: str
    variant: str | None = None
    #: Package whose version is reported. A system without a package runs in the environment of
    #: Waybook.
    package: str | None = None
    #: Waybook's rate as a multiple of this system's: minimum, and goal.
    limit: float | None = None
    goal: float | None = None
    #: Minimum and goal for Waybook's rate if a submit also claims the next step.
    together_limit: float | None = None
    together_goal: float | None = None
    #: Guarantees of Waybook that this system did not give when it was measured.
    lacks: str = ""

    @property
    def script(self) -> Path:
        return Path(__file__).with_name(f"drive_{self.driver}.py")

    @property
    def environment(self) -> Path:
        return ROOT / ".venv" if self.package is None else ENVIRONMENTS / self.driver

    @property
    def version(self) -> str:
        """Return the version of the package in the lock file; without a package, an empty text."""
        if self.package is None:
            return ""
        lock = ROOT / "requirements" / f"bench-{self.driver}.lock"
        match = re.search(rf"^{self.package}==(\S+)", lock.read_text(), re.MULTILINE)
        assert match, f"{lock.name} does not pin {self.package}"
        return match[1]

    def is_installed(self) -> bool:
        if self.package is None:
            return True
        record = f"{self.package.replace('-', '_')}-{self.version}.dist-info"
        return any(self.environment.glob(f"lib/python*/site-packages/{record}"))


WAYBOOK: Final = System(key="waybook", label="Waybook", driver="waybook", variant="apart")
TOGETHER: Final = System(
    key="waybook-together",
    label="Waybook with takeNext",
    driver="waybook",
    variant="together",
)
#: The two variants of Waybook.
OWN: Final[Sequence[System]] = (WAYBOOK, TOGETHER)
_NO_CLAIM: Final = "claim of each step, row-level security, sealed audit"
_NO_RESULT: Final = "stored results, order of steps, row-level security, sealed audit"
#: All systems, in their order within a round.
SYSTEMS: Final[Sequence[System]] = (
    *OWN,
    System(
        key="floor-psycopg",
        label="two SQL functions, psycopg",
        driver="floor",
        variant="psycopg",
        limit=0.35,
        lacks="all other rules of Waybook",
    ),
    System(
        key="floor-driver",
        label="two SQL functions, Waybook's driver",
        driver="floor",
        variant="driver",
        limit=0.3,
        goal=0.7,
        lacks="all other rules of Waybook",
    ),
    System(
        key="floor-together",
        label="one SQL function, Waybook's driver",
        driver="floor",
        variant="together",
        together_limit=0.3,
        together_goal=0.7,
        lacks="all other rules of Waybook",
    ),
    System(
        key="absurd-steps",
        label="Absurd, task of ten steps",
        driver="absurd",
        variant="steps",
        package="absurd-sdk",
        limit=0.5,
        goal=1.0,
        together_limit=0.9,
        together_goal=1.0,
        lacks=_NO_CLAIM,
    ),
    System(
        key="absurd-tasks",
        label="Absurd, task for each step",
        driver="absurd",
        variant="tasks",
        package="absurd-sdk",
        limit=1.0,
        goal=1.0,
        together_limit=1.5,
        together_goal=1.0,
        lacks="order of steps, row-level security, sealed audit",
    ),
    System(
        key="pgqueuer-single",
        label="pgqueuer, one job at a time",
        driver="pgqueuer",
        variant="single",
        package="pgqueuer",
        limit=0.6,
        goal=1.0,
        together_limit=1.0,
        together_goal=1.0,
        lacks=_NO_RESULT,
    ),
    System(
        key="pgqueuer-batches",
        label="pgqueuer, batches of ten",
        driver="pgqueuer",
        variant="batches",
        package="pgqueuer",
        lacks=f"durable completion of each job, {_NO_RESULT}",
    ),
    System(
        key="langgraph",
        label="LangGraph, PostgreSQL checkpointer",
        driver="langgraph",
        package="langgraph",
        limit=0.7,
        together_limit=1.0,
        lacks=_NO_CLAIM,
    ),
    System(
        key="dbos",
        label="DBOS",
        driver="dbos",
        package="dbos",
        limit=1.5,
        together_limit=3.0,
        lacks=_NO_CLAIM,
    ),
)
