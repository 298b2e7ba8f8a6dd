"""From a document's content to a page for people: template, Markdown, sanitised HTML.

Nothing an author writes makes this fail: what cannot be rendered is shown as it came, under a line
that says so. The cost is linear in the content, and what is too long to be laid out is not.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from waybook.conditions.values import Json
from waybook.dag.readable import code_block, one_line, to_text
from waybook.dag.template_engine import strip_unstorable
from waybook.dag.templates import DEFAULT_DOCUMENT, render_document
from waybook.errors import WaybookError

#: A Markdown text longer than this, or with more marks than this, is not laid out.
MAX_CHARACTERS = 1 << 18
MAX_MARKUP_CHARACTERS = 30_000
#: What a text that cannot be rendered is cut at.
MAX_FALLBACK_LENGTH = 1 << 20

_BLOCKS = frozenset(
    {"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"}
)
_TABLES = frozenset({"table", "tbody", "td", "th", "thead", "tr"})
_INLINE = frozenset({"a", "br", "code", "em", "s", "strong"})
TAGS = _BLOCKS | _TABLES | _INLINE
ATTRIBUTES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"a": frozenset({"href", "title"}), "ol": frozenset({"start"})}
)
SCHEMES = frozenset({"http", "https", "mailto"})

_MARKS = re.compile(r"[\[\]!*_`~|<>&\\#\n]")
_FENCED = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A document for people, in both forms."""

    markdown: str
    html: str


def render(template: str | None, context: Mapping[str, Json]) -> Rendered:
    """The document as its template shows it; without one, as it is, or its JSON made readable."""
    try:
        markdown = render_document(template or DEFAULT_DOCUMENT, context)
        return Rendered(markdown, markdown_to_html(markdown))
    except WaybookError as error:
        return _as_it_came(context, str(error))
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return _as_it_came(context, "its form is beyond us")


def parse_content(text: str) -> Json:
    r"""What a template sees as the content: a JSON object or array if it is one, else the text.

    >>> parse_content('{"a": 1}'), parse_content("12"), parse_content("```json\n[1]\n```")
    ({'a': 1}, '12', [1])
    """
    fenced = _FENCED.match(text)
    try:
        value: Json = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text


def _as_it_came(context: Mapping[str, Json], why: str) -> Rendered:
    """The text under a line that says why it is not rendered; nothing in it means anything."""
    text = strip_unstorable(to_text(context.get("text")))[:MAX_FALLBACK_LENGTH]
    told = strip_unstorable(one_line(why))
    warning = f"This document could not be rendered ({told}); it is shown as it came."
    html = f"<blockquote><p>{escape(warning)}</p></blockquote>\n{_preformatted(text)}"
    return Rendered(f"> {warning}\n\n{code_block(text)}", sanitize(html))


def _preformatted(text: str) -> str:
    return f"<pre><code>{escape(text, quote=False)}</code></pre>\n"


def markdown_to_html(markdown: str) -> str:
    """Markdown as sanitised HTML; what is too long for that is shown as it is."""
    if len(markdown) <= MAX_CHARACTERS and len(_MARKS.findall(markdown)) <= MAX_MARKUP_CHARACTERS:
        return sanitize(_LAYOUT.render(markdown))
    warning = "This document is too long to be laid out; it is shown as it is."
    return sanitize(f"<blockquote><p>{warning}</p></blockquote>\n{_preformatted(markdown)}")


def sanitize(html: str) -> str:
    """HTML with nothing in it but text, its structure, and links that lead where they say."""
    return nh3.clean(
        html,
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        attribute_filter=_attribute,
        url_schemes=set(SCHEMES),
        link_rel="noopener noreferrer nofollow",
    )


def _attribute(_tag: str, name: str, value: str) -> str | None:
    """The attribute's value, or None to drop it: a link leads to another place, or nowhere."""
    if name == "href" and value.partition(":")[0].lower() not in SCHEMES:
        return None
    return value


def _image(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: OptionsDict,
    environment: EnvType,
) -> str:
    """A link in place of an image: a page loads nothing from elsewhere."""
    token = tokens[place]
    text = renderer.renderInlineAsText(token.children, options, environment) or "image"
    return f'<a href="{escape(str(token.attrGet("src") or ""))}">{escape(text)}</a>'


def _layout() -> MarkdownIt:
    layout = MarkdownIt("commonmark", {"html": False, "linkify": False})
    layout.enable(["table", "strikethrough"])
    layout.add_render_rule("image", _image)
    return layout


_LAYOUT = _layout()
