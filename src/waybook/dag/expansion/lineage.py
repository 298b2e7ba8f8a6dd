"""Origin of documents: the models that wrote them, and the chains of documents (lineages).

A lineage is a name known before any work: it consists of the stage, the step and, if a step begins
one for each model, the model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Name used in place of a stage for the input of the first stage.
ENTRY = "entry"


@dataclass(frozen=True, slots=True)
class ProducedDocument:
    """Output of a work unit: its author, its lineage, and the reviewer whose review it used.

    No two outputs of a step have the same author, lineage and reviewer.
    """

    model: str
    lineage: str
    reviewer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """Document chains (lineages) and authors of final outputs, passed to the next stage."""

    #: Lineages (names of document chains) and authors (models) of the stage's final outputs, each
    #: without duplicates, in the order in which the outputs contain them.
    lineages: tuple[str, ...]
    authors: tuple[str, ...]
    #: For each lineage, the author of its first output.
    first_author: Mapping[str, str]


def distinct(models: Iterable[str]) -> tuple[str, ...]:
    """Return these language models without duplicates.

    >>> distinct(["b", "a", "b"])
    ('b', 'a')
    """
    return tuple(dict.fromkeys(models))


def lineage_name(stage: str, step: str, model: str | None = None) -> str:
    """Return the name of the lineage (chain of documents) that begins at this step.

    >>> lineage_name("thesis", "header", "opus"), lineage_name("synthesis", "summary")
    ('thesis/header/opus', 'synthesis/summary')
    """
    return f"{stage}/{step}" if model is None else f"{stage}/{step}/{model}"


def single_author_origins(first_author: Mapping[str, str]) -> Origins:
    """Return origins for lineages (document chains) that each have one author."""
    return Origins(
        lineages=tuple(first_author),
        authors=distinct(first_author.values()),
        first_author=first_author,
    )


def entry_origins(models: Sequence[str]) -> Origins:
    """Return the lineages (document chains) that begin in the first stage, one per model."""
    return single_author_origins({f"{ENTRY}/{model}": model for model in models})


def merge_origins(parts: Iterable[Origins]) -> Origins:
    """Merge origins in order; keep the first author of each lineage (document chain)."""
    first_author: dict[str, str] = {}
    authors: dict[str, None] = {}
    for part in parts:
        for lineage, author in part.first_author.items():
            first_author.setdefault(lineage, author)
        authors.update(dict.fromkeys(part.authors))
    return Origins(lineages=tuple(first_author), authors=tuple(authors), first_author=first_author)
