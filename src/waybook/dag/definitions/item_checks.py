"""Checks the steps that are split by the items of a list.

The list must be one document: a part of the run's input, or the only document of a PLAN step.
"""

from collections.abc import Iterator, Mapping

from waybook.dag.diagnostics import Diagnostic, quote_name
from waybook.dag.expansion.granularity import fans_out
from waybook.dag.expansion.inputs import FEEDBACK
from waybook.dag.expansion.items import ITEM_STRATEGIES, list_place
from waybook.dag.graph import Graph, output_keys
from waybook.dag.model import Dag, JobType, RecipeStep, Stage, Strategy


def item_list_errors(dag: Dag, graphs: Mapping[str, Graph]) -> Iterator[Diagnostic]:
    for number, stage in enumerate(dag.stages):
        for place, step in enumerate(stage.recipe.steps):
            where = f"stages[{number}].recipe.steps[{place}]"
            if step.strategy in ITEM_STRATEGIES:
                message = _list_error(dag, stage, step, graphs)
                if message is not None:
                    at = f"{where}.inputsRequired" + ("[0]" if step.inputs else "")
                    yield Diagnostic("item_list", at, f"{quote_name(step.key)} {message}")
            elif step.max_items is not None:
                message = f"{quote_name(step.key)} is not split by items, so it has no maxItems"
                yield Diagnostic("max_items", f"{where}.maxItems", message)


def _list_error(
    dag: Dag, stage: Stage, step: RecipeStep, graphs: Mapping[str, Graph]
) -> str | None:
    place = list_place(step, stage.slug)
    if place is None or not step.inputs:
        return "is split by items, so its first input must be the list"
    slug, key = place
    source = dag.stage(slug)
    makers = [maker for maker in source.recipe.steps if key in output_keys(maker)] if source else []
    names = " and ".join(quote_name(maker.key) for maker in makers)
    is_wrong = {
        "but that is a text": key == FEEDBACK,
        "so this input must be required": not step.inputs[0].required,
        f"but several steps produce that: {names}": len(makers) > 1,
        f"so {names}, which produces that, must be an all_to_one PLAN step": any(
            (maker.job_type, maker.strategy) != (JobType.PLAN, Strategy.ALL_TO_ONE)
            for maker in makers
        ),
        f"but {names} produces that once per model, for the per_source_document step after it": any(
            slug in graphs and fans_out(maker, graphs[slug]) for maker in makers
        ),
    }
    error = next((why for why, holds in is_wrong.items() if holds), None)
    return error and f"is split by the items of {quote_name(key)}, {error}"
