"""Time that the plugin's hook script takes for each event of a client, compared with `python3`.

The comparison is with `python3` running an empty program. If `python3` is a slow script of a
version manager such as pyenv, the interpreter that the script starts is measured instead. The hook
starts without the module `site`, which loads slowly on machines where packages extend it. On such
machines, the hook looks faster than it is. The CPU time is therefore also compared with that of a
program that is started like the hook, and only imports `json`.

    python benchmarks/hook.py [--rounds 21]
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HOOK = Path(__file__).resolve().parents[1] / "src" / "waybook" / "plugins" / "waybook_hook.py"
#: Maximum time of the hook, as a multiple of the empty program's. When this limit was chosen, the
#: hook took 60 ms, and the empty program 78 ms.
LIMIT = 60 / 78
#: Maximum CPU time of the hook, as a multiple of that of a program which only imports `json`.
CPU_LIMIT = 1.3
PLAIN, IMPORTING = "plain python3", "import json"
EVENTS = ("SessionStart", "PreCompact", "Stop")
STATE = {
    "format": 1,
    "plan": {"planId": "p", "name": "Rivers", "status": "executing", "done": 3, "total": 13},
    "steps": [{"planId": "p", "stepId": "s", "attempt": 1, "order": 4, "title": "Measure"}],
    "next": "submit_step_result",
}


class Cost(NamedTuple):
    """Seconds from the start of a program to its end, and CPU seconds."""

    elapsed: float
    cpu: float


def cpu_seconds() -> float:
    """Return the CPU time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(command: list[str], text: str, data_dir: Path) -> Cost:
    environment = {**os.environ, "WAYBOOK_DATA_DIR": str(data_dir)}
    started, before = time.perf_counter(), cpu_seconds()
    subprocess.run(command, input=text.encode(), env=environment, capture_output=True, check=True)
    return Cost(time.perf_counter() - started, cpu_seconds() - before)


def find_interpreter() -> str:
    """Return the path of the interpreter that `python3` starts."""
    command = ["python3", "-c", "import sys; print(sys.executable)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def measure(python: str, rounds: int) -> dict[str, list[Cost]]:
    """In each round, run each program, and the hook for each event; return the costs by name."""
    commands = {
        PLAIN: ([python, "-c", "pass"], ""),
        IMPORTING: ([python, "-I", "-S", "-c", "import json"], ""),
    }
    for event in EVENTS:
        text = json.dumps({"hook_event_name": event, "session_id": "one"})
        commands[event] = ([python, "-I", "-S", str(HOOK)], text)
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        (data_dir / "conversations").mkdir()
        state = data_dir / "conversations" / "one.json"
        state.write_text(json.dumps(STATE), "utf-8")
        for _ in range(rounds):
            for name, (command, text) in commands.items():
                costs[name].append(run(command, text, data_dir))
    return costs


def main() -> int:
    """Print the median times; return 1 if the hook exceeds a limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=21)
    python = find_interpreter()
    costs = measure(python, parser.parse_args().rounds)
    elapsed = {name: statistics.median(c.elapsed for c in all_) for name, all_ in costs.items()}
    cpu = {name: statistics.median(c.cpu for c in all_) for name, all_ in costs.items()}
    print(f"{python:14} {'time':>9} {'CPU':>9}")
    for name in costs:
        print(f"{name:14} {elapsed[name] * 1000:6.1f} ms {cpu[name] * 1000:6.1f} ms")
    slowest = max(elapsed[event] for event in EVENTS) / elapsed[PLAIN]
    dearest = max(cpu[event] for event in EVENTS) / cpu[IMPORTING]
    print(f"slowest event / plain python3: {slowest:.2f} (limit {LIMIT:.2f})")
    print(f"CPU of the slowest event / import json: {dearest:.2f} (limit {CPU_LIMIT:.2f})")
    return int(slowest > LIMIT or dearest > CPU_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
