"""The lists by which `per_item` and `per_item_and_model` steps are split.

The list of a step is its first input: a field of the run's input, or a document that a PLAN step
produces. Each item is a lineage (chain of documents) of its own, named after the list and the place
of the item, so all documents about an item belong together.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from waybook.dag.expansion.lineage import Origins, single_author_origins
from waybook.dag.graph import output_keys
from waybook.dag.model import Dag, RecipeStep, Stage, Strategy
from waybook.errors import InvalidInput, TooLarge
from waybook.json_values import Json, parse_content

ITEM_STRATEGIES = frozenset({Strategy.PER_ITEM, Strategy.PER_ITEM_AND_MODEL})
MAX_ITEMS = 1_000


class ItemList(NamedTuple):
    name: str
    document_key: str
    #: Stage in which a step produces the list. None if the run's input has it.
    stage: str | None
    #: Smallest limit that a step declares for the list, or None.
    max_items: int | None


#: By stage and key of the step that is split.
ItemLists: TypeAlias = Mapping[tuple[str, str], ItemList]
ItemOrigins: TypeAlias = Mapping[tuple[str, str], Origins]
#: Numbers of items by the names of the lists, for the lists that are known.
Lengths: TypeAlias = Mapping[str, int]

NO_LENGTHS: Lengths = MappingProxyType({})
NO_ITEMS: ItemOrigins = MappingProxyType({})
NO_ORIGINS = single_author_origins({})


def list_place(step: RecipeStep, stage: str) -> tuple[str, str] | None:
    """Return the stage and key of the document by whose items a step is split."""
    if step.strategy not in ITEM_STRATEGIES or not step.inputs:
        return None
    return step.inputs[0].stage or stage, step.inputs[0].document_key


def item_lists(dag: Dag) -> ItemLists:
    steps = [(stage.slug, step) for stage in dag.stages for step in stage.recipe.steps]
    split = [(slug, step, place) for slug, step in steps if (place := list_place(step, slug))]
    if not split:
        return {}
    makers = {(slug, key): step for slug, step in steps for key in output_keys(step)}
    lists: dict[tuple[str, str], ItemList] = {}
    limits: dict[str, int] = {}
    for slug, step, place in split:
        maker = makers.get(place)
        parts = place if maker else place[1:]
        name = "/".join(part.replace("~", "~0").replace("/", "~1") for part in parts)
        lists[slug, step.key] = ItemList(name, place[1], place[0] if maker else None, None)
        # A skipped step produces no list, so there are no items.
        limit = 0 if maker and maker.skip else step.max_items
        if limit is not None:
            limits[name] = min(limit, limits.get(name, limit))
    return {
        step: item_list._replace(max_items=limits.get(item_list.name))
        for step, item_list in lists.items()
    }


def item_origins(lists: ItemLists, lengths: Lengths) -> ItemOrigins:
    """Return the items of each step's list as lineages. An unknown list has none."""
    by_name = {
        name: single_author_origins({f"{name}/{n}": "" for n in range(1, lengths.get(name, 0) + 1)})
        for name in {item_list.name for item_list in lists.values()}
    }
    return {step: by_name[item_list.name] for step, item_list in lists.items()}


def split_origins(step: RecipeStep, stage: Stage, prior: Origins, items: ItemOrigins) -> Origins:
    """Return the lineages and authors by which a step is split."""
    if step.strategy not in ITEM_STRATEGIES:
        return prior
    return items.get((stage.slug, step.key), NO_ORIGINS)


def read_items(value: Json, item_list: ItemList) -> list[Json]:
    """Return the items of a list, which may be given as JSON text.

    Raises:
        InvalidInput: the value is not a list, or an item is empty.
        TooLarge: the list has too many items.
    """
    items = parse_content(value) if isinstance(value, str) else value
    key = item_list.document_key
    if not isinstance(items, list):
        message = f"`{key}` must be a JSON array, because each of its items becomes a job"
        raise InvalidInput(message, documentKey=key)
    limit = MAX_ITEMS if item_list.max_items is None else item_list.max_items
    if len(items) > limit:
        message = f"the list `{key}` has {len(items):,} items; it may have at most {limit:,}"
        raise TooLarge(message, documentKey=key, limit=limit)
    for number, item in enumerate(items, 1):
        if item in (None, [], {}) or (isinstance(item, str) and not item.strip()):
            raise InvalidInput(f"item {number} of the list `{key}` is empty", documentKey=key)
    return items


def input_field(run_input: Json, key: str) -> Json:
    """Return the field with this key of a run's input, or the whole input without such a field.

    >>> input_field({"question": "Why?"}, "question"), input_field("Why?", "question")
    ('Why?', 'Why?')
    """
    return run_input.get(key, run_input) if isinstance(run_input, dict) else run_input
