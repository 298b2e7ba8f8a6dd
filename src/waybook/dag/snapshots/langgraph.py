"""Reads runs of LangGraph: a graph, and the state history of one thread.

The report covers the thread's last run. LangGraph does not record whether a task is running, so the
next scheduled task is reported as in progress.
"""

from collections.abc import Mapping, Sequence

from waybook.dag.diagnostics import count_noun
from waybook.dag.snapshots.exports import (
    Edge,
    Job,
    Object,
    Outcome,
    Shape,
    checked,
    invalid_at,
    list_names,
    one_of,
    parse_time,
    snapshot_of,
    text,
    time,
)
from waybook.dag.snapshots.rows import Snapshot, as_object
from waybook.errors import InvalidInput

START, END = "__start__", "__end__"


def node_id(value: object) -> str | None:
    return None if type(value) is int and 0 <= value < 1 << 32 else text(value)


CHECKPOINT: Mapping[str, Shape] = {"checkpoint_id": text, "thread_id": text}
EXPORT: Mapping[str, Shape] = {
    "graph": {"nodes": [{"id": node_id}], "edges": [{"source": node_id, "target": node_id}]},
    "history?": [
        {
            "metadata": {"source": one_of("source", ("input", "loop", "update", "fork"))},
            "tasks": [{"name": text}],
            "next?": [text],
            "created_at?": time,
        }
    ],
}


def is_langgraph(data: object) -> bool:
    graph = as_object(as_object(data).get("graph"))
    return "nodes" in graph and "edges" in graph


def read_langgraph(data: object) -> Snapshot:
    """Return the snapshot of the last run of a thread.

    Raises:
        InvalidInput: the data is not an export of a graph and one thread.
    """
    if isinstance(data, dict) and "graph" not in data:
        raise InvalidInput("this is not a LangGraph export: it has no graph", at="graph")
    raw = checked(data, EXPORT)
    nodes = list(dict.fromkeys(str(node["id"]) for node in raw["graph"]["nodes"]))
    edges: dict[Edge, None] = {}
    for number, edge in enumerate(raw["graph"]["edges"]):
        for end in ("source", "target"):
            if str(edge[end]) not in nodes:
                message = f"there is no node {str(edge[end])!r} in the graph"
                raise invalid_at(f"graph.edges[{number}].{end}", message)
        edges[str(edge["source"]), str(edge["target"])] = None
    steps = [node for node in nodes if node not in {START, END}]
    inner = [edge for edge in edges if not {START, END} & {*edge}]
    back = _back_edges(steps, inner)
    forward = [edge for edge in inner if edge not in back]
    left_out = list_names(" → ".join(edge) for edge in inner if edge in back)
    warnings = [f"edges back to an earlier step are left out: {left_out}"] if back else []
    if raw.get("history") is None:
        warnings.append("the file has no history, so the progress is unknown")
        return snapshot_of("graph", steps, forward, None, warnings, "graph.nodes")
    thread, run = _last_run(raw["history"])
    jobs, strange = _jobs(run, steps)
    return snapshot_of(thread, steps, forward, jobs, [*warnings, *strange], "graph.nodes")


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


def _last_run(history: Sequence[Object]) -> tuple[str, list[Object]]:
    """Return the thread, and the checkpoints of its last run, newest first."""
    by_id: dict[str, Object] = {}
    parents: dict[str, str | None] = {}
    thread = "graph"
    for number, state in enumerate(history):
        place = f"history[{number}]"
        own = checked(*_identity(state, "checkpoint", "config", place))
        parent = checked(*_identity(state, "parent_checkpoint", "parent_config", place))
        thread = own["thread_id"] if number == 0 else thread
        if own["thread_id"] != thread:
            raise invalid_at(place, "is of another thread than the first one; export one thread")
        if own["checkpoint_id"] in by_id:
            raise invalid_at(place, "has the id of another checkpoint")
        by_id[own["checkpoint_id"]] = state
        parents[own["checkpoint_id"]] = parent.get("checkpoint_id")
    run: list[Object] = []
    # Checkpoint ids are ordered by time, so the newest is the largest.
    current = max(by_id, default=None)
    while current is not None and current in by_id:
        run.append(by_id.pop(current))
        is_input = run[-1]["metadata"]["source"] == "input"
        current = None if is_input else parents[current]
    return thread, run


def _identity(state: Object, api: str, library: str, place: str) -> tuple[object, Shape, str]:
    """Return the fields that identify a checkpoint, their shape, and their position in the file."""
    shape = CHECKPOINT if api == "checkpoint" else {"checkpoint_id?": text}
    if state.get(api) is not None:
        return state[api], shape, f"{place}.{api}"
    values = as_object(as_object(state.get(library)).get("configurable"))
    return values, shape, f"{place}.{library}.configurable"


def _jobs(run: Sequence[Object], steps: Sequence[str]) -> tuple[list[Job], list[str]]:
    """Return the executions of nodes, and warnings."""
    known = set(steps)
    jobs: list[Job] = []
    unknown: dict[str, None] = {}
    replaced = 0
    child: Object | None = None
    for state in run:
        started = parse_time(state.get("created_at"))
        for task in state["tasks"]:
            name = task["name"]
            if name not in known:
                unknown |= {} if name == START else {name: None}
            elif (child and child["metadata"]["source"] == "loop") or task.get(
                "result"
            ) is not None:
                ended = parse_time(child.get("created_at")) if child else None
                jobs.append(Job(name, Outcome.DONE, started, ended))
            elif child:
                replaced += 1
            else:
                failed = task.get("error") is not None
                jobs.append(Job(name, Outcome.FAILED if failed else Outcome.ACTIVE))
        child = state
    is_complete = bool(run) and run[-1]["metadata"]["source"] == "input"
    if is_complete and not run[0]["tasks"]:
        # The run has ended, so nodes that were not reached are skipped.
        reached = {job.step for job in jobs}
        jobs += [Job(step, Outcome.SKIPPED) for step in steps if step not in reached]
    cut = "the history does not reach back to the input of the run: export all of it"
    empty = "the history is empty: the thread has no checkpoint"
    strange = f"tasks of nodes that are not in the graph, not counted: {list_names(unknown)}"
    edited = f"{count_noun(replaced, 'task')} replaced by an edit of the state, not counted"
    warnings = [] if is_complete else [cut if run else empty]
    return jobs, [*warnings, *[strange] * bool(unknown), *[edited] * bool(replaced)]
