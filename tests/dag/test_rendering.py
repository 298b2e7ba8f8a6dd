import json
from html.parser import HTMLParser

import nh3
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from any_json import SCALARS, any_json
from waybook.conditions.values import Json
from waybook.dag.templates.rendering import (
    ATTRIBUTES,
    MAX_CHARACTERS,
    MAX_MARKUP_CHARACTERS,
    TAGS,
    Rendered,
    render,
    sanitize,
)
from waybook.dag.templates.template import SAMPLE_CONTEXTS, TemplateKind
from waybook.json_values import parse_content

REL = 'rel="noopener noreferrer nofollow"'


def page(text: str, template: str | None = None) -> Rendered:
    context = {
        **SAMPLE_CONTEXTS[TemplateKind.DOCUMENT],
        "text": text,
        "content": parse_content(text),
    }
    return render(template, context)


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("# One\n\ntwo", "<h1>One</h1>\n<p>two</p>\n"),
        ("*a* **b** `c` ~~d~~", "<p><em>a</em> <strong>b</strong> <code>c</code> <s>d</s></p>\n"),
        ("a  \nb", "<p>a<br>\nb</p>\n"),
        ("3. a\n4. b", '<ol start="3">\n<li>a</li>\n<li>b</li>\n</ol>\n'),
        ("```python\nx < 1\n```", "<pre><code>x &lt; 1\n</code></pre>\n"),
        ("https://a.b", "<p>https://a.b</p>\n"),
        ("[a](https://b.c 'd')", f'<p><a href="https://b.c" title="d" {REL}>a</a></p>\n'),
        ("[a](mailto:b@c.d)", f'<p><a href="mailto:b@c.d" {REL}>a</a></p>\n'),
        ("![a *b*](https://c.d/e.png)", f'<p><a href="https://c.d/e.png" {REL}>a b</a></p>\n'),
        ("![](https://c.d/e.png)", f'<p><a href="https://c.d/e.png" {REL}>image</a></p>\n'),
    ],
)
def test_markdown_is_rendered_as_html(markdown: str, html: str) -> None:
    assert page(markdown) == Rendered(markdown, html)


def test_markdown_table_keeps_the_alignment_without_a_style_attribute() -> None:
    html = page("| a | b | c |\n| --- | ---: | :-: |\n| 1 | 2 | 3 |").html
    assert '<th class="right">b</th>' in html
    assert '<td>1</td>\n<td class="right">2</td>\n<td class="center">3</td>' in html
    assert "style" not in html


def test_table_cells_keep_no_other_class() -> None:
    cells = '<table><tr><td class="right">1</td><td class="rail">2</td></tr></table>'
    assert "rail" not in sanitize(cells)
    assert '<td class="right">' in sanitize(cells)


@pytest.mark.parametrize(
    "text",
    [
        *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>"),
        *("<iframe src='https://a.b'></iframe>", "[a](javascript:alert(1))"),
        *("[a](JaVaScRiPt:alert(1))", "[a](data:text/html,<script>)", "[a](vbscript:x)"),
        *("[a](/relative)", "[a](//other.host)", "[a](file:///etc/passwd)"),
        *("![a](javascript:alert(1))", "<javascript:alert(1)>"),
    ],
)
def test_hostile_markdown_is_rendered_without_links_or_unsafe_html(text: str) -> None:
    html = page(text).html
    assert faults_of(html) == []
    assert "href" not in html


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        (' \n```json\n{"a": 1}\n```\n', {"a": 1}),
        ("```\n[1]\n```", [1]),
        ("```json\nnot json\n```", "```json\nnot json\n```"),
        ("12", "12"),
        ("null", "null"),
        ('"text"', '"text"'),
        ("{", "{"),
        ("[" * 100_000, "[" * 100_000),
        ("[1" + "0" * 5_000 + "]", "[1" + "0" * 5_000 + "]"),
    ],
)
def test_document_content_is_parsed_only_if_json_object_or_list(text: str, content: Json) -> None:
    assert parse_content(text) == content


def test_json_document_without_template_becomes_headings_and_tables() -> None:
    document = page('{"title": "T", "rows": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}')
    assert "<h2>Rows</h2>\n<table>" in document.html
    assert document == page('{"title": "T", "rows": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}', "")


def test_document_template_inserts_content_and_document_fields() -> None:
    document = page('{"name": "Ann"}', "# {{ content.name }}\n\nby {{ document.model }}")
    assert document == Rendered("# Ann\n\nby model-1", "<h1>Ann</h1>\n<p>by model-1</p>\n")


