"""Renders documents: from a template to Markdown, sanitized HTML, and a standalone page.

Content that cannot be rendered is shown unchanged, below an explanation.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from types import MappingProxyType

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from waybook.conditions.values import Json
from waybook.core.hidden_characters import escape_hidden, escape_hidden_in_html
from waybook.dag.templates.engine import strip_unstorable
from waybook.dag.templates.filters import code_block, one_line, to_text
from waybook.dag.templates.template import DEFAULT_DOCUMENT, TemplateKind, render_template
from waybook.errors import WaybookError

#: Texts that exceed one of these limits are not formatted.
MAX_CHARACTERS = 1 << 18
MAX_MARKUP_CHARACTERS = 30_000
_MAX_FALLBACK_LENGTH = 1 << 20

_BLOCKS = frozenset(
    {"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"}
)
_TABLES = frozenset({"table", "tbody", "td", "th", "thead", "tr"})
_INLINE = frozenset({"a", "br", "code", "em", "s", "strong"})
TAGS = _BLOCKS | _TABLES | _INLINE
_CELL = frozenset({"class"})
ATTRIBUTES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"a": frozenset({"href", "title"}), "ol": frozenset({"start"}), "td": _CELL, "th": _CELL}
)
#: Classes of table cells. The styles that Markdown gives them are not allowed in pages.
ALIGNMENTS = frozenset({"center", "right"})
_SCHEMES = frozenset({"http", "https", "mailto"})

_MARKS = re.compile(r"[\[\]!*_`~|<>&\\#\n]")


@dataclass(frozen=True, slots=True)
class Rendered:
    markdown: str
    html: str


def render(template: str | None, context: Mapping[str, Json]) -> Rendered:
    """Render a document with its template. Without a template, the result is text or JSON."""
    try:
        markdown = render_template(template or DEFAULT_DOCUMENT, TemplateKind.DOCUMENT, context)
        return Rendered(markdown, markdown_to_html(markdown))
    except WaybookError as error:
        return _as_it_came(context, str(error))
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return _as_it_came(context, "its structure is not supported")


def _as_it_came(context: Mapping[str, Json], why: str) -> Rendered:
    text = strip_unstorable(to_text(context.get("text")))[:_MAX_FALLBACK_LENGTH]
    reason = strip_unstorable(one_line(why))
    warning = f"This document could not be rendered ({reason}); it is shown unchanged."
    html = f"<blockquote><p>{escape(warning)}</p></blockquote>\n{_preformatted(text)}"
    return Rendered(f"> {warning}\n\n{code_block(text)}", sanitize(html))


def _preformatted(text: str) -> str:
    return f"<pre><code>{escape(text, quote=False)}</code></pre>\n"


def markdown_to_html(markdown: str) -> str:
    if len(markdown) <= MAX_CHARACTERS and len(_MARKS.findall(markdown)) <= MAX_MARKUP_CHARACTERS:
        return sanitize(_LAYOUT.render(markdown))
    warning = "This document is too long to be formatted; it is shown unchanged."
    return sanitize(f"<blockquote><p>{warning}</p></blockquote>\n{_preformatted(markdown)}")


def sanitize(html: str) -> str:
    """Reduce HTML to text, structure, and links with allowed schemes."""
    return nh3.clean(
        html,
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        attribute_filter=_attribute,
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
    )


def _attribute(_tag: str, name: str, value: str) -> str | None:
    if name == "href" and value.partition(":")[0].lower() not in _SCHEMES:
        return None
    return None if name == "class" and value not in ALIGNMENTS else value


def _align(state: StateCore) -> None:
    """Give table cells a class in place of a style for their alignment."""
    for token in state.tokens:
        if style := token.attrs.pop("style", None) if token.tag in {"td", "th"} else None:
            token.attrSet("class", str(style).removeprefix("text-align:"))


def _image(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: OptionsDict,
    environment: EnvType,
) -> str:
    """Return a link in place of an image, so that pages load no external content."""
    token = tokens[place]
    text = renderer.renderInlineAsText(token.children, options, environment) or "image"
    return f'<a href="{escape(str(token.attrGet("src") or ""))}">{escape(text)}</a>'


_LAYOUT = MarkdownIt("commonmark", {"html": False, "linkify": False})
_LAYOUT.enable(["table", "strikethrough"])
_LAYOUT.add_render_rule("image", _image)
_LAYOUT.core.ruler.push("align", _align)

_STYLE = """\
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.55;
  font-family: system-ui, sans-serif; }
pre, code { font-family: ui-monospace, monospace; font-size: 0.92em; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8884; border-radius: 4px; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid #8884; padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
.right { text-align: right; }
.center { text-align: center; }
blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid #8888; }
hr { border: 0; border-top: 1px solid #8888; }
"""
_DIGEST = b64encode(sha256(_STYLE.encode()).digest()).decode()

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)


def build_page(title: str, html: str) -> str:
    """Return a standalone HTML page with a sanitized document.

    >>> "<title>a &lt; b</title>" in build_page("a < b", "<p>Text</p>")
    True
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="content-security-policy" content="{CONTENT_SECURITY_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(escape_hidden(title))}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{escape_hidden_in_html(html)}\n</body>\n</html>\n"
    )
