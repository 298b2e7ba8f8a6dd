"""Time of the hook script for each event, compared with an empty program in plain `python3`.

python benchmarks/hook.py [--rounds 21]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOOK = Path(__file__).resolve().parents[1] / "src" / "waybook" / "plugins" / "waybook_hook.py"
#: Maximum ratio of the hook's time to that of the empty program; 60 ms and 78 ms are measured
#: values.
LIMIT = 60 / 78
EVENTS = ("SessionStart", "PreCompact", "Stop")
STATE = {
    "format": 1,
    "plan": {"planId": "p", "name": "Rivers", "status": "executing", "done": 3, "total": 13},
    "steps": [{"planId": "p", "stepId": "s", "attempt": 1, "order": 4, "title": "Measure"}],
    "next": "submit_step_result",
}


def run(command: list[str], text: str, data_dir: Path) -> float:
    """Return the seconds that a command takes from its start to its end."""
    environment = {**os.environ, "WAYBOOK_DATA_DIR": str(data_dir)}
    started = time.perf_counter()
    subprocess.run(command, input=text.encode(), env=environment, capture_output=True, check=True)
    return time.perf_counter() - started


def main() -> int:
    """Print the median times; return 1 if the hook takes longer than its limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in ("plain python3", *EVENTS)}
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        (data_dir / "conversations").mkdir()
        state = data_dir / "conversations" / "one.json"
        state.write_text(json.dumps(STATE), "utf-8")
        for _ in range(rounds):
            # The events alternate with the empty program, so that other load affects all alike.
            times["plain python3"].append(run(["python3", "-c", "pass"], "", data_dir))
            for event in EVENTS:
                text = json.dumps({"hook_event_name": event, "session_id": "one"})
                command = ["python3", "-I", "-S", str(HOOK)]
                times[event].append(run(command, text, data_dir))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:14} {median * 1000:6.1f} ms")
    slowest = max(medians[event] for event in EVENTS) / medians["plain python3"]
    print(f"slowest event / plain python3: {slowest:.2f} (limit {LIMIT:.2f})")
    return int(slowest > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
