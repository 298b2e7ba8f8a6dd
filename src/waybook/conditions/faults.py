"""What can go wrong with a condition, told in one sentence with its place in the text."""


class ConditionError(Exception):
    """An error of the condition; CEL's `&&` and `||` may absorb it during evaluation.

    >>> str(ConditionError("unknown name 'score'", 0, "did you mean result.score?"))
    "unknown name 'score' at position 0; did you mean result.score?"
    """

    def __init__(self, text: str, at: int, advice: str = "", *, hint: str | None = None) -> None:
        """Say what was found, where, and how to mend it; `hint` is the mended piece as data."""
        self.text = text
        self.at = at
        self.advice = advice
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.text} at position {self.at}"
        return f"{place}; {self.advice}" if self.advice else place
