"""Reads workflows of Argo, from the JSON that `kubectl get workflow` prints.

All items of a loop, and all attempts of a retry, belong to one step.
"""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from waybook.dag.diagnostics import count_noun, quote_name
from waybook.dag.snapshots.argo_nodes import GROUPS, ArgoNode, Nodes, read_nodes, step_key
from waybook.dag.snapshots.argo_templates import Edges, PlannedSteps, planned_steps
from waybook.dag.snapshots.exports import (
    MAX_EDGES,
    ExportedJob,
    ExportedRun,
    JobOutcome,
    invalid_at,
    list_names,
    look_up_state,
    require_object,
    require_text,
    snapshot_of,
)
from waybook.dag.snapshots.model import Snapshot
from waybook.dag.snapshots.rows import Raw, as_object, as_text
from waybook.errors import InvalidInput

PHASES: Mapping[str, JobOutcome] = MappingProxyType(
    {
        "Pending": JobOutcome.ACTIVE,
        "Running": JobOutcome.ACTIVE,
        "Succeeded": JobOutcome.DONE,
        "Skipped": JobOutcome.SKIPPED,
        "Omitted": JobOutcome.SKIPPED,
        "Failed": JobOutcome.FAILED,
        "Error": JobOutcome.FAILED,
    }
)

#: The phase is empty until the controller has processed the workflow.
WORKFLOW_PHASES = frozenset({"", "Pending", "Running", "Succeeded", "Failed", "Error"})
FAILED_WORKFLOW = frozenset({"Failed", "Error"})
UNFINISHED_WORKFLOW = frozenset({"", "Pending", "Running"})

LISTS = frozenset({"List", "WorkflowList"})


def is_argo(data: object) -> bool:
    raw = as_object(data)
    kind, version = as_text(raw.get("kind")), as_text(raw.get("apiVersion")) or ""
    return kind == "List" or (kind is not None and version.startswith("argoproj.io/"))


def read_argo(data: object) -> Snapshot:
    """Return the snapshot of an Argo workflow.

    Raises:
        InvalidInput: the data is not a workflow with its nodes, or contains an unknown phase.
    """
    raw = require_object(data, "file")
    kind = as_text(raw.get("kind"))
    if kind in LISTS:
        message = "this is a list; export one workflow: kubectl get workflow NAME -o json"
        raise invalid_at("items", message)
    if kind != "Workflow":
        raise InvalidInput("this is not an Argo workflow: its kind is not Workflow", at="kind")
    name = require_text(as_object(raw.get("metadata")).get("name"), "metadata.name")
    status = as_object(raw.get("status"))
    _require_inline_nodes(status)
    nodes = read_nodes(status.get("nodes"))
    phase = _workflow_phase(status)
    keys = {node.id: step_key(node, nodes, name) for node in _working(nodes)}
    edges = _edges(nodes, keys)
    missing = _missing_children(nodes)
    planned = planned_steps(raw, name, nodes, keys, edges)
    jobs = [_job(nodes[node_id], key) for node_id, key in keys.items()]
    run = ExportedRun(
        name=name,
        steps=[*dict.fromkeys(keys.values()), *planned.steps],
        edges=[*edges, *planned.edges],
        jobs=jobs,
        warnings=[*missing, *planned.warnings, *_phase_warnings(status, phase, jobs, planned)],
    )
    return snapshot_of(run, "status.nodes")


def _require_inline_nodes(status: Raw) -> None:
    for field, why in (
        ("compressedNodes", "the nodes are compressed"),
        ("offloadNodeStatusVersion", "the nodes are in a database"),
    ):
        if status.get(field) and not status.get("nodes"):
            message = f"{why}; export the workflow with: argo get NAME -o json"
            raise invalid_at(f"status.{field}", message)


def _workflow_phase(status: Raw) -> str:
    phase = status.get("phase") or ""
    if not isinstance(phase, str) or phase not in WORKFLOW_PHASES:
        known = ", ".join(sorted(WORKFLOW_PHASES - {""}))
        message = f"{quote_name(phase)} is not a known workflow phase; known are {known}"
        raise invalid_at("status.phase", message)
    return phase


