"""Shows Markdown texts of agents in the terminal."""

from markdown_it import MarkdownIt
from rich.markdown import Markdown

#: HTML tags are kept as text, because a reviewer would otherwise not see them.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def terminal_markdown(text: str) -> Markdown:
    """Return Markdown for the console, with each link's address next to its text."""
    shown = Markdown(text, hyperlinks=False)
    shown.parsed = _PARSER.parse(text)
    return shown
