"""Reads runs of LangGraph: a graph, and the state history of one thread.

The report covers the thread's last run. LangGraph does not record whether a task is running, so the
next scheduled task is reported as in progress.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from waybook.dag.diagnostics import count_noun
from waybook.dag.snapshots.exports import (
    ExportedJob,
    ExportedRun,
    JobOutcome,
    invalid_at,
    list_names,
    read_time,
    require_list,
    require_object,
    require_text,
    snapshot_of,
    texts_of,
)
from waybook.dag.snapshots.model import Snapshot
from waybook.dag.snapshots.rows import Raw, as_object
from waybook.errors import InvalidInput

START, END = "__start__", "__end__"

INPUT, LOOP, UPDATE, FORK = "input", "loop", "update", "fork"
SOURCES = (INPUT, LOOP, UPDATE, FORK)


def is_langgraph(data: object) -> bool:
    graph = as_object(as_object(data).get("graph"))
    return "nodes" in graph and "edges" in graph


def read_langgraph(data: object) -> Snapshot:
    """Return the snapshot of the last run of a thread.

    Raises:
        InvalidInput: the data is not an export of a graph and one thread.
    """
    raw = require_object(data, "file")
    if "graph" not in raw:
        raise InvalidInput("this is not a LangGraph export: it has no graph", at="graph")
    nodes, edges = _read_graph(require_object(raw["graph"], "graph"))
    forward, back = _without_loops(nodes, edges)
    warnings = [f"edges back to an earlier step are left out: {list_names(back)}"] if back else []
    history = raw.get("history")
    if history is None:
        warnings.append("the file has no history, so the progress is unknown")
        jobs, name = None, "graph"
    else:
        checkpoints = _read_history(require_list(history, "history"))
        run, complete = _last_run(checkpoints)
        jobs, strange = _jobs(run, nodes, complete=complete)
        warnings += strange
        name = run[0].thread if run else "graph"
    exported = ExportedRun(name=name, steps=nodes, edges=forward, jobs=jobs, warnings=warnings)
    return snapshot_of(exported, "graph.nodes")


Edge = tuple[str, str]


def _read_graph(graph: Raw) -> tuple[list[str], list[Edge]]:
    ids = dict.fromkeys(
        _node_id(item, f"graph.nodes[{number}]")
        for number, item in enumerate(require_list(graph.get("nodes"), "graph.nodes"))
    )
    edges = []
    for number, item in enumerate(require_list(graph.get("edges"), "graph.edges")):
        place = f"graph.edges[{number}]"
        raw = require_object(item, place)
        ends = [_edge_end(raw.get(end), ids, f"{place}.{end}") for end in ("source", "target")]
        edges.append((ends[0], ends[1]))
    nodes = [node for node in ids if node not in {START, END}]
    return nodes, [edge for edge in edges if not {START, END} & {*edge}]


def _node_id(item: object, place: str) -> str:
    return _id_text(require_object(item, place).get("id"), f"{place}.id")


def _edge_end(value: object, ids: Mapping[str, None], place: str) -> str:
    end = _id_text(value, place)
    if end not in ids:
        raise invalid_at(place, f"there is no node {end!r} in the graph")
    return end


def _id_text(value: object, place: str) -> str:
    return str(value) if type(value) is int and 0 <= value < 1 << 32 else require_text(value, place)


def _without_loops(nodes: Sequence[str], edges: Sequence[Edge]) -> tuple[list[Edge], list[str]]:
    unique = list(dict.fromkeys(edges))
    back = _back_edges(nodes, unique)
    return (
        [edge for edge in unique if edge not in back],
        [" → ".join(edge) for edge in unique if edge in back],
    )


def _back_edges(nodes: Sequence[str], edges: Sequence[Edge]) -> set[Edge]:
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        after[source].append(target)
    targets = {target for _, target in edges}
    back: set[Edge] = set()
    visited: set[str] = set()
    for root in sorted(nodes, key=lambda node: node in targets):
        path = {} if root in visited else {root: iter(after[root])}
        visited.add(root)
        while path:
            node = next(reversed(path))
            following = next(path[node], None)
            if following is None:
                del path[node]
            elif following in path:
                back.add((node, following))
            elif following not in visited:
                visited.add(following)
                path[following] = iter(after[following])
    return back


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    name: str
    has_result: bool
    has_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    id: str
    parent: str | None
    thread: str
    source: str
    created_at: datetime | None
    tasks: tuple[Task, ...]


def _read_history(items: Sequence[object]) -> list[Checkpoint]:
    checkpoints = [_checkpoint(item, f"history[{number}]") for number, item in enumerate(items)]
    seen: set[str] = set()
    for number, checkpoint in enumerate(checkpoints):
        if checkpoint.thread != checkpoints[0].thread:
            place = f"history[{number}]"
            raise invalid_at(place, "is of another thread than the first one; export one thread")
        if checkpoint.id in seen:
            raise invalid_at(f"history[{number}]", "has the id of another checkpoint")
        seen.add(checkpoint.id)
    return checkpoints


def _checkpoint(item: object, place: str) -> Checkpoint:
    raw = require_object(item, place)
    where, own = _configuration(raw, "checkpoint", "config", place)
    _, parent = _configuration(raw, "parent_checkpoint", "parent_config", place)
    source = as_object(raw.get("metadata")).get("source")
    if source not in SOURCES:
        known = ", ".join(SOURCES)
        raise invalid_at(f"{place}.metadata.source", f"must be one of {known}")
    above = parent.get("checkpoint_id")
    tasks = require_list(raw.get("tasks"), f"{place}.tasks")
    texts_of(raw.get("next"), f"{place}.next")
    return Checkpoint(
        id=require_text(own.get("checkpoint_id"), f"{where}.checkpoint_id"),
        parent=None if above is None else require_text(above, f"{place}: its parent's id"),
        thread=require_text(own.get("thread_id"), f"{where}.thread_id"),
        source=str(source),
        created_at=read_time(raw.get("created_at"), f"{place}.created_at"),
        tasks=tuple(_task(task, f"{place}.tasks[{n}]") for n, task in enumerate(tasks)),
    )


def _configuration(raw: Raw, api: str, library: str, place: str) -> tuple[str, Raw]:
    """Return the fields that identify a checkpoint, and their position in the file."""
    if raw.get(api) is not None:
        return f"{place}.{api}", require_object(raw[api], f"{place}.{api}")
    values = as_object(as_object(raw.get(library)).get("configurable"))
    return f"{place}.{library}.configurable", values


def _task(item: object, place: str) -> Task:
    raw = require_object(item, place)
    return Task(
        name=require_text(raw.get("name"), f"{place}.name"),
        has_result=raw.get("result") is not None,
        has_error=raw.get("error") is not None,
    )


def _last_run(checkpoints: Sequence[Checkpoint]) -> tuple[list[Checkpoint], bool]:
    """Return the checkpoints of the last run, and whether its input is among them."""
    by_id = {checkpoint.id: checkpoint for checkpoint in checkpoints}
    run: list[Checkpoint] = []
    # Checkpoint ids are ordered by time, so the newest is the largest.
    current = max(checkpoints, key=lambda checkpoint: checkpoint.id, default=None)
    while current is not None and by_id.pop(current.id, None) is not None:
        run.append(current)
        if current.source == INPUT:
            return run, True
        current = by_id.get(current.parent or "")
    return run, False


def _jobs(
    run: Sequence[Checkpoint], nodes: Sequence[str], *, complete: bool
) -> tuple[list[ExportedJob], list[str]]:
    known = set(nodes)
    jobs: list[ExportedJob] = []
    strange: dict[str, None] = {}
    replaced = 0
    child: Checkpoint | None = None
    for checkpoint in run:
        for task in checkpoint.tasks:
            if task.name not in known:
                strange |= {} if task.name == START else {task.name: None}
                continue
            job = _job(task, checkpoint, child)
            replaced += job is None
            jobs += [job] if job else []
        child = checkpoint
    if complete and run and not run[0].tasks:
        # The run has ended, so nodes that were not reached are skipped.
        reached = {job.step for job in jobs}
        jobs += [
            ExportedJob(step=node, outcome=JobOutcome.SKIPPED)
            for node in nodes
            if node not in reached
        ]
    return jobs, [*_warnings(run, strange, replaced, complete=complete)]


def _job(task: Task, checkpoint: Checkpoint, child: Checkpoint | None) -> ExportedJob | None:
    """Return one execution of a node, or None if an edit of the state replaced it."""
    if (child is not None and child.source == LOOP) or task.has_result:
        ended = child.created_at if child else None
        return ExportedJob(
            step=task.name,
            outcome=JobOutcome.DONE,
            started_at=checkpoint.created_at,
            ended_at=ended,
        )
    if child is not None:
        return None
    outcome = JobOutcome.FAILED if task.has_error else JobOutcome.ACTIVE
    return ExportedJob(step=task.name, outcome=outcome)


def _warnings(
    run: Sequence[Checkpoint], strange: Mapping[str, None], replaced: int, *, complete: bool
) -> Iterator[str]:
    if not run:
        yield "the history is empty: the thread has no checkpoint"
    elif not complete:
        yield "the history does not reach back to the input of the run: export all of it"
    if strange:
        yield f"tasks of nodes that are not in the graph, not counted: {list_names(strange)}"
    if replaced:
        yield f"{count_noun(replaced, 'task')} replaced by an edit of the state, not counted"
