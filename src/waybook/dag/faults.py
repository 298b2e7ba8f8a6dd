"""What can be wrong with a definition: each fault by its name, its place, and in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from waybook.errors import BadRecipe

#: More than this many faults at once help nobody.
MAX_DIAGNOSTICS = 20


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, and where."""

    name: str
    at: str
    message: str

    def as_json(self) -> dict[str, str]:
        """The fault as it stands in the error."""
        return {"fault": self.name, "at": self.at, "message": self.message}


def bad_recipe_error(faults: Sequence[Diagnostic]) -> BadRecipe:
    """The error that tells of these faults, the first of them in its message."""
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return BadRecipe(
        f"{first.at}: {first.message}{more}",
        fault=first.name,
        at=first.at,
        faults=[fault.as_json() for fault in faults[:MAX_DIAGNOSTICS]],
    )
