"""A terminal that shows stored texts and obeys none of them.

What somebody stored may have escape sequences in it, characters that turn text around, or the
marks that rich reads as colours and links. Here it all is text.
"""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from waybook.record.oddities import contains_hidden, escape_hidden


class SafeConsole(Console):
    """Where people read: strings are text, and what nobody could see is written out."""

    def __init__(self) -> None:
        """A terminal on stdout."""
        super().__init__(highlight=False, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What is drawn, in pieces; controls that are rich's own are no texts."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            is_plain = bool(control) or not contains_hidden(text)
            yield segment if is_plain else Segment(escape_hidden(text), style)
