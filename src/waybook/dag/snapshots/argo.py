"""Reads workflows of Argo, from the JSON that `kubectl get workflow` prints.

All items of a loop, and all attempts of a retry, belong to one step. Argo lists a task only when
the task can start, so the steps to come are read from the templates.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from waybook.dag.diagnostics import count_noun, quote_name
from waybook.dag.snapshots.exports import (
    MAX_EDGES,
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
from waybook.dag.snapshots.rows import Raw, Snapshot, as_list, as_object, as_text
from waybook.errors import InvalidInput

_PHASES = {
    "Pending": Outcome.ACTIVE,
    "Running": Outcome.ACTIVE,
    "Succeeded": Outcome.DONE,
    "Skipped": Outcome.SKIPPED,
    "Omitted": Outcome.SKIPPED,
    "Failed": Outcome.FAILED,
    "Error": Outcome.FAILED,
}
GROUPS = frozenset({"DAG", "Steps"})
#: Nodes that are never a step; the others are, or stand for the nodes inside them.
_NO_STEPS = ("StepGroup", "Container")
OTHERS = ("Pod", "TaskGroup", "Retry", "Skipped", "Suspend", "HTTP", "Plugin")
#: The phase of a workflow is empty until the controller has processed it.
UNFINISHED = ("", "Pending", "Running")
FAILED = ("Failed", "Error")
EXPORT: Mapping[str, Shape] = {
    "metadata": {"name": text},
    "status?": {
        "phase?": one_of("workflow phase", (*UNFINISHED, "Succeeded", *FAILED)),
        "nodes?": {
            "*": {
                "type": one_of("node type", (*sorted(GROUPS), *_NO_STEPS, *OTHERS)),
                "name": text,
                "children?": [text],
                "startedAt?": time,
                "finishedAt?": time,
            }
        },
    },
}
PHASE = one_of("phase of a node", _PHASES)
#: Fields of a status without nodes, and what they mean.
_NODES_ELSEWHERE = (
    ("compressedNodes", "the nodes are compressed"),
    ("offloadNodeStatusVersion", "the nodes are in a database"),
)
_EXIT_HANDLER = "onExit"
#: Name of a step or task, perhaps with a group number, a loop item or an attempt number.
_LOCAL_NAME = re.compile(r"((?:\[\d+\])?\.?[A-Za-z0-9_-]+)(?:\(\d+(?::.*)?\))*", re.DOTALL)
TASK_NAME = re.compile(r"(?<![.\w-])[A-Za-z0-9_-]+")

Nodes = Mapping[str, Object]
Edges = dict[Edge, None]


def is_argo(data: object) -> bool:
    raw = as_object(data)
    kind, version = as_text(raw.get("kind")), as_text(raw.get("apiVersion")) or ""
    return kind == "List" or (kind is not None and version.startswith("argoproj.io/"))


def read_argo(data: object) -> Snapshot:
    """Return the snapshot of an Argo workflow.

    Raises:
        InvalidInput: the data is not a workflow with its nodes, or contains an unknown phase.
    """
    kind = as_text(checked(data, {}).get("kind"))
    if kind in {"List", "WorkflowList"}:
        message = "this is a list; export one workflow: kubectl get workflow NAME -o json"
        raise invalid_at("items", message)
    if kind != "Workflow":
        raise InvalidInput("this is not an Argo workflow: its kind is not Workflow", at="kind")
    raw = checked(data, EXPORT)
    name, status = raw["metadata"]["name"], raw.get("status") or {}
    nodes: Nodes = status.get("nodes") or {}
    for field, why in _NODES_ELSEWHERE:
        if status.get(field) and not nodes:
            message = f"{why}; export the workflow with: argo get NAME -o json"
            raise invalid_at(f"status.{field}", message)
    working = list(_working(nodes))
    keys = {node_id: _step_key(nodes[node_id], nodes, name) for node_id in working}
    jobs = []
    for node_id, key in keys.items():
        node = nodes[node_id]
        checked(node.get("phase"), PHASE, f"status.nodes[{quote_name(node_id)}].phase")
        started, ended = parse_time(node.get("startedAt")), parse_time(node.get("finishedAt"))
        jobs.append(Job(key, _PHASES[node["phase"]], started, ended))
    edges = _edges(nodes, keys)
    steps = dict.fromkeys(keys.values())
    planned, unknown = _planned(raw, name, nodes)
    _connect(planned, steps, edges)
    existing = {_step_key(node, nodes, name) for node in nodes.values()}
    steps |= dict.fromkeys(planned)
    if as_text(as_object(raw.get("spec")).get("onExit")) and _EXIT_HANDLER not in existing:
        sources = {source for source, _ in edges}
        edges |= {(key, _EXIT_HANDLER): None for key in steps if key not in sources}
        steps[_EXIT_HANDLER] = None
    missing = {c: None for n in nodes.values() for c in _children(n) if c not in nodes}
    warnings = []
    if missing:
        count = count_noun(len(missing), "node")
        warnings.append(f"{count} not in the file, but named as a child: {list_names(missing)}")
    if unknown:
        what = list_names(unknown)
        warnings.append(f"the steps to come are unknown, as the template is missing: {what}")
    warnings += _phase_warnings(status, jobs, has_more=len(steps) > len(set(keys.values())))
    return snapshot_of(name, list(steps), edges, jobs, warnings, "status.nodes")


def _children(node: Object) -> Sequence[str]:
    return node.get("children") or ()


def _instances(node: Object, nodes: Nodes) -> list[str]:
    """Return the items of a loop, or the attempts of a retry."""
    prefix = f"{node['name']}("
    return [c for c in _children(node) if c in nodes and nodes[c]["name"].startswith(prefix)]


def _working(nodes: Nodes) -> Iterator[str]:
    """Yield the ids of the nodes that are steps."""
    inner = {as_text(node.get("boundaryID")) for node in nodes.values()}
    retries = [node for node in nodes.values() if node["type"] == "Retry"]
    attempts = {child for node in retries for child in _instances(node, nodes)}
    for node_id, node in nodes.items():
        kind, instances = node["type"], _instances(node, nodes)
        if kind in GROUPS:
            is_working = node_id not in inner and not _children(node)
        elif kind == "Retry":
            # A Retry node stands for its attempts, unless an attempt is a group of steps.
            is_working = not any(nodes[child]["type"] in GROUPS for child in instances)
        elif kind == "TaskGroup":
            # A loop without items has only this node.
            is_working = not instances
        else:
            is_working = kind not in _NO_STEPS
        if is_working and node_id not in attempts:
            yield node_id


def _short_name(name: str, workflow: str) -> str:
    """Return a node's name without the name of its workflow.

    >>> _short_name("wf-x7.build", "wf-x7"), _short_name("wf-x7[0].a", "wf-x7")
    ('build', '[0].a')
    >>> _short_name("wf-x7", "wf-x7"), _short_name("wf-x71.a", "wf-x7")
    ('wf-x7', 'wf-x71.a')
    """
    rest = name.removeprefix(workflow)
    is_inside = name.startswith(workflow) and rest[:1] in {".", "[", "("}
    return rest.removeprefix(".") if is_inside else name


def _step_key(node: Object, nodes: Nodes, workflow: str) -> str:
    name: str = node["name"]
    boundary = nodes.get(as_text(node.get("boundaryID")) or "", {}).get("name")
    if boundary is not None and name.startswith(boundary):
        local = _LOCAL_NAME.fullmatch(name, len(boundary))
        name = name if local is None else boundary + local.group(1)
    return _short_name(name, workflow)


def _edges(nodes: Nodes, keys: Mapping[str, str]) -> Edges:
    """Return the dependencies between steps, also through nodes that are not steps."""
    inside = {
        node_id: [child for child in _children(node) if child in nodes]
        for node_id, node in nodes.items()
    }
    sorter = TopologicalSorter(
        {
            node_id: [child for child in children if child not in keys]
            for node_id, children in inside.items()
            if node_id not in keys
        }
    )
    #: The first steps that are reached through each node.
    reached: dict[str, Sequence[str]] = {node_id: [key] for node_id, key in keys.items()}
    size = 0
    try:
        for node_id in sorter.static_order():
            steps = {step: None for child in inside[node_id] for step in reached[child]}
            reached[node_id] = list(steps)
            size += len(steps)
            _limit(size, "status.nodes")
    except CycleError as error:
        place = f"status.nodes[{quote_name(error.args[1][0])}].children"
        raise invalid_at(place, "the nodes lead back to themselves") from None
    edges: Edges = {}
    for node_id, key in keys.items():
        for child in inside[node_id]:
            edges |= {(key, target): None for target in reached[child] if target != key}
            _limit(len(edges), "status.nodes")
    return edges


def _limit(size: int, place: str) -> None:
    if size > MAX_EDGES:
        raise invalid_at(place, f"there are more than {MAX_EDGES} dependencies between the steps")


def _planned(
    workflow: Object, name: str, nodes: Nodes
) -> tuple[dict[str, Sequence[str]], Sequence[str]]:
    """Return the steps to come with their dependencies, and the groups without a template."""
    spec, status = as_object(workflow.get("spec")), as_object(workflow.get("status"))
    stored_spec = as_object(status.get("storedWorkflowTemplateSpec"))
    local: dict[str, Raw] = {}
    for raw in (*as_list(stored_spec.get("templates")), *as_list(spec.get("templates"))):
        local[as_text(as_object(raw).get("name")) or ""] = as_object(raw)
    groups: list[tuple[str, Raw | None]] = []
    if not nodes:
        entrypoint = as_text(spec.get("entrypoint")) or as_text(stored_spec.get("entrypoint"))
        groups.append((name, local.get(entrypoint or "")))
    for node in nodes.values():
        if node["type"] in GROUPS and node.get("phase") != "Succeeded":
            template = _template(node, local, as_object(status.get("storedTemplates")))
            groups.append((node["name"], template))
    existing = {_step_key(node, nodes, name) for node in nodes.values()}
    planned: dict[str, Sequence[str]] = {}
    for group, template in groups:
        for full, before in _listed_steps(group, template) if template is not None else ():
            key = _short_name(full, name)
            if key not in existing:
                planned[key] = [_short_name(other, name) for other in before]
    return planned, [_short_name(group, name) for group, template in groups if template is None]


def _template(node: Object, local: Mapping[str, Raw], stored: Raw) -> Raw | None:
    own, ref = as_text(node.get("templateName")) or "", as_object(node.get("templateRef"))
    shared = f"{ref.get('name')}/{ref.get('template')}"
    scope = as_text(node.get("templateScope")) or ""
    for name in (f"{scope}/{own}", f"namespaced/{shared}", f"cluster/{shared}"):
        if name in stored:
            return as_object(stored[name])
    return local.get(own)


def _listed_steps(group: str, template: Raw) -> Iterator[tuple[str, Sequence[str]]]:
    tasks = [as_object(task) for task in as_list(as_object(template.get("dag")).get("tasks"))]
    names = {as_text(task.get("name")) for task in tasks} - {None}
    for task in tasks:
        if name := as_text(task.get("name")):
            listed = [as_text(other) for other in as_list(task.get("dependencies"))]
            listed += TASK_NAME.findall(as_text(task.get("depends")) or "")
            before = [other for other in listed if other in names and other != name]
            yield f"{group}.{name}", [f"{group}.{other}" for other in before]
    earlier: list[str] = []
    for number, raws in enumerate(as_list(template.get("steps"))):
        inside = [as_text(as_object(step).get("name")) for step in as_list(raws)]
        current = [f"{group}[{number}].{name}" for name in inside if name]
        for full in current:
            yield full, earlier
        earlier = current
    if not tasks and not as_list(template.get("steps")):
        yield group, ()


def _connect(planned: Mapping[str, Sequence[str]], steps: Mapping[str, None], edges: Edges) -> None:
    """Add the dependencies of the steps to come; a group stands for the last steps inside it."""
    names = sorted({*steps, *planned})
    sources = {source for source, _ in edges}
    ends: dict[str, Sequence[str]] = {}
    for key, before in planned.items():
        for other in before:
            if other not in ends:
                ends[other] = _ends(other, names, sources)
            edges |= {(end, key): None for end in ends[other] if end != key}
            _limit(len(edges), "spec.templates")


def _ends(key: str, names: Sequence[str], sources: set[str]) -> Sequence[str]:
    place = bisect_left(names, key)
    if place < len(names) and names[place] == key:
        return [key]
    inside: list[str] = []
    while place < len(names) and names[place].startswith(key):
        inside += [names[place]] if names[place][len(key)] in ".[(" else []
        place += 1
    return [step for step in inside if step not in sources] or inside


def _phase_warnings(status: Object, jobs: Sequence[Job], *, has_more: bool) -> Iterator[str]:
    phase = status.get("phase") or ""
    outcomes = {job.outcome for job in jobs}
    if phase in FAILED and Outcome.FAILED not in outcomes:
        message = status.get("message")
        why = f": {quote_name(message)}" if isinstance(message, str) and message else ""
        yield f"the workflow is {phase}, although no step in the file failed{why}"
    ended = not outcomes & {Outcome.ACTIVE, Outcome.FAILED}
    if phase in UNFINISHED and outcomes and ended and not has_more:
        yield f"the workflow is {phase or 'not started'}, although each step in the file has ended"
