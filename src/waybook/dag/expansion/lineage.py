"""The origin of documents: the models that wrote them, and their lineages.

A lineage is a chain of documents that continue each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: An imaginary stage before the first stage, which supplies the run's input.
ENTRY = "entry"


@dataclass(frozen=True, slots=True)
class ProducedDocument:
    """An output of a job. Its model, lineage and reviewer identify it within the step."""

    model: str
    lineage: str
    reviewer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """Lineages and authors of a stage's outputs, without duplicates."""

    lineages: tuple[str, ...]
    authors: tuple[str, ...]
    first_author: Mapping[str, str]


def distinct(models: Iterable[str]) -> tuple[str, ...]:
    """Return these language models without duplicates.

    >>> distinct(["b", "a", "b"])
    ('b', 'a')
    """
    return tuple(dict.fromkeys(models))


def lineage_name(stage: str, step: str, model: str | None = None) -> str:
    """Return the name of the lineage that begins at this step.

    >>> lineage_name("thesis", "header", "opus"), lineage_name("synthesis", "summary")
    ('thesis/header/opus', 'synthesis/summary')
    """
    return f"{stage}/{step}" if model is None else f"{stage}/{step}/{model}"


def single_author_origins(first_author: Mapping[str, str]) -> Origins:
    return Origins(
        lineages=tuple(first_author),
        authors=distinct(first_author.values()),
        first_author=first_author,
    )


def entry_origins(models: Sequence[str]) -> Origins:
    return single_author_origins({f"{ENTRY}/{model}": model for model in models})


def merge_origins(parts: Iterable[Origins]) -> Origins:
    first_author: dict[str, str] = {}
    authors: dict[str, None] = {}
    for part in parts:
        for lineage, author in part.first_author.items():
            first_author.setdefault(lineage, author)
        authors.update(dict.fromkeys(part.authors))
    return Origins(lineages=tuple(first_author), authors=tuple(authors), first_author=first_author)
