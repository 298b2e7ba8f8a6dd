"""Reads the issues of beads (JSON Lines) and the tasks of Task Master (`tasks.json`)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from waybook.importers.steps import (
    Item,
    ItemList,
    LocatedObject,
    at_line,
    key_field,
    list_field,
    read_document,
    text_field,
    title_field,
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


def is_beads(data: object) -> bool:
    first = next(iter(data), None) if isinstance(data, list) else data
    return (
        isinstance(first, LocatedObject)
        and {"id", "title"} <= first.keys()
        and ("issue_type" in first or "status" in first)
    )


def read_beads(text: str) -> ItemList:
    """Return the issues of a beads file. An issue depends on its blockers and its children."""
    document = read_document(text)
    listed = _objects(document if isinstance(document, list) else [document], 1, "an issue")
    issues = [issue for issue in listed if text_field(issue, "status") not in _DELETED]
    after: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for issue in issues:
        key = key_field(issue)
        for link in _objects(list_field(issue, "dependencies"), issue.line, "a dependency"):
            target, kind = key_field(link, "depends_on_id"), text_field(link, "type") or "blocks"
            if kind in _BLOCKING:
                after[key].append((target, issue.line))
            elif kind == PARENT:
                after[target].append((key, issue.line))
    items = []
    for issue in issues:
        key, done = key_field(issue), text_field(issue, "status") in _BEADS_DONE
        items.append(_item(key, issue, _text(issue, _BEADS_TEXTS), after[key], done=done))
    return ItemList(items, "beads", is_graph=True, ignores_unknown=True)


def _objects(values: Sequence[object], line: int, kind: str) -> list[LocatedObject]:
    objects = [value for value in values if isinstance(value, LocatedObject)]
    if len(objects) != len(values):
        raise at_line(line, f"{kind} is not a JSON object")
    return objects


def _item(
    key: str, task: LocatedObject, text: str, after: Iterable[tuple[str, int]], *, done: bool
) -> Item:
    title = title_field(task)
    return Item(key=key, title=title, text=text, line=task.line, done=done, after=tuple(after))


_DEFAULT_TAG: Final = "master"
_TASK_MASTER_DONE: Final = frozenset({"done", "completed", "cancelled", "canceled"})
_TASK_MASTER_TEXTS: Final = (
    ("description", ""),
    ("details", ""),
    ("acceptanceCriteria", "Acceptance criteria:"),
    ("testStrategy", "Test strategy:"),
)


def is_task_master(data: object) -> bool:
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
    """
    data = read_document(text)
    if not is_task_master(data):
        raise at_line(1, "this is not a tasks.json: there is no list of tasks")
    name, part = _selected(data, tag)
    question, metadata = "", part.get("metadata")
    if isinstance(metadata, LocatedObject):
        name = text_field(metadata, "projectName") or name
        question = text_field(metadata, "description")
    tasks = _objects(list_field(part, "tasks"), part.line, "a task")
    items = [item for task in tasks for item in _items(task, subtasks=subtasks)]
    return ItemList(items, name, question, is_graph=True, ignores_unknown=True)


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
    key = key_field(task)
    parts = _objects(list_field(task, "subtasks"), task.line, "a subtask")
    after, text = _references(task), _text(task, _TASK_MASTER_TEXTS)
    if subtasks:
        # Task Master may write duplicate ids. The key of a later duplicate also contains its place.
        keys: dict[str, LocatedObject] = {}
        siblings: dict[str, list[str]] = defaultdict(list)
        for place, part in enumerate(parts, start=1):
            own = f"{key}.{key_field(part)}"
            own = f"{own} at place {place}" if own in keys else own
            keys[own] = part
            # “2” refers to subtask 2 of the same task, and “5.2” to subtask 2 of task 5.
            if "." not in key_field(part):
                siblings[key_field(part)].append(own)
        for own, part in keys.items():
            own_after = [
                (target, part.line)
                for reference in _references(part)
                for target in siblings.get(reference, [reference])
            ]
            own_after += [(reference, part.line) for reference in after]
            part_text = _text(part, _TASK_MASTER_TEXTS)
            yield _item(own, part, part_text, own_after, done=_is_done(part))
        after += keys
    elif parts:
        lines = (f"- [{'x' if _is_done(p) else ' '}] {title_field(p)}" for p in parts)
        text = "\n".join([f"{text}\n\nSubtasks:", *lines]).strip()
    yield _item(key, task, text, ((other, task.line) for other in after), done=_is_done(task))


def _references(task: LocatedObject) -> list[str]:
    return [str(reference).strip() for reference in list_field(task, "dependencies")]


def _is_done(task: LocatedObject) -> bool:
    return text_field(task, "status").lower() in _TASK_MASTER_DONE


def _text(task: LocatedObject, texts: Sequence[tuple[str, str]]) -> str:
    """Return the fields with these names as one text, each field below its heading."""
    parts = [(heading, text_field(task, name).strip()) for name, heading in texts]
    return "\n\n".join(f"{heading}\n{text}".strip() for heading, text in parts if text)
