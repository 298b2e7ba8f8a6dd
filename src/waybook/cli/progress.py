"""Progress bar on stderr for long commands."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.filesize import decimal

from waybook.cli.lazy import load


class Report(Protocol):
    def __call__(self, done: int, total: int, size: int = 0, /) -> None: ...


@contextmanager
def progress_bar(what: str, *, is_shown: bool = True) -> Iterator[Report]:
    """Show a progress bar during the block, and yield the function that updates the bar."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda *_: None
        return
    names = ("Progress", "TextColumn", "BarColumn", "MofNCompleteColumn", "TimeRemainingColumn")
    progress, text, bar, count, left = (load(f"rich.progress:{name}") for name in names)
    columns = (text(what), bar(), count(), text("{task.fields[size]}"), left())
    with progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None, size="")

        def report(done: int, total: int, size: int = 0, /) -> None:
            note = f"rows {decimal(size)}" if size else ""
            shown.update(task, completed=done, total=total, size=note)

        yield report