@pytest.mark.parametrize("template", ["{{ nonsense }}", "{% if", "{{ text.upper() }}"])
def test_document_with_an_invalid_template_is_shown_as_raw_text(template: str) -> None:
    document = page("a <b> *c*", template)
    assert "could not be rendered" in document.markdown
    assert document.markdown.endswith("```\na <b> *c*\n```")
    assert document.html.endswith("<pre><code>a &lt;b&gt; *c*</code></pre>\n")


def test_document_with_too_expensive_template_is_shown_as_raw_text() -> None:
    text = json.dumps(list(range(10_000)))
    template = "{% for a in content %}{% for b in content %}x{% endfor %}{% endfor %}"
    document = page(text, template)
    assert "operations); it is shown unchanged." in document.html
    assert text in document.html


def test_too_deeply_nested_json_document_is_shown_as_raw_text() -> None:
    text = "[" * 200 + "]" * 200
    assert text in page(text).html


@pytest.mark.parametrize(
    "text", ["x" * (MAX_CHARACTERS + 1), "![" * (MAX_MARKUP_CHARACTERS // 2 + 1)]
)
def test_too_long_document_is_shown_as_plain_text(text: str) -> None:
    document = page(text)
    assert document.markdown == text
    assert document.html.endswith(f"<pre><code>{text}</code></pre>\n")
    assert "too long to be formatted" in document.html


def test_rendering_without_document_content_returns_an_error_text() -> None:
    assert "could not be rendered" in render(None, {}).html


class Impossible(dict[str, Json]):
    """Object that raises an error when its fields are read."""

    def values(self) -> None:  # type: ignore[override] # that is the point
        raise LookupError


def test_document_that_cannot_be_rendered_is_shown_as_plain_text() -> None:
    document = render(
        None,
        {**SAMPLE_CONTEXTS[TemplateKind.DOCUMENT], "content": Impossible(a=1), "text": "as it is"},
    )
    assert "its structure is not supported" in document.html
    assert "as it is" in document.html


class Reader(HTMLParser):
    """HTML parser that records forbidden elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        allowed = {*ATTRIBUTES.get(tag, ()), "rel"}
        if tag not in TAGS:
            self.faults.append(tag)
        for name, value in attrs:
            leads_out = (value or "").lower().startswith(("http:", "https:", "mailto:"))
            if name not in allowed or (name == "href" and not leads_out):
                self.faults.append(f"{tag} {name}={value}")

    def handle_comment(self, data: str) -> None:
        self.faults.append(data)

    def handle_decl(self, decl: str) -> None:
        self.faults.append(decl)


def faults_of(html: str) -> list[str]:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader.faults


SCRAPS = [
    "<script>", "</script>", "<img src=x onerror=y>", "<a href='javascript:x'>", "<!--", "-->",
    "javascript:", "[", "]", "(", ")", "](", "<", ">", "![", "`", "```", "*", "_", "~~", "\n",
    "\n\n", "> ", "- ", "1. ", "# ", "| a | b |\n", "| - | - |\n", "http://", "mailto:", "&",
    "&lt;", "&#106;", "\\", '"', "'", "onload=", "<svg/onload=x>", "[a]: javascript:x\n",
    "[a]", "    ",
]  # fmt: skip
MARKDOWN = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=4), max_size=20).map("".join)
VALUES = any_json(scalars=SCALARS | MARKDOWN)


@given(MARKDOWN | VALUES.map(json.dumps))
@example("\0\ud800<script>")
@example('{"a": "\\ud800\\u0000"}')
@example("<pre>\n\n\nx")
def test_any_text_is_rendered_as_a_safe_html_page(text: str) -> None:
    document = page(text)
    assert faults_of(document.html) == []
    assert sanitize(document.html) == document.html
    assert nh3.clean(document.html, link_rel=REL[5:-1]) == document.html
    (document.html + document.markdown).encode()
    assert "\0" not in document.html + document.markdown


@settings(max_examples=50, deadline=None)
@given(MARKDOWN, VALUES)
def test_any_template_and_content_render_as_a_safe_page(template: str, content: Json) -> None:
    laid_out = f"{template} {{{{ content }}}} <{{{{ content }}}}> [a]({{{{ content|join }}}})"
    context = {**SAMPLE_CONTEXTS[TemplateKind.DOCUMENT], "content": content}
    assert faults_of(render(laid_out, context).html) == []
