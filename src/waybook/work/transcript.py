"""Variables that an agent gets, and the transcript of its output, without secrets."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from waybook.redaction import redactor
from waybook.work.adapters import Adapter
from waybook.work.output import Tail
from waybook.work.tasks import Task

#: Variables that every agent gets from this process, if they are set.
_PASSED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LC_*", "XDG_*"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "IS_SANDBOX"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
#: Names of variables and headers whose value is masked.
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth|cookie", re.IGNORECASE)
_MIN_SECRET_LENGTH: Final = 6
MAX_SHOWN_LENGTH: Final = 2_000
MAX_TRANSCRIPT_LENGTH: Final = 60_000


class Transcript:
    """Last output of an agent. Secrets are masked in it, in lines and results."""

    def __init__(self, hidden: Iterable[str], on_line: Callable[[str], None]) -> None:
        listed = {each for each in hidden if len(each) >= _MIN_SECRET_LENGTH}
        listed |= {json.dumps(each)[1:-1] for each in listed}
        self._secrets = sorted(listed, key=len, reverse=True)
        self.mask = redactor(listed)
        self._on_line = on_line
        self._end = Tail(MAX_TRANSCRIPT_LENGTH)

    def hide(self, text: str) -> str:
        """Replace the known secrets only: content of the agent is not changed otherwise."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text.encode(errors="replace").decode()

    def add(self, line: str) -> None:
        # Masked before it is cut, because a cut secret would not be recognized.
        self._end.add(f"{self.mask(line) if len(line) >= MAX_TRANSCRIPT_LENGTH else line}\n")

    def show(self, line: str) -> None:
        """Pass a line on to people."""
        # Masked before it is cut, as in `add`.
        self._on_line(self.mask(line[: 2 * MAX_SHOWN_LENGTH])[:MAX_SHOWN_LENGTH])

    def note(self, text: str) -> None:
        self.add(f"[waybook] {text}")
        self.show(text)

    def __str__(self) -> str:
        return self.mask(str(self._end))


def variables_of(adapter: Adapter) -> dict[str, str]:
    """Return the variables of this process that the agent may have, and its own ones."""
    allowed = (*_PASSED, *adapter.pass_variables)
    passed = {n: v for n, v in os.environ.items() if any(fnmatchcase(n, name) for name in allowed)}
    return passed | dict(adapter.set_variables)


def secrets_of(adapter: Adapter, task: Task) -> set[str]:
    """Return the values that must not appear in lines, transcripts and results."""
    server: Mapping[str, Any] = task.mcp_server or {}
    named = {**variables_of(adapter), **task.environment, **server.get("env", {})}
    secrets = {value for name, value in named.items() if _SECRET_NAME.search(name)}
    # A header such as `Bearer …` contains its secret as the last word.
    headers = {value.split()[-1] for value in server.get("headers", {}).values() if value}
    return {*secrets, *task.secrets, *headers}
