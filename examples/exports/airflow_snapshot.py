"""Convert a run of Airflow to a snapshot.

Usage: python airflow_snapshot.py run.json | waybook report -

The file has the answers of two routes of Airflow's API, as one object with `tasks` and
`task_instances`. It can also be the output of `airflow tasks states-for-dag-run --output json`.
"""
# ruff: noqa: INP001, T201 - an example that is run as a program

import json
import sys
from pathlib import Path
from typing import Any

#: As in Airflow, a task that cannot run because a task before it failed counts as failed.
STATUSES = {
    **dict.fromkeys(("scheduled", "queued", "running", "restarting"), "processing"),
    **dict.fromkeys(("up_for_retry", "up_for_reschedule", "deferred"), "waiting"),
    "awaiting_input": "waiting",
    "success": "completed",
    "skipped": "completed",
    "failed": "failed",
    "upstream_failed": "failed",
}


def convert(export: Any) -> dict[str, object]:  # noqa: ANN401 - JSON
    data = {"task_instances": export} if isinstance(export, list) else export
    instances = [row for row in data["task_instances"] if row.get("state") != "removed"]
    tasks = data.get("tasks") or [{"task_id": row["task_id"]} for row in instances]
    name = next((row["dag_id"] for row in instances if row.get("dag_id")), "dag")
    after = {task["task_id"]: task.get("downstream_task_ids") or [] for task in tasks}
    reached = {row["task_id"] for row in instances if row.get("state")}
    jobs = [
        {
            "id": str(number),
            "stageSlug": name,
            "stepKey": row["task_id"],
            "jobType": "EXECUTE",
            # A task instance without a state has not started. Airflow lists it only if another
            # instance of the task has started.
            "status": STATUSES[row["state"]] if row.get("state") else "pending",
        }
        for number, row in enumerate(instances)
        if row["task_id"] in reached
    ]
    steps = [
        {"stepKey": key, "jobType": "EXECUTE", "granularityStrategy": "all_to_one"} for key in after
    ]
    edges = [[key, target] for key, targets in after.items() for target in targets]
    stage = {"slug": name, "recipe": {"steps": steps, "edges": edges}}
    return {
        "dag": {"slug": name, "stages": [stage]},
        "stageRuns": [{"stageSlug": name}],
        "jobs": jobs,
        "resources": [],
    }


if __name__ == "__main__":
    print(json.dumps(convert(json.loads(Path(sys.argv[1]).read_text()))))
