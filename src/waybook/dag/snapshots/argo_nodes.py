"""Nodes of an Argo workflow, as its status lists them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from waybook.dag.diagnostics import quote_name
from waybook.dag.snapshots.exports import (
    invalid_at,
    read_time,
    require_object,
    require_text,
    texts_of,
)
from waybook.dag.snapshots.rows import Raw, as_object, as_text

TYPES = (
    "Pod",
    "Container",
    "Steps",
    "StepGroup",
    "DAG",
    "TaskGroup",
    "Retry",
    "Skipped",
    "Suspend",
    "HTTP",
    "Plugin",
)

GROUPS = frozenset({"DAG", "Steps"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgoNode:
    id: str
    place: str
    name: str
    type: str
    #: Phase as written in the file.
    phase: object
    children: tuple[str, ...]
    #: The group that contains this node. Empty for the root.
    boundary: str
    template: str
    template_ref: Raw
    template_scope: str
    started_at: datetime | None
    finished_at: datetime | None


Nodes = Mapping[str, ArgoNode]


def read_nodes(value: object) -> Nodes:
    raws = {} if value is None else require_object(value, "status.nodes")
    return {node_id: _node(node_id, raw) for node_id, raw in raws.items()}


def _node(node_id: str, value: object) -> ArgoNode:
    place = f"status.nodes[{quote_name(node_id)}]"
    raw = require_object(value, place)
    kind = raw.get("type")
    if kind not in TYPES:
        known = ", ".join(TYPES)
        message = f"{quote_name(kind)} is not a known node type; known are {known}"
        raise invalid_at(f"{place}.type", message)
    return ArgoNode(
        id=node_id,
        place=place,
        name=require_text(raw.get("name"), f"{place}.name"),
        type=str(kind),
        phase=raw.get("phase"),
        children=tuple(texts_of(raw.get("children"), f"{place}.children")),
        boundary=as_text(raw.get("boundaryID")) or "",
        template=as_text(raw.get("templateName")) or "",
        template_ref=as_object(raw.get("templateRef")),
        template_scope=as_text(raw.get("templateScope")) or "",
        started_at=read_time(raw.get("startedAt"), f"{place}.startedAt"),
        finished_at=read_time(raw.get("finishedAt"), f"{place}.finishedAt"),
    )


def short_name(name: str, workflow: str) -> str:
    """Return a node's name without the name of its workflow.

    >>> short_name("wf-x7.build", "wf-x7"), short_name("wf-x7[0].a", "wf-x7")
    ('build', '[0].a')
    >>> short_name("wf-x7", "wf-x7"), short_name("wf-x71.a", "wf-x7")
    ('wf-x7', 'wf-x71.a')
    """
    rest = name.removeprefix(workflow)
    is_inside = name.startswith(workflow) and rest[:1] in {".", "[", "("}
    return rest.removeprefix(".") if is_inside else name


#: Name of a step or task, perhaps with a group number, a loop item or an attempt number.
LOCAL_NAME = re.compile(r"((?:\[\d+\])?\.?[A-Za-z0-9_-]+)(?:\(\d+(?::.*)?\))*", re.DOTALL)


def step_key(node: ArgoNode, nodes: Nodes, workflow: str) -> str:
    boundary = nodes.get(node.boundary)
    name = node.name
    if boundary is not None and name.startswith(boundary.name):
        local = LOCAL_NAME.fullmatch(name, len(boundary.name))
        name = name if local is None else boundary.name + local.group(1)
    return short_name(name, workflow)
