"""The way through the stages: one stage to begin with, one to end with, and no way round."""

from collections.abc import Iterator, Mapping

from waybook.dag.faults import Diagnostic
from waybook.dag.model import Dag
from waybook.dag.recipe import find_cycle
from waybook.dag.warned import quote_name


def transition_errors(dag: Dag) -> list[Diagnostic]:
    """What is wrong with the stages' names and ways; names first, for the rest follows them."""
    return [*_stage_faults(dag), *_name_faults(dag)] or [*_shape_faults(dag)]


def stages_before(dag: Dag) -> Mapping[str, frozenset[str]]:
    """For each stage, those from which transitions lead to it, over however many others."""
    before: dict[str, frozenset[str]] = {}
    waiting = {stage.slug: set(dag.before(stage.slug)) for stage in dag.stages}
    while ready := [slug for slug, sources in waiting.items() if sources <= before.keys()]:
        for slug in ready:
            sources = waiting.pop(slug)
            before[slug] = frozenset(sources).union(*(before[source] for source in sources))
    return before


def _stage_faults(dag: Dag) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for place, stage in enumerate(dag.stages):
        if stage.slug in seen:
            told = f"the slug {quote_name(stage.slug)} is used twice"
            yield Diagnostic("duplicate_stage", f"stages[{place}].slug", told)
        seen.add(stage.slug)


def _name_faults(dag: Dag) -> Iterator[Diagnostic]:
    slugs = {stage.slug for stage in dag.stages}
    seen: set[tuple[str, str]] = set()
    for place, way in enumerate(dag.transitions):
        where = f"transitions[{place}]"
        for end, slug in (("from", way.source), ("to", way.target)):
            if slug not in slugs:
                yield Diagnostic(
                    "unknown_stage", f"{where}.{end}", f"there is no stage {quote_name(slug)}"
                )
        if (way.source, way.target) in seen:
            ends = f"from {quote_name(way.source)} to {quote_name(way.target)}"
            message = f"the transition {ends} is there twice"
            yield Diagnostic("duplicate_transition", where, message)
        seen.add((way.source, way.target))


def _shape_faults(dag: Dag) -> Iterator[Diagnostic]:
    slugs = [stage.slug for stage in dag.stages]
    before = {slug: dag.before(slug) for slug in slugs}
    stuck = set(slugs) - stages_before(dag).keys()
    if stuck:
        around = find_cycle(before, stuck)
        yield Diagnostic("stage_cycle", "transitions", f"the stages wait for each other: {around}")
    entries = [quote_name(slug) for slug in slugs if not before[slug]]
    if entries[1:]:
        told = f"one stage begins, but no transition leads to any of {', '.join(entries)}"
        yield Diagnostic("several_entries", "transitions", told)
    ends = [quote_name(slug) for slug in slugs if not dag.after(slug)]
    if ends[1:]:
        told = f"one stage ends, but no transition leads on from any of {', '.join(ends)}"
        yield Diagnostic("several_terminals", "transitions", told)
