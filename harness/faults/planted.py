"""Known bugs, to test the checkers.

Each bug is planted in a copy of the source, where a checker must find it.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from faults.checkers import Violation
from faults.cluster import ROOT

PACKAGE: Final = Path("src/waybook")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of a text that occurs once in a source file."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Bug:
    """Bug: edits of the source that plant it, and checkers, of which at least one must find it."""

    name: str
    caught_by: frozenset[str]
    edits: tuple[Edit, ...]
    #: Text in a checker's message that shows this bug to be the cause.
    shows: str = ""

    def is_shown_by(self, violations: Iterable[Violation]) -> bool:
        """Return whether one of the violations shows this bug."""
        return any(
            violation.checker in self.caught_by and self.shows in violation.message
            for violation in violations
        )


def _by(*names: str) -> frozenset[str]:
    return frozenset(names)


COMMIT: Final = "        await self.send_last(self._all_statements(proposal, written), on_commit)\n"
HOLDER: Final = "return self.session is not None and self == other"

BUGS: Final = (
    Bug(
        "no plan lock",
        _by("few_internal_errors", "single_holder", "audit_is_sealed"),
        (
            Edit(
                "store/plans/load.py",
                '_LOCK_PLAN = _LOAD_PLAN.for_update("p")',
                "_LOCK_PLAN = _LOAD_PLAN",
            ),
        ),
    ),
    Bug(
        "audit entry missing for a skip",
        _by("audit_is_sealed", "replay_equals_rows"),
        (
            Edit(
                "store/audit.py",
                "brief_of(entry.details)) for entry in sealed]",
                "brief_of(entry.details)) for entry in sealed "
                """if '"decision":"skip"' not in entry.details]""",
            ),
            Edit(
                "store/audit.py", "Rows(rows))] if sealed else []", "Rows(rows))] if rows else []"
            ),
        ),
    ),
    Bug(
        "idempotency row stored after the commit",
        _by("single_effect_per_key"),
        (
            Edit(
                "app/request/locks/locking.py",
                COMMIT,
                """        unanswered = proposal._replace(is_answer=False)
        await self.send_last(self._all_statements(unanswered, written), on_commit)
        if proposal.is_answer:
            async with self.ctx.transaction() as tx:
                await tx.commit(*self.ctx.answer_statements(proposal.body, self.now))
""",
            ),
        ),
    ),
    Bug(
        "attempt ignored",
        _by("no_stale_result"),
        (
            Edit(
                "core/decision_context.py",
                "        return attempt == work.attempt\n    return work.holder",
                "        return attempt <= work.attempt\n    return work.holder",
            ),
        ),
    ),
    Bug(
        "session ignored",
        _by("single_holder"),
        (
            Edit(
                "core/decision_context.py",
                HOLDER,
                "return other is not None and self[0] == other[0]",
            ),
        ),
        shows="get_next_step",
    ),
    Bug(
        "fan-in one unit early",
        _by("fan_in_is_exact"),
        (
            Edit(
                "dag/graph.py",
                "if state.closed or state.done >= state.total:",
                "if state.closed or state.done >= max(min(1, state.total), state.total - 1):",
            ),
            # A step is closed only by a call that ends a job of a step whose jobs are all done.
            Edit(
                "run/submit.py",
                "if counted.done >= counted.total:",
                "if counted.done >= max(1, counted.total - 1):",
            ),
        ),
    ),
    Bug(
        "lease 50 times too short",
        _by("single_holder"),
        (
            Edit(
                "app/tools/runs/get_next_job.py",
                "lease_seconds=ctx.services.lease.total_seconds(),",
                "lease_seconds=ctx.services.lease.total_seconds() / 50,",
            ),
        ),
        shows="the lease is",
    ),
    Bug(
        "tenant set for the session behind a pooler",
        _by("tenants_apart"),
        (
            Edit(
                "store/driver/database.py",
                "f\"set local app.org_id = '{org}'\"",
                "f\"set app.org_id = '{org}'\"",
            ),
        ),
    ),
    Bug(
        "failure to commit swallowed",
        _by("acknowledged_effects", "single_effect_per_key"),
        (
            Edit(
                "app/request/locks/locking.py",
                "        await self.tx.commit(*statements)\n",
                """        with suppress(Unavailable):
            await self.tx.commit(*statements)
""",
            ),
            Edit(
                "app/request/locks/locking.py",
                "from functools import partial\n",
                "from contextlib import suppress\nfrom functools import partial\n",
            ),
        ),
    ),
    Bug(
        "holder without user",
        _by("single_holder"),
        (
            Edit(
                "core/decision_context.py",
                HOLDER,
                "return other is not None and self[1] == other[1]",
            ),
        ),
        shows="get_next_step",
    ),
)


def edited(bug: Bug, package: Path) -> dict[str, str]:
    """Return the source files that contain the bug, by path.

    Raises:
        ValueError: a text does not occur exactly once; adapt the bug to the current source.
    """
    texts: dict[str, str] = {}
    for edit in bug.edits:
        text = texts.get(edit.file) or (package / edit.file).read_text()
        if (count := text.count(edit.old)) != 1:
            raise ValueError(
                f"{bug.name}: {edit.file} contains {edit.old!r} {count} times, not once"
            )
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


@contextmanager
def planted(bug: Bug | None) -> Iterator[Path]:
    """Yield a temporary copy of the source, with the bug if one is given."""
    with tempfile.TemporaryDirectory(prefix="waybook-planted-") as folder:
        source = Path(folder)
        shutil.copytree(ROOT / PACKAGE, source / "waybook")
        for file, text in edited(bug, source / "waybook").items() if bug else ():
            (source / "waybook" / file).write_text(text)
        yield source
