"""Error for client configuration files that cannot be edited safely."""


class ConfigError(ValueError):
    """Configuration text that cannot be read or edited. The error names the line."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


def line_of(text: str, position: int) -> int:
    r"""Return the number of the line that contains this position.

    >>> line_of("a\nb", 2)
    2
    """
    return text.count("\n", 0, position) + 1
