"""Random exports of Airflow, Argo and LangGraph, and damaged copies of exports."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from dag_evidence import Body

EXAMPLES = Path(__file__).parents[2] / "examples"
SYSTEMS = ("airflow", "argo", "langgraph")

AIRFLOW_STATES = (
    None,
    "scheduled",
    "queued",
    "running",
    "restarting",
    "up_for_retry",
    "up_for_reschedule",
    "deferred",
    "awaiting_input",
    "success",
    "skipped",
    "failed",
    "upstream_failed",
    "removed",
)
ARGO_PHASES = ("Pending", "Running", "Succeeded", "Skipped", "Omitted", "Failed", "Error")
ARGO_GROUPS = ("DAG", "Steps", "StepGroup", "TaskGroup", "Retry")
ARGO_WORK = ("Pod", "Suspend", "HTTP", "Skipped", "Plugin", "Container")


def load_example(system: str) -> Body:
    """Return the example export of one workflow system, such as Airflow."""
    body: Body = json.loads((EXAMPLES / f"{system}.json").read_text())
    return body


def make_instance(task: str, state: str | None, index: int = -1, **more: object) -> Body:
    """Return a task instance of Airflow."""
    fields = {"dag_id": "sales", "dag_run_id": "r1", "task_id": task, "map_index": index}
    return {**fields, "state": state, **more}


def make_airflow(tasks: Mapping[str, list[str]], *instances: Body) -> Body:
    """Return an export of Airflow; `tasks` maps each task to its downstream tasks."""
    listed = [{"task_id": name, "downstream_task_ids": after} for name, after in tasks.items()]
    return {"tasks": listed, "task_instances": [*instances]}


def make_node(name: str, kind: str, phase: str | None, *children: str, **more: object) -> Body:
    """Return a node of Argo, whose id is its name."""
    return {"name": name, "type": kind, "phase": phase, "children": [*children], **more}


def make_argo(*nodes: Body, phase: str = "Running", **more: object) -> Body:
    """Return a workflow of Argo named `wf` with these nodes."""
    status = {"phase": phase, "nodes": {node["name"]: node for node in nodes}}
    head = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "wf"}}
    return {**head, "status": status, **more}


def make_checkpoint(number: int, source: str, *tasks: Body, parent: int | None = None) -> Body:
    """Return a state snapshot of LangGraph; its parent is the preceding snapshot by default."""
    above = number - 1 if parent is None else parent
    return {
        "next": [task["name"] for task in tasks],
        "tasks": [*tasks],
        "metadata": {"source": source, "step": number},
        "created_at": f"2026-03-02T10:00:{number:02}+00:00",
        "checkpoint": {"thread_id": "t", "checkpoint_id": f"{number:04}"},
        "parent_checkpoint": {"thread_id": "t", "checkpoint_id": f"{above:04}"} if above else None,
    }


def make_task(name: str, **more: object) -> Body:
    """Return a LangGraph task that has not ended."""
    return {"name": name, "error": None, "interrupts": [], "result": None, **more}


def make_langgraph(edges: list[tuple[str, str]], *history: Body) -> Body:
    """Return an export of LangGraph, whose nodes are the ends of the edges."""
    nodes = dict.fromkeys(end for edge in edges for end in edge)
    graph = {
        "nodes": [{"id": node} for node in nodes],
        "edges": [{"source": source, "target": target} for source, target in edges],
    }
    return {"graph": graph, "history": [*reversed(history)]}


# Functions that make random exports


def random_airflow(chance: Random) -> Body:
    """Return a random Airflow export: a DAG whose tasks have random states."""
    names = [f"t{number}" for number in range(chance.randint(1, 6))]
    tasks = {
        name: [after for after in names[place + 1 :] if chance.random() < 0.4]
        for place, name in enumerate(names)
    }
    instances = [
        make_instance(name, chance.choice(AIRFLOW_STATES), index)
        for name in names
        for index in range(chance.randint(0, 3))
    ]
    return make_airflow(tasks, *instances)


def random_argo(chance: Random) -> Body:
    """Return a random Argo workflow: a tree of nodes with random types and phases."""
    names = [f"wf.n{number}({number}:x)" for number in range(chance.randint(1, 8))]
    nodes = [
        make_node(
            name,
            chance.choice(ARGO_GROUPS + ARGO_WORK) if place else "Pod",
            chance.choice(ARGO_PHASES),
            *(after for after in names[place + 1 :] if chance.random() < 0.4),
            boundaryID="wf",
            templateName=chance.choice(["main", "leaf", "none"]),
        )
        for place, name in enumerate(names)
    ]
    root = make_node("wf", "DAG", chance.choice(ARGO_PHASES), names[0], templateName="main")
    tasks = [{"name": "n0"}, {"name": "n1"}]
    tasks += [{"name": f"n{number}", "depends": "n0 || n1.Failed"} for number in range(2, 6)]
    steps = [[{"name": "a"}, {"name": "b"}], [{"name": "c"}]]
    templates = [{"name": "main", "dag": {"tasks": tasks}}, {"name": "leaf", "steps": steps}]
    phase = chance.choice(["Running", "Succeeded", "Failed"])
    return make_argo(root, *nodes, phase=phase, spec={"entrypoint": "main", "templates": templates})


def random_langgraph(chance: Random) -> Body:
    """Return a random LangGraph export, whose graph may have loops, with a random history."""
    names = [f"n{number}" for number in range(chance.randint(1, 6))]
    edges = [("__start__", names[0]), (names[-1], "__end__")]
    edges += [(a, b) for a in names for b in names if chance.random() < 0.3]
    edges += [(names[0], name) for name in names]
    history = [make_checkpoint(1, "input", make_task("__start__"))]
    for number in range(2, chance.randint(2, 9)):
        tasks = [
            make_task(name, error=chance.choice([None, "E"]), result=chance.choice([None, {}]))
            for name in chance.sample(names, chance.randint(0, min(3, len(names))))
        ]
        source = chance.choice(["loop", "loop", "loop", "update", "fork", "input"])
        parent = chance.choice([None, None, 1])
        history.append(make_checkpoint(number, source, *tasks, parent=parent))
    return make_langgraph(edges, *history)


RANDOM_EXPORTS: Mapping[str, Callable[[Random], Body]] = {
    "airflow": random_airflow,
    "argo": random_argo,
    "langgraph": random_langgraph,
}


# Functions that make damaged exports

JSON_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - any JSON
    """Yield every list and object in a JSON value, once for each of its keys or positions."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        yield value, key
        if isinstance(inner, dict | list):
            yield from places_in(inner)
