"""Background loops that keep failing, for the health page."""

from dataclasses import dataclass, field

from waybook.errors import WaybookError
from waybook.redaction import redact

#: A loop that failed so often in a row does not do its work.
MAX_FAILURES_IN_A_ROW = 5
MAX_ERROR_LENGTH = 200


@dataclass(slots=True)
class LoopHealth:
    """Failures in a row of each background loop; a success clears them."""

    failures: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def note_failure(self, loop: str, error: Exception) -> int:
        """Count a failure, and return how many there were in a row."""
        self.failures[loop] = self.failures.get(loop, 0) + 1
        # Other errors may quote rows of any org; their text is in the log alone.
        said = str(error) if isinstance(error, WaybookError) else ""
        said = redact(" ".join(said.split()))[:MAX_ERROR_LENGTH]
        self.errors[loop] = f"{type(error).__name__}: {said}" if said else type(error).__name__
        return self.failures[loop]

    def note_success(self, loop: str) -> None:
        """Forget the failures of a loop."""
        self.failures.pop(loop, None)
        self.errors.pop(loop, None)
