"""Progress bar on stderr for long commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Report(Protocol):
    def __call__(self, done: int, total: int, size: int = 0, /) -> None: ...


@contextmanager
def progress_bar(what: str, *, is_shown: bool = True) -> Iterator[Report]:
    """Show a bar during the block, which reports what is done, the total and the size in bytes."""
    size_column, left = TextColumn("{task.fields[size]}"), TimeRemainingColumn()
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), size_column, left)
    stderr = Console(stderr=True)
    with Progress(*columns, console=stderr, transient=True, disable=not is_shown) as bar:
        task = bar.add_task(what, total=None, size="")

        def report(done: int, total: int, size: int = 0, /) -> None:
            shown = f"rows {decimal(size)}" if size else ""
            bar.update(task, completed=done, total=total, size=shown)

        yield report
