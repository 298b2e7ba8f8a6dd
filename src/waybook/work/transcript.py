"""Variables that an agent gets, and the transcript of its output, without secrets."""

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from waybook.json_values import Json
from waybook.redaction import redactor
from waybook.work.adapters import Adapter
from waybook.work.output import Tail
from waybook.work.tasks import Task

#: Variables that every agent gets from this process, if they are set.
PASSED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LC_*", "XDG_*"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "IS_SANDBOX"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
#: Names of variables and headers whose value is masked.
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth|cookie", re.IGNORECASE)
MIN_SECRET_LENGTH: Final = 6
MAX_SHOWN_LENGTH: Final = 2_000
MAX_TRANSCRIPT_BYTES: Final = 256 * 1024
_BEGIN_BYTES = MAX_TRANSCRIPT_BYTES // 4
_END_BYTES = MAX_TRANSCRIPT_BYTES - _BEGIN_BYTES


class Transcript:
    """Beginning and end of an agent's output. Secrets are masked in it, in lines and results."""

    def __init__(self, hidden: set[str], on_line: Callable[[str], None]) -> None:
        listed = {each for each in hidden if len(each) >= MIN_SECRET_LENGTH}
        listed |= {json.dumps(each)[1:-1] for each in listed}
        self._secrets = sorted(listed, key=len, reverse=True)
        self.mask = redactor(listed)
        self._on_line = on_line
        self._begin = ""
        self._room = _BEGIN_BYTES
        self._end = Tail(_END_BYTES)
        self._left_out = 0

    def hide(self, text: str) -> str:
        """Replace the known secrets only: content of the agent is not changed otherwise."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text.encode(errors="replace").decode()

    def hide_in(self, value: Json) -> Json:
        match value:
            case str():
                return self.hide(value)
            case dict():
                return {self.hide(name): self.hide_in(inner) for name, inner in value.items()}
            case list():
                return [self.hide_in(inner) for inner in value]
        return value

    def add(self, line: str) -> None:
        line += "\n"
        if len(line) > (self._room if self._room > 0 else _END_BYTES):
            # Masked before it is cut, because a cut secret would not be recognized.
            line = self.mask(line)
        if self._room > 0:
            self._begin += line[: self._room]
        else:
            self._end.add(line)
            self._left_out += len(line)
        self._room -= len(line)

    def show(self, line: str) -> None:
        """Pass a line on to people."""
        self._on_line(self.mask(line[:MAX_SHOWN_LENGTH]))

    def note(self, text: str) -> None:
        self.add(f"[waybook] {text}")
        self.show(text)

    def __bytes__(self) -> bytes:
        end = str(self._end)
        gap = self._left_out - len(end)
        middle = f"[waybook] {gap:,} characters left out\n" if gap > 0 else ""
        return self.mask(f"{self._begin}{middle}{end}").encode(errors="replace")


def allowed_variables(environment: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Return the variables with one of these names; `*` stands for any ending.

    >>> allowed_variables({"LANG": "C", "LC_ALL": "C", "AWS_KEY": "k"}, ("LANG", "LC_*"))
    {'LANG': 'C', 'LC_ALL': 'C'}
    """
    exact = {name for name in names if not name.endswith("*")}
    beginnings = tuple(name[:-1] for name in names if name.endswith("*"))
    return {
        name: value
        for name, value in environment.items()
        if name in exact or name.startswith(beginnings)
    }


def secrets_of(adapter: Adapter, task: Task) -> set[str]:
    """Return the values that must not appear in lines, transcripts and results."""
    passed = allowed_variables(os.environ, (*PASSED, *adapter.pass_variables))
    server: Mapping[str, Any] = task.mcp_server or {}
    headers: dict[str, str] = server.get("headers", {})
    named = {**passed, **adapter.set_variables, **task.environment, **server.get("env", {})}
    secrets = {value for name, value in named.items() if _SECRET_NAME.search(name)}
    # A header such as `Bearer …` contains its secret as the last word.
    return {*secrets, *task.secrets, *(value.split()[-1] for value in headers.values() if value)}
