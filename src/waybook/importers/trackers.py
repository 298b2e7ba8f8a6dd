"""Reads the issues of beads (JSON Lines) and the tasks of Task Master (`tasks.json`)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from waybook.importers.steps import (
    Item,
    ItemList,
    LocatedObject,
    at_line,
    key_field,
    list_field,
    read_json,
    read_json_lines,
    required_text,
    text_field,
)

_BEADS_DONE: Final = frozenset({"closed", "done"})
_DELETED: Final = frozenset({"tombstone"})
#: Kinds of dependencies that block an issue. Other kinds only link issues.
_BLOCKING: Final = frozenset({"blocks", "conditional-blocks", "waits-for"})
PARENT: Final = "parent-child"
_BEADS_TEXTS: Final = (
    ("description", ""),
    ("design", "Design:"),
    ("acceptance_criteria", "Acceptance criteria:"),
    ("notes", "Notes:"),
)


def is_beads(first: object) -> bool:
    return (
        isinstance(first, LocatedObject)
        and {"id", "title"} <= first.keys()
        and ("issue_type" in first or "status" in first)
    )


def read_beads(text: str) -> ItemList:
    """Return the issues of a beads file. An issue depends on its blockers and its children.

    Raises:
        InvalidInput: a line is not an issue; the error names the line.
    """
    item_list = ItemList(name="beads", is_graph=True, ignores_unknown=True)
    issues = [
        issue for issue in read_json_lines(text) if text_field(issue, "status") not in _DELETED
    ]
    after: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for issue in issues:
        key = key_field(issue)
        for link in list_field(issue, "dependencies"):
            if not isinstance(link, LocatedObject):
                raise at_line(issue.line, "a dependency is not a JSON object")
            target, kind = key_field(link, "depends_on_id"), text_field(link, "type") or "blocks"
            if kind in _BLOCKING:
                after[key].append((target, issue.line))
            elif kind == PARENT:
                after[target].append((key, issue.line))
    for issue in issues:
        key = key_field(issue)
        item_list.add(
            Item(
                key=key,
                title=required_text(issue, "title"),
                text=_text(issue, _BEADS_TEXTS),
                line=issue.line,
                done=text_field(issue, "status") in _BEADS_DONE,
                after=tuple(after[key]),
            )
        )
    return item_list


_DEFAULT_TAG: Final = "master"
_TASK_MASTER_DONE: Final = frozenset({"done", "completed", "cancelled", "canceled"})
_TASK_MASTER_TEXTS: Final = (
    ("description", ""),
    ("details", ""),
    ("acceptanceCriteria", "Acceptance criteria:"),
    ("testStrategy", "Test strategy:"),
)


def is_task_master(data: Any) -> bool:  # noqa: ANN401 - JSON
    if not isinstance(data, LocatedObject):
        return False
    return isinstance(data.get("tasks"), list) or bool(_tags(data))


def _tags(data: LocatedObject) -> dict[str, LocatedObject]:
    return {
        name: part
        for name, part in data.items()
        if isinstance(part, LocatedObject) and isinstance(part.get("tasks"), list)
    }


def read_task_master(text: str, *, tag: str | None = None, subtasks: bool = True) -> ItemList:
    """Return the tasks of one tag. A task depends on its subtasks.

    If `subtasks` is False, subtasks become a list in the text of their task.

    Raises:
        InvalidInput: the file does not have the form of `tasks.json`, or lacks the tag; the error
        names the line.
    """
    data = read_json(text)
    if not is_task_master(data):
        raise at_line(1, "this is not a tasks.json: there is no list of tasks")
    name, part = _selected(data, tag)
    item_list = ItemList(name=name, is_graph=True, ignores_unknown=True)
    metadata = part.get("metadata")
    if isinstance(metadata, LocatedObject):
        item_list.name = text_field(metadata, "projectName") or name
        item_list.question = text_field(metadata, "description")
    for task in list_field(part, "tasks"):
        if not isinstance(task, LocatedObject):
            raise at_line(part.line, "a task is not a JSON object")
        for item in _items(task, subtasks=subtasks):
            item_list.add(item)
    return item_list


def _selected(data: LocatedObject, tag: str | None) -> tuple[str, LocatedObject]:
    tags = _tags(data)
    if isinstance(data.get("tasks"), list) and not tags:
        if tag is not None:
            raise at_line(data.line, "this tasks.json has no tags; leave --tag out")
        return "", data
    wanted = tag or (_DEFAULT_TAG if _DEFAULT_TAG in tags else next(iter(tags)))
    if wanted not in tags:
        raise at_line(data.line, f"there is no tag {wanted}; there are: {', '.join(tags)}")
    return wanted, tags[wanted]


def _items(task: LocatedObject, *, subtasks: bool) -> Iterator[Item]:
    key, parts = key_field(task), list_field(task, "subtasks")
    for part in parts:
        if not isinstance(part, LocatedObject):
            raise at_line(task.line, "a subtask is not a JSON object")
    after = [str(reference).strip() for reference in list_field(task, "dependencies")]
    if subtasks:
        keys = _subtask_keys(key, parts)
        siblings: dict[str, list[str]] = defaultdict(list)
        for own, part in zip(keys, parts, strict=True):
            siblings[key_field(part)].append(own)
        for own, part in zip(keys, parts, strict=True):
            yield _subtask(own, part, siblings, after)
        after += keys
    text = _text(task, _TASK_MASTER_TEXTS)
    if not subtasks and parts:
        text += "\n\nSubtasks:\n" + "\n".join(_line(part) for part in parts)
    yield Item(
        key=key,
        title=required_text(task, "title"),
        text=text.strip(),
        line=task.line,
        done=text_field(task, "status").lower() in _TASK_MASTER_DONE,
        after=tuple((reference, task.line) for reference in after),
    )


def _subtask_keys(parent: str, parts: Sequence[LocatedObject]) -> list[str]:
    """Return a unique key for each subtask, because Task Master may write duplicate ids."""
    keys: dict[str, None] = {}
    for place, part in enumerate(parts, start=1):
        key = f"{parent}.{key_field(part)}"
        keys[f"{key} at place {place}" if key in keys else key] = None
    return [*keys]


def _subtask(
    key: str,
    part: LocatedObject,
    siblings: Mapping[str, Sequence[str]],
    parent_after: Sequence[str],
) -> Item:
    references = [str(reference).strip() for reference in list_field(part, "dependencies")]
    # “2” refers to subtask 2 of the same task, and “5.2” to subtask 2 of task 5.
    after = [
        target
        for reference in references
        for target in (siblings.get(reference) if "." not in reference else None) or [reference]
    ]
    return Item(
        key=key,
        title=required_text(part, "title"),
        text=_text(part, _TASK_MASTER_TEXTS),
        line=part.line,
        done=text_field(part, "status").lower() in _TASK_MASTER_DONE,
        after=tuple((reference, part.line) for reference in [*after, *parent_after]),
    )


def _text(task: LocatedObject, texts: Sequence[tuple[str, str]]) -> str:
    """Return the fields with these names as one text, each field below its heading."""
    parts = [(heading, text_field(task, name).strip()) for name, heading in texts]
    return "\n\n".join(f"{heading}\n{text}".strip() for heading, text in parts if text)


def _line(part: LocatedObject) -> str:
    mark = "x" if text_field(part, "status").lower() in _TASK_MASTER_DONE else " "
    return f"- [{mark}] {required_text(part, 'title')}"
