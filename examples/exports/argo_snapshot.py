"""Convert a run of Argo Workflows to a snapshot.

Usage: python argo_snapshot.py run.json | waybook report -

The file is the output of `kubectl get workflow NAME -o json` or `argo get NAME -o json`. The items
of a loop become jobs of one step. Argo lists a task only when it can start, so later tasks are read
from the templates in the file.
"""
# ruff: noqa: INP001, T201 - an example that is run as a program

import json
import re
import sys
from pathlib import Path
from typing import Any

STATUSES = {
    "Pending": "pending",
    "Running": "processing",
    **dict.fromkeys(("Succeeded", "Skipped", "Omitted"), "completed"),
    **dict.fromkeys(("Failed", "Error"), "failed"),
}
#: Types of nodes that are groups of nodes, not steps.
GROUPS = {"DAG", "Steps", "StepGroup", "TaskGroup", "Container"}
Edges = set[tuple[str, str]]


def convert(workflow: Any) -> dict[str, object]:  # noqa: ANN401 - JSON
    name, nodes = workflow["metadata"]["name"], workflow["status"].get("nodes") or {}
    retried = {
        child
        for node in nodes.values()
        if node["type"] == "Retry"
        for child in node.get("children") or ()
        if nodes[child]["name"].startswith(f"{node['name']}(")
    }
    keys = {
        node_id: step_key(node["name"], name)
        for node_id, node in nodes.items()
        if node["type"] not in GROUPS and node_id not in retried
    }
    edges = {
        (key, target)
        for node_id, key in keys.items()
        for target in reached(node_id, nodes, keys)
        if target != key
    }
    edges |= planned(workflow, name, nodes)
    steps = {*keys.values()}.union(*edges)
    jobs = [
        {
            "id": node_id,
            "stageSlug": name,
            "stepKey": key,
            "jobType": "EXECUTE",
            "status": STATUSES[nodes[node_id]["phase"]],
        }
        for node_id, key in keys.items()
    ]
    work = {"jobType": "EXECUTE", "granularityStrategy": "all_to_one"}
    recipe = {"steps": [{"stepKey": key, **work} for key in sorted(steps)], "edges": sorted(edges)}
    dag = {"slug": name, "stages": [{"slug": name, "recipe": recipe}]}
    return {"dag": dag, "stageRuns": [{"stageSlug": name}], "jobs": jobs, "resources": []}


def step_key(name: str, workflow: str) -> str:
    """Return the name of a node's step: `test` for the node `wf.test(1:x)`."""
    return re.sub(r"\(\d+(:.*?)?\)", "", name.removeprefix(workflow)).lstrip(".") or workflow


def reached(node_id: str, nodes: Any, keys: dict[str, str]) -> set[str]:  # noqa: ANN401 - JSON
    """Return the steps that follow a node, directly or through nodes that are not steps."""
    found = set()
    for child in nodes[node_id].get("children") or ():
        found |= {keys[child]} if child in keys else reached(child, nodes, keys)
    return found


def planned(workflow: Any, name: str, nodes: Any) -> Edges:  # noqa: ANN401 - JSON
    """Return the dependencies that are written in the templates of the workflow."""
    spec = workflow.get("spec") or {}
    templates = {template["name"]: template for template in spec.get("templates") or ()}
    groups = {node["name"]: node.get("templateName") for node in nodes.values()}
    edges: Edges = set()
    for group, template in ({name: spec.get("entrypoint")} | groups).items():
        tasks = templates.get(template, {}).get("dag", {}).get("tasks", ())
        known = {task["name"] for task in tasks}
        for task in tasks:
            before = {
                *task.get("dependencies", ()),
                *re.findall(r"[\w-]+", task.get("depends", "")),
            }
            key = step_key(f"{group}.{task['name']}", name)
            edges |= {(step_key(f"{group}.{one}", name), key) for one in before & known}
    return edges


if __name__ == "__main__":
    print(json.dumps(convert(json.loads(Path(sys.argv[1]).read_text()))))
