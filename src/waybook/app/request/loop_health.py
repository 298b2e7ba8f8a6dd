"""Counts the failures of background loops for the health page."""

from dataclasses import dataclass, field

from waybook.errors import WaybookError
from waybook.redaction import redact

MAX_FAILURES_IN_A_ROW = 5
MAX_ERROR_LENGTH = 200


@dataclass(slots=True)
class LoopHealth:
    """Consecutive failures of each background loop. A success resets them."""

    failures: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def note_failure(self, loop: str, error: Exception) -> int:
        self.failures[loop] = self.failures.get(loop, 0) + 1
        # The message of any other error may contain data of an org, so only the log has it.
        message = str(error) if isinstance(error, WaybookError) else ""
        message = redact(" ".join(message.split()))[:MAX_ERROR_LENGTH]
        self.errors[loop] = (
            f"{type(error).__name__}: {message}" if message else type(error).__name__
        )
        return self.failures[loop]

    def note_success(self, loop: str) -> None:
        self.failures.pop(loop, None)
        self.errors.pop(loop, None)
