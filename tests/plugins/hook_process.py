"""Hook script in a separate process, and the state files that it reads."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from patience import PATIENCE_SECONDS

ROOT: Final = Path(__file__).resolve().parents[2]
HOOK: Final = ROOT / "src" / "waybook" / "plugins" / "waybook_hook.py"
#: Process id that cannot exist, because it exceeds the maximum on Linux.
NO_PROCESS: Final = 2**30

PLAN: Final = "0199aaaa-0000-7000-8000-000000000001"
STEP: Final = "0199aaaa-0000-7000-8000-000000000002"


@dataclass(frozen=True)
class HookFolder:
    """Data directory with the state files of conversations."""

    path: Path

    @property
    def states(self) -> Path:
        return self.path / "conversations"

    def write(self, key: str, **fields: object) -> dict[str, Any]:
        state = {**make_state(), "directory": str(self.path.resolve()), **fields}
        self.states.mkdir(exist_ok=True)
        (self.states / f"{key}.json").write_text(json.dumps(state), "utf-8")
        return state

    def run(self, event: object, **environment: str) -> str:
        """Run the hook for an event and check that it succeeds; return its output."""
        text = event if isinstance(event, bytes) else json.dumps(event).encode()
        done = subprocess.run(
            ["python3", "-I", "-S", str(HOOK)],
            input=text,
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
            env={
                "PATH": "/usr/bin:/bin:/usr/local/bin",
                "WAYBOOK_DATA_DIR": str(self.path),
                **environment,
            },
            cwd=self.path,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def event(self, name: str, session: str = "one", **fields: object) -> str:
        cwd = str(self.path)
        return self.run({"hook_event_name": name, "session_id": session, "cwd": cwd, **fields})

    def injected(self, name: str = "SessionStart", session: str = "one") -> str:
        """Return the text that the hook adds to a conversation, or an empty text."""
        output = self.event(name, session, source="compact")
        if not output:
            return ""
        body = json.loads(output)["hookSpecificOutput"]
        assert body["hookEventName"] == name
        return str(body["additionalContext"])


def make_state(**fields: object) -> dict[str, Any]:
    """Return the state of a conversation that holds a step."""
    step = {"planId": PLAN, "stepId": STEP, "attempt": 2, "order": 4, "title": "Measure"}
    return {
        "format": 1,
        "plan": {"planId": PLAN, "name": "Rivers", "status": "executing", "done": 3, "total": 13},
        "steps": [{**step, "sessionId": "main"}],
        "next": "submit_step_result",
        "sessionId": "main",
        "client": NO_PROCESS,
        "process": NO_PROCESS,
        **fields,
    }
