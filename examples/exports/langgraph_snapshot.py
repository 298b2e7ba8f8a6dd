"""Convert a run of LangGraph to a snapshot.

Usage: python langgraph_snapshot.py run.json | waybook report -

The file has a `graph`, as `graph.get_graph().to_json()` returns it, and the `history` of a thread,
newest state first. LangGraph does not record whether a task is running, so a task that is due
counts as active. A map has no loops, so edges back to an earlier node are left out.
"""
# ruff: noqa: INP001, T201 - an example that is run as a program

import json
import sys
from pathlib import Path
from typing import Any

ENDS = {"__start__", "__end__"}


def convert(export: Any) -> dict[str, object]:  # noqa: ANN401 - JSON
    nodes = [str(node["id"]) for node in export["graph"]["nodes"] if node["id"] not in ENDS]
    edges = [(str(edge["source"]), str(edge["target"])) for edge in export["graph"]["edges"]]
    run = last_run(export["history"])
    jobs = [
        {
            "id": f"{number}.{place}",
            "stageSlug": "run",
            "stepKey": task["name"],
            "jobType": "EXECUTE",
            "status": status(task, is_last=number == 0),
        }
        for number, state in enumerate(run)
        for place, task in enumerate(state["tasks"])
        if task["name"] not in ENDS
    ]
    has_ended = bool(run) and not run[0]["tasks"]
    steps = [
        {"stepKey": node, "jobType": "EXECUTE", "granularityStrategy": "all_to_one"}
        for node in nodes
    ]
    stage = {"slug": "run", "recipe": {"steps": steps, "edges": forward(nodes, edges)}}
    return {
        "dag": {"slug": "run", "stages": [stage]},
        "stageRuns": [{"stageSlug": "run", "closed": nodes if has_ended else []}],
        "jobs": jobs,
        "resources": [],
    }


def status(task: dict[str, Any], *, is_last: bool) -> str:
    if task.get("result") is not None or not is_last:
        return "completed"
    return "failed" if task.get("error") is not None else "processing"


def last_run(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the states of the last run, newest first, back to its input."""
    states = {state["checkpoint"]["checkpoint_id"]: state for state in history}
    state = states[max(states)] if states else None
    run = []
    while state is not None:
        run.append(state)
        is_input = state["metadata"]["source"] == "input"
        parent = {} if is_input else state.get("parent_checkpoint") or {}
        state = states.get(parent.get("checkpoint_id"))
    return run


def forward(nodes: list[str], edges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the edges between these nodes, except those that lead back to an earlier node."""
    after: dict[str, set[str]] = {node: set() for node in nodes}

    def reaches(node: str, target: str) -> bool:
        return node == target or any(reaches(following, target) for following in after[node])

    kept = []
    for source, target in edges:
        if not ENDS & {source, target} and not reaches(target, source):
            after[source].add(target)
            kept.append((source, target))
    return kept


if __name__ == "__main__":
    print(json.dumps(convert(json.loads(Path(sys.argv[1]).read_text()))))
