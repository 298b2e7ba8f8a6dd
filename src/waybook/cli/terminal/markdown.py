"""Display of Markdown texts, which agents wrote, in a terminal."""

from markdown_it import MarkdownIt
from rich.markdown import Markdown

#: Parser that keeps HTML tags as text: rich drops them, so that a reviewer would not see them.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def terminal_markdown(text: str) -> Markdown:
    """Return Markdown for the console, with the address of each link next to its text."""
    shown = Markdown(text, hyperlinks=False)
    shown.parsed = _PARSER.parse(text)
    return shown
