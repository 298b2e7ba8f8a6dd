"""A rendered document as a page that stands alone: no script runs in it, nothing is loaded."""

import re
from base64 import b64encode
from hashlib import sha256
from html import escape

from waybook.record.oddities import contains_hidden, escape_hidden

STYLE = """\
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.55;
  font-family: system-ui, sans-serif; }
pre, code { font-family: ui-monospace, monospace; font-size: 0.92em; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8884; border-radius: 4px; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid #8884; padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid #8888; }
hr { border: 0; border-top: 1px solid #8888; }
"""
MAX_NAME_LENGTH = 80
#: Texts have their angle brackets escaped, and so have values of attributes.
_BETWEEN = re.compile(r"(?<=>)[^<]+|\A[^<]+")
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")
_DIGEST = b64encode(sha256(STYLE.encode()).digest()).decode()

#: What the page may do: show itself, in this style, and nothing else.
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)


def build_page(title: str, html: str) -> str:
    """The page of a document that was sanitised.

    >>> "<title>a &lt; b</title>" in build_page("a < b", "<p>Text</p>")
    True
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="content-security-policy" content="{CONTENT_SECURITY_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(escape_hidden(title))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{escape_hidden_characters(html)}\n</body>\n</html>\n"
    )


def escape_hidden_characters(html: str) -> str:
    r"""HTML in which no character between its tags hides or turns text around.

    >>> escaped = escape_hidden_characters("<p title='\u202e'>a\u202eb</p>")
    >>> escaped == "<p title='\u202e'>a⟦U+202E⟧b</p>"
    True
    """
    return (
        _BETWEEN.sub(lambda text: escape_hidden(text[0]), html) if contains_hidden(html) else html
    )


def safe_file_name(name: str) -> str:
    """A name that is safe as the name of a file, wherever it is kept.

    >>> safe_file_name("../a b"), safe_file_name("gpt-4.1"), safe_file_name("…")
    ('a-b', 'gpt-4.1', 'document')
    """
    return _UNUSUAL.sub("-", name).strip("-.")[:MAX_NAME_LENGTH] or "document"
