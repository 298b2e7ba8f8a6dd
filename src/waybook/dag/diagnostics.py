"""What can be wrong with a definition: each fault by its name, its place, and in words.

Warnings: what a reader of a report should know; each once, in one order, and not too many.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from waybook.errors import BadRecipe

#: More than this many faults at once help nobody.
MAX_DIAGNOSTICS = 20


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, and where."""

    name: str
    at: str
    message: str

    def as_json(self) -> dict[str, str]:
        """The fault as it stands in the error."""
        return {"fault": self.name, "at": self.at, "message": self.message}


def bad_recipe_error(faults: Sequence[Diagnostic]) -> BadRecipe:
    """The error that tells of these faults, the first of them in its message."""
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return BadRecipe(
        f"{first.at}: {first.message}{more}",
        fault=first.name,
        at=first.at,
        faults=[fault.as_json() for fault in faults[:MAX_DIAGNOSTICS]],
    )


#: A name from outside may be a book; this much of it is enough to find it again.
MAX_NAME_LENGTH = 80


class StageWarning(NamedTuple):
    """A warning, and the stage it is of, if it is of any."""

    stage: str | None
    message: str


def quote_name(name: object) -> str:
    """A name from outside, quoted, and no longer than a line.

    >>> print(quote_name("thesis"), quote_name("x" * 1000)[-4:], quote_name(None))
    'thesis' xxx… None
    """
    text = repr(name if not isinstance(name, str) else name[:MAX_NAME_LENGTH])
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[:MAX_NAME_LENGTH]}…"


def count_noun(number: int, noun: str) -> str:
    """So many of something.

    >>> count_noun(1, "job"), count_noun(3, "job")
    ('1 job', '3 jobs')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sorted_messages(warnings: Iterable[str]) -> list[str]:
    """The warnings as they are told, whatever order they were found in.

    >>> sorted_messages(["no b", "no a", "no b"])
    ['no a', 'no b']
    >>> sorted_messages(map(str, range(100)))[-1]
    'and 80 more warnings'
    """
    found = sorted(set(warnings))
    more = len(found) - MAX_DIAGNOSTICS
    return (
        [*found[:MAX_DIAGNOSTICS], f"and {count_noun(more, 'more warning')}"] if more > 0 else found
    )


def messages_by_stage(warned: Iterable[StageWarning]) -> dict[str | None, list[str]]:
    """The warnings of each stage; those that are of none stand under None."""
    found: dict[str | None, list[str]] = {}
    for stage, said in warned:
        found.setdefault(stage, []).append(said)
    return found