def _working(nodes: Nodes) -> Iterator[ArgoNode]:
    inner = {node.boundary for node in nodes.values()}
    attempts = {
        child
        for node in nodes.values()
        if node.type == "Retry"
        for child in _instances(node, nodes)
    }
    for node in nodes.values():
        if node.id in attempts:
            # A Retry node stands for its attempts, unless an attempt is a group of steps.
            continue
        if node.type in GROUPS:
            is_working = node.id not in inner and not node.children
        elif node.type == "Retry":
            is_working = not any(nodes[child].type in GROUPS for child in _instances(node, nodes))
        elif node.type == "TaskGroup":
            # A loop without items has only this node.
            is_working = not _instances(node, nodes)
        else:
            is_working = node.type not in {"StepGroup", "Container"}
        if is_working:
            yield node


def _instances(node: ArgoNode, nodes: Nodes) -> list[str]:
    prefix = f"{node.name}("
    return [
        child for child in node.children if child in nodes and nodes[child].name.startswith(prefix)
    ]


def _job(node: ArgoNode, key: str) -> ExportedJob:
    place = f"{node.place}.phase"
    outcome = look_up_state(PHASES, node.phase, place, "phase of a node")
    return ExportedJob(
        step=key, outcome=outcome, started_at=node.started_at, ended_at=node.finished_at
    )


def _edges(nodes: Nodes, keys: Mapping[str, str]) -> Edges:
    reached = _reached_steps(nodes, keys)
    edges: dict[tuple[str, str], None] = {}
    for node_id, key in keys.items():
        for child in nodes[node_id].children:
            targets = [keys[child]] if child in keys else reached.get(child, ())
            edges.update({(key, target): None for target in targets if target != key})
            if len(edges) > MAX_EDGES:
                message = f"there are more than {MAX_EDGES} dependencies between the steps"
                raise invalid_at("status.nodes", message)
    return edges


def _reached_steps(nodes: Nodes, keys: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Return the first steps that are reached through each node that is not a step."""
    inside = {
        node.id: [child for child in node.children if child in nodes]
        for node in nodes.values()
        if node.id not in keys
    }
    sorter = TopologicalSorter(
        {node_id: [c for c in children if c not in keys] for node_id, children in inside.items()}
    )
    reached: dict[str, Sequence[str]] = {}
    size = 0
    try:
        for node_id in sorter.static_order():
            steps: dict[str, None] = {}
            for child in inside[node_id]:
                steps.update(dict.fromkeys([keys[child]] if child in keys else reached[child]))
            reached[node_id] = list(steps)
            size += len(steps)
            if size > MAX_EDGES:
                message = f"there are more than {MAX_EDGES} dependencies between the nodes"
                raise invalid_at("status.nodes", message)
    except CycleError as error:
        place = f"{nodes[error.args[1][0]].place}.children"
        raise invalid_at(place, "the nodes lead back to themselves") from None
    return reached


def _missing_children(nodes: Nodes) -> list[str]:
    missing = dict.fromkeys(
        child for node in nodes.values() for child in node.children if child not in nodes
    )
    count = count_noun(len(missing), "node")
    return [f"{count} not in the file, but named as a child: {list_names(missing)}"] * bool(missing)


def _phase_warnings(
    status: Raw, phase: str, jobs: Sequence[ExportedJob], planned: PlannedSteps
) -> Iterator[str]:
    outcomes = {job.outcome for job in jobs}
    if phase in FAILED_WORKFLOW and JobOutcome.FAILED not in outcomes:
        message = status.get("message")
        why = f": {quote_name(message)}" if isinstance(message, str) and message else ""
        yield f"the workflow is {phase}, although no step in the file failed{why}"
    ended = not outcomes & {JobOutcome.ACTIVE, JobOutcome.FAILED}
    if phase in UNFINISHED_WORKFLOW and outcomes and ended and not planned.steps:
        yield f"the workflow is {phase or 'not started'}, although each step in the file has ended"
