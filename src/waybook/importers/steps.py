"""Steps that are read from another tool's file, and the plan that is built from them.

Each object that is read from JSON keeps its line number, so that errors can name the line.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from json import JSONDecodeError, JSONDecoder
from json.decoder import JSONObject  # type: ignore[attr-defined]  # missing in the stubs
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # missing in the stubs
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from waybook.errors import InvalidInput, TooLarge
from waybook.json_values import Body
from waybook.plan.model import MAX_STEPS, NewStep, StepType

MAX_LENGTH: Final = 4 * 1024 * 1024
MAX_ITEMS: Final = 5_000
#: Limits of the tool `create_research_plan`.
MAX_NAME_LENGTH: Final = 200
MAX_TEXT_LENGTH: Final = 20_000


def at_line(line: int, message: str) -> InvalidInput:
    """Return an error whose message begins with the line number.

    >>> at_line(3, "there is no step 9").message
    'line 3: there is no step 9'
    """
    return InvalidInput(f"line {line}: {message}", line=line)


class Item(NamedTuple):
    key: str
    title: str
    line: int
    text: str = ""
    type: StepType = StepType.CUSTOM
    done: bool = False
    after: tuple[tuple[str, int], ...] = ()
    unread: tuple[int, ...] = ()


class ImportedPlan(NamedTuple):
    name: str
    question: str
    steps: tuple[NewStep, ...]
    lines: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()
    left_out: int = 0
    ignored: int = 0
    pull_requests: int = 0


class ItemList(NamedTuple):
    items: Sequence[Item]
    name: str = ""
    question: str = ""
    is_graph: bool = False
    ignores_unknown: bool = False
    pull_requests: int = 0


def build_plan(item_list: ItemList, *, include_done: bool) -> ImportedPlan:
    """Build the plan from these items, without completed items unless `include_done` is set."""
    items = item_list.items
    if len(items) > MAX_ITEMS:
        line = items[MAX_ITEMS].line
        message = f"line {line}: more than {MAX_ITEMS:,} tasks; import a part of the file"
        raise TooLarge(message, limit=MAX_ITEMS, line=line)
    before, ignored = _dependencies(item_list)
    if not include_done:
        before = [
            {} if item.done else {n: line for n, line in edges.items() if not items[n].done}
            for item, edges in zip(items, before, strict=True)
        ]
    order = _sorted(items, before)
    if not item_list.is_graph:
        order = [*range(len(items))]
    chosen = [n for n in order if include_done or not items[n].done]
    left_out = len(items) - len(chosen)
    if not chosen:
        line = items[0].line if items else 1
        if not left_out:
            raise at_line(line, "no tasks")
        all_done = f"all {left_out} tasks are done" if left_out > 1 else "the only task is done"
        raise at_line(line, f"{all_done}; --all imports done tasks too")
    if len(chosen) > MAX_STEPS:
        line = items[chosen[MAX_STEPS]].line
        raise TooLarge(
            f"line {line}: this file has {len(chosen)} open tasks, and a plan may have {MAX_STEPS} "
            "steps; import a part of it",
            limit=MAX_STEPS,
            line=line,
        )
    place = {n: position for position, n in enumerate(chosen, start=1)}
    name = _shorten(item_list.name or items[chosen[0]].title)
    return ImportedPlan(
        name=name,
        question=(item_list.question.strip() or name)[:MAX_TEXT_LENGTH],
        steps=tuple(
            _step(items[n], tuple(sorted(place[m] for m in before[n] if m in place)))
            for n in chosen
        ),
        lines=tuple(items[n].line for n in chosen),
        unread=tuple(line for item in items for line in item.unread),
        left_out=left_out,
        ignored=sum(ignored[n] for n in chosen),
        pull_requests=item_list.pull_requests,
    )


#: For each item: the items that it depends on, and the line that names each of them.
_Dependencies: TypeAlias = Sequence[Mapping[int, int]]


def _dependencies(item_list: ItemList) -> tuple[_Dependencies, list[int]]:
    """Return the dependencies, and how many unknown items each item depends on."""
    items, by_key = item_list.items, dict[str, int]()
    for number, item in enumerate(items):
        first = by_key.setdefault(item.key, number)
        if first != number:
            raise at_line(item.line, f"the task {item.key} is already in line {items[first].line}")
    before: list[dict[int, int]] = [{} for _ in items]
    ignored = [0 for _ in items]
    for number, item in enumerate(items):
        for key, line in item.after:
            if key in by_key:
                before[number].setdefault(by_key[key], line)
            elif item_list.ignores_unknown:
                ignored[number] += 1
            else:
                raise at_line(line, f"“{item.title}” depends on {key}, which is not in this file")
    return before, ignored


def _sorted(items: Sequence[Item], before: _Dependencies) -> list[int]:
    """Return the items in topological order. Independent items keep their order."""
    sorter = TopologicalSorter(dict(enumerate(before)))
    with suppress(CycleError):  # After this error, the sorter still returns the other items.
        sorter.prepare()
    free, order = [*sorter.get_ready()], list[int]()
    heapify(free)
    while free:
        order.append(heappop(free))
        sorter.done(order[-1])
        for later in sorter.get_ready():
            heappush(free, later)
    if len(order) < len(items):
        _refuse_circle(items, before, {*range(len(items))} - {*order})
    return order


def _refuse_circle(items: Sequence[Item], before: _Dependencies, stuck: set[int]) -> NoReturn:
    # Follow the dependencies until an item repeats. That item is part of the cycle, while the first
    # items may only depend on the cycle.
    number, path = min(stuck), dict[int, int]()
    while number not in path:
        earlier = next(n for n in before[number] if n in stuck)
        path[number], number = before[number][earlier], earlier
    circle = [*path][[*path].index(number) :]
    names = ", ".join(f"“{items[n].title}”" for n in circle)
    last = max(path[n] for n in circle)
    raise at_line(last, f"these tasks wait for each other: {names}; remove one dependency")


def _step(item: Item, depends_on: tuple[int, ...]) -> NewStep:
    text = item.text if item.text.strip() else item.title
    if len(text) > MAX_TEXT_LENGTH:
        most = f"{MAX_TEXT_LENGTH:,} characters"
        raise at_line(item.line, f"“{_shorten(item.title)}” has more than {most}; shorten it")
    title = _shorten(item.title)
    return NewStep(
        type=item.type,
        title=None if not title or title == text else title,
        instructions=text,
        depends_on=depends_on,
    )


def _shorten(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= MAX_NAME_LENGTH else line[: MAX_NAME_LENGTH - 1] + "…"


def plan_arguments(plan: ImportedPlan) -> Body:
    return {
        "name": plan.name,
        "researchQuestion": plan.question,
        "steps": [
            {
                "stepType": str(step.type),
                "instructions": step.instructions,
                **({"title": step.title} if step.title else {}),
                **({"dependsOn": [*step.depends_on]} if step.depends_on else {}),
            }
            for step in plan.steps
        ],
    }


MAX_DEPTH = 40
#: Characters that JSON can contain, but PostgreSQL cannot store.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


class LocatedObject(dict[str, Any]):
    line: int = 1


class _Decoder(JSONDecoder):
    def __init__(self, text: str, first_line: int) -> None:
        super().__init__(strict=False)
        self._breaks = [place for place, char in enumerate(text) if char == "\n"]
        self._first_line = first_line
        self._depth = 0
        self.parse_object = self._object
        self.scan_once = py_make_scanner(self)

    def _object(self, start: tuple[str, int], *rest: Any) -> tuple[LocatedObject, int]:  # noqa: ANN401
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError
        value, end = JSONObject(start, *rest)
        self._depth -= 1
        located = LocatedObject(value)
        located.line = self._first_line + bisect_right(self._breaks, start[1] - 1)
        return located, end


def _read_json(text: str, first_line: int) -> Any:  # noqa: ANN401 - JSON
    """Parse JSON text. `first_line` is the line of the file in which the text begins."""
    try:
        return _Decoder(text, first_line).decode(text)
    except JSONDecodeError as error:
        raise at_line(first_line + error.lineno - 1, f"this is not JSON: {error.msg}") from None
    except (RecursionError, ValueError):
        message = "this JSON is nested too deeply, or has too long a number"
        raise at_line(first_line, message) from None


def read_document(text: str) -> Any:  # noqa: ANN401 - JSON
    """Parse JSON text, or JSON Lines, whose objects are returned as a list."""
    try:
        return _read_json(text, 1)
    except InvalidInput as error:
        not_json = error
    objects: list[LocatedObject] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = _read_json(line.strip(), number)
        except InvalidInput:
            if not objects:
                break
            raise
        if not isinstance(value, LocatedObject):
            raise at_line(number, "this is not a JSON object")
        objects.append(value)
    if not objects:
        raise not_json
    return objects


def text_field(task: LocatedObject, name: str) -> str:
    value = task.get(name)
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        raise at_line(task.line, f"{name} is not a text")
    if _UNSTORABLE.search(value):
        problem = "contains a NUL character, or half a character (a lone surrogate)"
        raise at_line(task.line, f"{name} {problem}; remove it")
    return value


def title_field(task: LocatedObject) -> str:
    title = text_field(task, "title").strip()
    if not title:
        raise at_line(task.line, "this task has no title")
    return title


def key_field(task: LocatedObject, name: str = "id") -> str:
    value = task.get(name)
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        raise at_line(task.line, f"this task has no {name}")
    return str(value).strip()


def list_field(task: LocatedObject, name: str) -> list[Any]:
    value = task.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise at_line(task.line, f"{name} is not a list")
    return value
