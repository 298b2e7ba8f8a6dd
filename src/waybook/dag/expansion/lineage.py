"""Where documents descend from: who wrote them, and which origin they carry on.

A lineage is a name, and the name is known before any work: it is made of the stage, the step
and, where a step begins one for each model, the model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: The stage that is none: what the first stage has in place of one before it.
ENTRY = "entry"


@dataclass(frozen=True, slots=True)
class ProducedDocument:
    """One output of a unit: its author, the lineage it carries, and whose review went into it.

    No two outputs of a step are alike in all three.
    """

    model: str
    lineage: str
    reviewer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """What a stage leaves to the next: the lineages and authors among its leaves' outputs."""

    #: Each once, in the order in which they come.
    lineages: tuple[str, ...]
    authors: tuple[str, ...]
    #: Who wrote the first output of each lineage.
    first_author: Mapping[str, str]


def distinct(models: Iterable[str]) -> tuple[str, ...]:
    """These models, each once.

    >>> distinct(["b", "a", "b"])
    ('b', 'a')
    """
    return tuple(dict.fromkeys(models))


def lineage_name(stage: str, step: str, model: str | None = None) -> str:
    """What a lineage that begins here is called.

    >>> lineage_name("thesis", "header", "opus"), lineage_name("synthesis", "summary")
    ('thesis/header/opus', 'synthesis/summary')
    """
    return f"{stage}/{step}" if model is None else f"{stage}/{step}/{model}"


def single_author_origins(first_author: Mapping[str, str]) -> Origins:
    """The origins of lineages that have one author each."""
    return Origins(
        lineages=tuple(first_author),
        authors=distinct(first_author.values()),
        first_author=first_author,
    )


def origins_of(made: Iterable[ProducedDocument]) -> Origins:
    """The origins of these outputs, in their order."""
    first_author: dict[str, str] = {}
    authors: dict[str, None] = {}
    for output in made:
        first_author.setdefault(output.lineage, output.model)
        authors[output.model] = None
    return Origins(lineages=tuple(first_author), authors=tuple(authors), first_author=first_author)


def entry_origins(models: Sequence[str]) -> Origins:
    """What the first stage starts from: a lineage for each of its models, its own author."""
    return single_author_origins({f"{ENTRY}/{model}": model for model in models})


def merge_origins(parts: Iterable[Origins]) -> Origins:
    """Several origins as one, in their order; what was there first stays as it was."""
    first_author: dict[str, str] = {}
    authors: dict[str, None] = {}
    for part in parts:
        for lineage, author in part.first_author.items():
            first_author.setdefault(lineage, author)
        authors.update(dict.fromkeys(part.authors))
    return Origins(lineages=tuple(first_author), authors=tuple(authors), first_author=first_author)
