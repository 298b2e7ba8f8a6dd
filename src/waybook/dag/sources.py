"""Where a step's documents come from: who makes what, and the one a step goes by.

The primary source of a `per_source_document` step is the predecessor that makes the first of its
inputs; the step has one unit for each of that predecessor's outputs.
"""

from collections.abc import Mapping

from waybook.dag.model import RecipeStep, Stage, Strategy
from waybook.dag.recipe import Graph


def output_keys(step: RecipeStep) -> tuple[str, ...]:
    """The keys of the documents each unit of this step makes, each once."""
    keys = dict.fromkeys(output.document_key for output in step.outputs)
    return tuple(keys) or (step.output_type,)


def producers(stage: Stage) -> Mapping[str, tuple[str, ...]]:
    """The steps of a stage that make each document, by the document's key."""
    found: dict[str, list[str]] = {}
    for step in stage.recipe.steps:
        for key in output_keys(step):
            found.setdefault(key, []).append(step.key)
    return {key: tuple(steps) for key, steps in found.items()}


def primary_source_candidates(step: RecipeStep, stage_slug: str, graph: Graph) -> tuple[str, ...]:
    """The predecessors that could be this step's primary source; in a good recipe, one."""
    before = graph.predecessors[step.key]
    if step.inputs is None:
        return before
    primary = next(iter(step.inputs), None)
    if primary is None or primary.stage not in {None, stage_slug}:
        return ()
    return tuple(key for key in before if primary.document_key in output_keys(graph.steps[key]))


def primary_source(step: RecipeStep, stage_slug: str, graph: Graph) -> str | None:
    """The predecessor whose outputs this step has a unit for each; None if it has none.

    The recipe has been checked: a `per_source_document` step that is no root has exactly one.
    """
    if step.strategy is not Strategy.PER_SOURCE_DOCUMENT or not graph.predecessors[step.key]:
        return None
    found = primary_source_candidates(step, stage_slug, graph)
    return found[0] if len(found) == 1 else None
