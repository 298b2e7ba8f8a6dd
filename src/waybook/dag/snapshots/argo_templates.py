"""Finds the steps of an Argo workflow that have not started, in its templates.

Argo lists a task only when the task can start.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from waybook.dag.snapshots.argo_nodes import GROUPS, ArgoNode, Nodes, short_name, step_key
from waybook.dag.snapshots.exports import MAX_EDGES, invalid_at, list_names
from waybook.dag.snapshots.rows import Raw, as_list, as_object, as_text

Edges = dict[tuple[str, str], None]

TASK_NAME = re.compile(r"(?<![.\w-])[A-Za-z0-9_-]+")

EXIT_HANDLER = "onExit"


@dataclass(slots=True)
class PlannedSteps:
    before: dict[str, Sequence[str]] = field(default_factory=dict)
    edges: Edges = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def steps(self) -> Sequence[str]:
        return list(self.before)


def planned_steps(
    workflow: Raw, name: str, nodes: Nodes, keys: Mapping[str, str], edges: Edges
) -> PlannedSteps:
    """Return the steps that have not started, and their dependencies."""
    planned = PlannedSteps()
    existing = {step_key(node, nodes, name) for node in nodes.values()}
    unknown: list[str] = []
    for group, template in _open_groups(workflow, name, nodes):
        if template is None:
            unknown.append(short_name(group, name))
            continue
        for full, before in _listed_steps(group, template):
            key = short_name(full, name)
            if key not in existing:
                planned.before[key] = [short_name(other, name) for other in before]
    if unknown:
        what = list_names(unknown)
        planned.warnings.append(
            f"the steps to come are unknown, as the template is missing: {what}"
        )
    _connect(planned, keys, edges)
    if as_text(as_object(workflow.get("spec")).get("onExit")) and EXIT_HANDLER not in existing:
        _add_exit_handler(planned, keys, edges)
    return planned


def _add_exit_handler(planned: PlannedSteps, keys: Mapping[str, str], edges: Edges) -> None:
    sources = {source for source, _ in (*edges, *planned.edges)}
    ends = [key for key in (*dict.fromkeys(keys.values()), *planned.before) if key not in sources]
    planned.before[EXIT_HANDLER] = ends
    planned.edges.update({(end, EXIT_HANDLER): None for end in ends})


def _connect(planned: PlannedSteps, keys: Mapping[str, str], edges: Edges) -> None:
    names = sorted({*keys.values(), *planned.before})
    sources = {source for source, _ in edges}
    ends: dict[str, Sequence[str]] = {}
    for key, before in planned.before.items():
        for other in before:
            if other not in ends:
                ends[other] = _ends(other, names, sources)
            planned.edges.update({(end, key): None for end in ends[other] if end != key})
            if len(planned.edges) > MAX_EDGES:
                message = f"there are more than {MAX_EDGES} dependencies between the steps"
                raise invalid_at("spec.templates", message)


def _ends(key: str, names: Sequence[str], sources: set[str]) -> Sequence[str]:
    """Return the step with this key or, for a group, the last steps in the group."""
    place = bisect_left(names, key)
    if place < len(names) and names[place] == key:
        return [key]
    inside: list[str] = []
    while place < len(names) and names[place].startswith(key):
        inside += [names[place]] if names[place][len(key)] in ".[(" else []
        place += 1
    return [step for step in inside if step not in sources] or inside


def _open_groups(workflow: Raw, name: str, nodes: Nodes) -> Iterator[tuple[str, Raw | None]]:
    """Yield the groups that may start further steps, with their templates."""
    spec, status = as_object(workflow.get("spec")), as_object(workflow.get("status"))
    stored_spec = as_object(status.get("storedWorkflowTemplateSpec"))
    local: dict[str, Raw] = {}
    for raw in (*as_list(stored_spec.get("templates")), *as_list(spec.get("templates"))):
        local[as_text(as_object(raw).get("name")) or ""] = as_object(raw)
    stored = as_object(status.get("storedTemplates"))
    if not nodes:
        entrypoint = as_text(spec.get("entrypoint")) or as_text(stored_spec.get("entrypoint"))
        yield name, local.get(entrypoint or "")
    for node in nodes.values():
        if node.type in GROUPS and node.phase != "Succeeded":
            yield node.name, _template(node, local, stored)


def _template(node: ArgoNode, local: Mapping[str, Raw], stored: Raw) -> Raw | None:
    ref = node.template_ref
    names = [f"{node.template_scope}/{node.template}"]
    names += [
        f"{scope}/{ref.get('name')}/{ref.get('template')}" for scope in ("namespaced", "cluster")
    ]
    found = [as_object(stored[key]) for key in names if key in stored]
    return found[0] if found else local.get(node.template)


def _listed_steps(group: str, template: Raw) -> Iterator[tuple[str, Sequence[str]]]:
    tasks = [as_object(task) for task in as_list(as_object(template.get("dag")).get("tasks"))]
    names = {as_text(task.get("name")) for task in tasks} - {None}
    for task in tasks:
        if name := as_text(task.get("name")):
            before = [other for other in _dependencies(task) if other in names and other != name]
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


def _dependencies(task: Raw) -> Iterator[str]:
    yield from (name for name in map(as_text, as_list(task.get("dependencies"))) if name)
    yield from TASK_NAME.findall(as_text(task.get("depends")) or "")
