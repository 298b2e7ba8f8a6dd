"""The lists of a run, by whose items steps are split.

A list in the run's input is known from the start, a list that a step produces once it is submitted.
"""

from collections.abc import Collection, Mapping

from waybook.core.changes import as_json
from waybook.dag.expansion.units import ItemOrigins, input_field, item_origins, read_items
from waybook.json_values import Json
from waybook.run.draft import RunDraft
from waybook.run.model import CompiledDag, NewDocument, Run, RunList, step_id


def input_lists(compiled_dag: CompiledDag, run_input: Json) -> tuple[RunList, ...]:
    """Return the lists that the run's input has.

    Raises:
        InvalidInput: a list is missing or has an empty item.
        TooLarge: a list has too many items.
    """
    lists = {
        item_list.name: item_list
        for item_list in compiled_dag.item_lists.values()
        if not item_list.stage
    }
    return tuple(
        RunList(name, len(read_items(input_field(run_input, item_list.document_key), item_list)))
        for name, item_list in lists.items()
    )


def items_of(draft: RunDraft) -> ItemOrigins:
    return item_origins(draft.compiled_dag.item_lists, draft.run.lengths)


def lists_row(compiled_dag: CompiledDag, run: Run) -> dict[str, Json]:
    return {"lists": as_json(run.lists)} if compiled_dag.item_lists else {}


def store_list(draft: RunDraft, document: NewDocument) -> None:
    """Store the length of a produced list. A list that a step uses stays as it was.

    Raises:
        InvalidInput: the document is not a list, or has an empty item.
        TooLarge: the list has too many items.
    """
    item_list = draft.compiled_dag.produced_lists[document.stage, document.document_key]
    name, length = item_list.name, len(read_items(document.content, item_list))
    lists = {known.name: known for known in draft.run.lists}
    if name in used_lists(draft.compiled_dag, draft.steps):
        lists[name] = lists[name]._replace(newer=(length, document.id))
    else:
        lists[name] = RunList(name, length, document.id)
    draft.set_run(lists=tuple(lists.values()))


def used_lists(compiled_dag: CompiledDag, steps: Collection[str]) -> set[str]:
    """Return the lists by which any of these steps is split."""
    lists = compiled_dag.item_lists.items()
    return {item_list.name for (stage, key), item_list in lists if step_id(stage, key) in steps}


def copy_lists(draft: RunDraft, original: Run, new_ids: Mapping[str, str]) -> None:
    """Take over the lists of the copied stages. Those that no copied step uses are the latest."""
    produced = {
        item_list.name: item_list for item_list in draft.compiled_dag.produced_lists.values()
    }
    used = used_lists(draft.compiled_dag, draft.steps)
    lists = []
    for known in original.lists:
        if known.name in produced and produced[known.name].stage not in draft.stages:
            continue
        name, length, document, newer = known
        if newer is not None and name not in used:
            length, document = newer
        lists.append(RunList(name, length, document and new_ids.get(document, document)))
    draft.set_run(lists=tuple(lists))
