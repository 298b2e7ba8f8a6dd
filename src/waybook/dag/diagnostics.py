"""Diagnostics of workflow definitions, and warnings of progress reports."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from waybook.errors import BadRecipe

MAX_DIAGNOSTICS = 20


@dataclass(frozen=True, slots=True)
class Diagnostic:
    name: str
    at: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"fault": self.name, "at": self.at, "message": self.message}


def bad_recipe_error(faults: Sequence[Diagnostic]) -> BadRecipe:
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return BadRecipe(
        f"{first.at}: {first.message}{more}",
        fault=first.name,
        at=first.at,
        faults=[fault.as_json() for fault in faults[:MAX_DIAGNOSTICS]],
    )


MAX_NAME_LENGTH = 80


class StageWarning(NamedTuple):
    stage: str | None
    message: str


def quote_name(name: object) -> str:
    """Return a name in quotes, cut to `MAX_NAME_LENGTH`. Other values get no quotes.

    >>> print(quote_name("thesis"), quote_name("x" * 1000)[-4:], quote_name(None))
    'thesis' xxx… None
    """
    text = repr(name if not isinstance(name, str) else name[:MAX_NAME_LENGTH])
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[:MAX_NAME_LENGTH]}…"


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> count_noun(1, "job"), count_noun(3, "job")
    ('1 job', '3 jobs')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sorted_messages(warnings: Iterable[str]) -> list[str]:
    """Return the warnings sorted, without duplicates, and limited in number.

    >>> sorted_messages(["no b", "no a", "no b"])
    ['no a', 'no b']
    >>> sorted_messages(map(str, range(100)))[-1]
    'and 80 more warnings'
    """
    messages = sorted(set(warnings))
    more = len(messages) - MAX_DIAGNOSTICS
    rest = [f"and {count_noun(more, 'more warning')}"] if more > 0 else []
    return messages[:MAX_DIAGNOSTICS] + rest
